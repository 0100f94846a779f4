#!/usr/bin/env bash
# Proves: a model compiled with --parallel trains on all ranks of its plan, as threads, as processes and under MPI, to
# the same bits; resumes on another mesh; shows its schedule; reads from peers what the plan states; and every
# misuse, and the death of a rank, gets its exit status and words. Ends with `N passed, N failed`.
# Usage: cli_ranks_test.sh BUILD_FOLDER
build=$(realpath "${1:?usage: cli_ranks_test.sh BUILD_FOLDER}")
. "$(dirname "$0")/../support/cli.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1

same() { expect 0 '' "cmp $1 $2"; }

write_model 'train { batch = 4  steps = 8  optimizer = adamw(lr = 1e-2)  clip = 1  seed = 5 }'

# --- compiling
expect 0 '' 'ptc model.ptm -q -o one'
expect 0 '' 'ptc model.ptm -q --parallel dp=2,zero=1 -o dp --keep-grads'
expect 0 '' 'ptc model.ptm -q --parallel tp=2 -o tp --keep-grads'
expect 0 '"mesh": [["dp", 2]],' 'cat dp/plan.json'
expect 0 '' 'cp -r dp again; ptc model.ptm -q --parallel dp=2,zero=1 -o again --keep-grads && diff -r dp again'

# --- a statement for some turns alone: they are a run of their own
echo 'parallel { tp = 2  shard mlp.1.w1[d, f] on tp over d }' >some.ptm
expect 0 '' 'ptc model.ptm some.ptm -q -o some'
expect 0 '@mlp.1.w1 : f32[d=16 "tp", f=32]' 'ptc model.ptm some.ptm --print-after=partition --no-loc'
expect 0 '@mlp.0.w1 : f32[d=16, f=32 "tp"]' 'ptc model.ptm some.ptm --print-after=partition --no-loc'
expect 0 'proved' 'ptc verify some'
expect 0 'loss' 'ptc run some -q --data=train.txt'

# --- looking
expect 0 '2 ranks: dp=2; of each of them' 'ptc show dp'
expect 0 '"world": 2' 'ptc show dp --format=json'
expect 0 'reduce_scatter' 'ptc show dp schedule'
expect 0 'communication of rank 1' 'ptc show dp schedule --rank=1'
expect 0 'train on ranks 0-1 (tp=2)' 'ptc show tp schedule'
expect 0 'chosen by rule: fewest bytes sent and least waiting' 'ptc model.ptm -q --world 2 -o w && ptc show w why'
expect 0 'eval on one rank' 'ptc show one schedule --task=eval'
expect 0 'step,depth,times,stream,op,about,bytes,group,file,line' 'ptc show dp schedule --format=csv'
expect 0 '"communication"' 'ptc show dp schedule --format=json'
expect 0 '' 'ptc show dp schedule --format=csv | grep -q "comm,all_gather,.*,dp,.*model.ptm,"'
expect 0 'and 1 more' 'ptc show dp schedule | grep all_gather'  # w1 and w2 of a turn go together
expect 0 '' '[ $(ptc show dp schedule --format=csv | grep -c comm,all_gather) = 2 ]'
expect 0 'peak' 'ptc show dp memory'
expect 1 'the last one is 1 [no-rank]' 'ptc show dp schedule --rank=2'
expect 2 'schedule has no --format svg' 'ptc show dp schedule --format=svg'
expect 2 '--rank takes a whole number' 'ptc show dp schedule --rank=x'

# --- running: losses as on one rank, replicas in step, the same bits as processes
expect 0 'loss' 'ptc run one -q --data=train.txt'
expect 0 'loss' 'ptc run dp -q --data=train.txt --dump-grads=g.dp'
expect 0 'loss' 'ptc run tp -q --data=train.txt --dump-grads=g.tp'
losses() { sed 's/.*"step":[0-9]*,"loss":\([0-9.]*\).*/\1/' "$1/metrics.jsonl"; }
near() { paste <(losses "$1") <(losses "$2") |
  awk '{d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-5 * $1) bad = 1} END {exit NR != 8 || bad}'; }
for plan in dp tp some; do
  if near one.run $plan.run; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAILED: $plan: losses are not those of one rank"
    paste <(losses one.run) <(losses $plan.run)
  fi
  [ $plan = some ] || expect 0 '' "test -s g.$plan -a ! -e g.$plan.tmp"
done
expect 0 '' '[ $(stat -c %s g.dp) = $(stat -c %s g.tp) ]'
expect 0 'loss' 'ptc run dp -q --data=train.txt --ranks-as=processes --run-dir=p'
same dp.run/ckpt/step-00000008/model.safetensors p/ckpt/step-00000008/model.safetensors
same dp.run/ckpt/step-00000008/optimizer.safetensors p/ckpt/step-00000008/optimizer.safetensors
expect 0 '' 'ptc run dp -q --data=train.txt --threads=4 --run-dir=t4'
same dp.run/ckpt/step-00000008/model.safetensors t4/ckpt/step-00000008/model.safetensors

# --- communication while kernels compute: the same bits
expect 0 '' 'ptc model.ptm -q --parallel dp=2,zero=3,overlap=on -o behind'
expect 0 '1 turn ahead; after' 'ptc show behind schedule'
expect 0 'proved' 'ptc verify behind'
expect 0 'loss' 'ptc run behind -q --data=train.txt'
same dp.run/ckpt/step-00000008/model.safetensors behind.run/ckpt/step-00000008/model.safetensors
expect 0 'val loss' 'ptc run dp --data=train.txt --val=val.txt --eval-every=4 --run-dir=v --steps=4'
expect 0 '' '[ "$(grep -c train v/metrics.jsonl)" = 4 ]'
expect 0 'planned' 'ptc run dp -q --data=train.txt --run-dir=prof --profile'
expect 0 '' 'ptc run tp -q --data=train.txt --run-dir=proft --profile 2>prof.txt;
  sed "1,/counted/d" prof.txt | awk "{n++; if (\$1 != \$2) exit 1} END {exit n < 1}"'

# --- checkpoints hold whole tensors: any plan goes on
expect 0 '' 'ptc run dp -q --data=train.txt --run-dir=half --steps=4'
for plan in one tp dp; do
  expect 0 '' "cp -r half half.$plan; ptc run $plan -q --data=train.txt --run-dir=half.$plan --resume"
done
same half.dp/ckpt/step-00000008/model.safetensors dp.run/ckpt/step-00000008/model.safetensors
same half.dp/ckpt/step-00000008/optimizer.safetensors dp.run/ckpt/step-00000008/optimizer.safetensors
expect 0 '' '[ $(stat -c %s half.tp/ckpt/step-00000008/model.safetensors) = $(stat -c %s half.one/ckpt/step-00000008/model.safetensors) ]'
eval_of() { ptc eval "$1" -q --data=val.txt --ckpt=half.dp | head -n 1; }
expect 0 '' "[ -n '$(eval_of one)' ]"
expect 0 '' "awk 'BEGIN {d = $(eval_of one | cut -d' ' -f2) - $(eval_of tp | cut -d' ' -f2); exit d * d > 1e-8}'"
expect 0 '' 'ptc sample one -q --ckpt=half.dp --prompt=12 --length=20 --temperature=0 >s.one; ptc sample dp -q --ckpt=half.dp --prompt=12 --length=20 --temperature=0 >s.lone; ptc sample dp -q --ranks-as=threads --ckpt=half.dp --prompt=12 --length=20 --temperature=0 >s.dp; cmp s.one s.dp && cmp s.one s.lone'
expect 0 '' 'ptc export half.dp -o w.safetensors && ptc run tp -q --data=train.txt --init=w.safetensors --run-dir=init --steps=1'
expect 1 '[run-exists]' 'ptc run dp --data=train.txt'
expect 1 '[non-finite-loss]' 'ptc run dp -q --data=train.txt --run-dir=nan --set lr=1e38'

# --- what goes wrong
expect 2 '--ranks-as is threads or processes' 'ptc run dp --ranks-as=boats'
expect 2 '--graph is auto, on or off' 'ptc run dp --graph=maybe'
expect 1 'cannot be launched as one graph: the plan runs on CPUs' 'ptc run dp -q --data=train.txt --run-dir=g --graph=on'
expect 2 '--device takes cuda or gpusim' 'ptc sample dp --device=tpu'
expect 1 'nofile' 'ptc run dp -q --data=nofile --run-dir=x'
expect 1 '[comm-world]' 'for r in 0 1 2; do PTC_RANK=$r PTC_WORLD=3 PTC_RUN=w$$ ptc run dp -q --data=train.txt --run-dir=x & done; wait $!'
expect 1 '[bad-launch]' 'PTC_RANK=2 PTC_WORLD=2 ptc run dp -q --data=train.txt --run-dir=x'
expect 1 'the plan [comm-differs]' 'for r in 0 1; do plan=dp; [ $r = 1 ] && plan=tp; PTC_RANK=$r PTC_WORLD=2 PTC_RUN=d$$ ptc run $plan -q --data=train.txt --run-dir=x & done; wait $!'
expect 4 'was ended by signal 9' 'ptc run dp -q --data=train.txt --run-dir=k --steps=1000000 --ranks-as=processes 2>killed & p=$!
  for i in $(seq 200); do grep -q step k/metrics.jsonl 2>/dev/null && break; sleep 0.1; done
  kill -KILL $(pgrep -P $p | tail -n 1); wait $p; s=$?; cat killed; exit $s'
expect 0 'has died' 'cat killed'
# A rank that hangs: the one that waits for it ends the run, and it is ended, too.
expect 4 'for rank 1 at step' 'PTC_COMM_LIMIT=2 ptc run dp -q --data=train.txt --run-dir=h --steps=1000000 --ranks-as=processes 2>stuck & p=$!
  for i in $(seq 200); do grep -q step h/metrics.jsonl 2>/dev/null && break; sleep 0.1; done
  stuck=$(pgrep -P $p | tail -n 1); kill -STOP $stuck; wait $p; s=$?; cat stuck; kill -0 $stuck 2>/dev/null && echo left; exit $s'
expect 0 'rank 1 did not end within 10 s after rank 0 had failed' 'cat stuck'
for how in threads processes; do
  expect 0 'stopped after step' "ptc run dp --data=train.txt --run-dir=i.$how --steps=1000000 --ranks-as=$how & p=\$!
    for i in \$(seq 200); do grep -q step i.$how/metrics.jsonl 2>/dev/null && break; sleep 0.1; done
    kill -TERM \$p; wait \$p"
  expect 0 '' "ls i.$how/ckpt | grep -q step-"
done

# --- MPI, where it is
if [ -e "$build/ptc_mpi_openmpi.so" ] && command -v mpirun.openmpi >/dev/null; then
  expect 0 'loss' 'mpirun.openmpi -n 2 ptc run dp -q --data=train.txt --run-dir=m'
  same dp.run/ckpt/step-00000008/model.safetensors m/ckpt/step-00000008/model.safetensors
  expect 1 '[comm-world]' 'mpirun.openmpi -n 3 ptc run dp -q --data=train.txt --run-dir=x'
  for split in dp=4,zero=3 dp=2,pp=2,micro_batch=1,zero=2 pp=4,micro_batch=2,schedule=1f1b; do
    rm -rf four t m
    expect 0 '' "ptc model.ptm -q --parallel $split -o four"
    expect 0 'loss' 'ptc run four -q --data=train.txt --run-dir=t'
    expect 0 'loss' 'mpirun.openmpi -n 4 ptc run four -q --data=train.txt --run-dir=m'
    for file in model optimizer; do
      same t/ckpt/step-00000008/$file.safetensors m/ckpt/step-00000008/$file.safetensors
    done
  done
else
  echo 'skipped: OpenMPI is not here'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
