#!/usr/bin/env bash
# Proves: compiling to plans, training, resuming, evaluating, sampling, exporting and showing do what the
# manual page says, and every misuse gets its exit status and words. The same bits come out with any number
# of threads, after SIGKILL and a resume, and with recomputation on or off. Ends with `N passed, N failed`.
# Usage: cli_run_test.sh BUILD_FOLDER [KILLS]
build=$(realpath "${1:?usage: cli_run_test.sh BUILD_FOLDER [KILLS]}")
kills=${2:-1}
. "$(dirname "$0")/../support/cli.sh"

same() { expect 0 '' "cmp $1 $2"; }

cat >model.ptm <<'END'
model small(d = 16, seq = 8, vocab = 256) {
  dim d, b = batch, s = seq, v = vocab, f = 2 * d
  param wte[v, d] ~ normal(0.05)
  layer mlp(x[b, s, d]) {
    param w1[d, f], w2[f, d] ~ normal(0.1)
    u[b, s, f] = x[b, s, d] * w1[d, f]
    y[b, s, d] = gelu(u[b, s, f]) * w2[f, d]
    return x + dropout(y, 0.1)
  }
  input tokens[b, s]  : int from text
  input targets[b, s] : int from text + 1
  x[b, s, d] = wte[tokens[b, s], d]
  repeat 3 { x = mlp(x) }
  logits[b, s, v] = x[b, s, d] * wte[v, d]
  loss = cross_entropy[v](logits, targets)
  metric hits = mean[b, s](argmax[v](logits)[b, s] == targets[b, s])
  output logits
}
train { batch = 4  steps = 12  optimizer = adamw(lr = 1e-2)  seed = 5 }
END
sed 's/steps = 12/steps = 12/; $a parallel { recompute = full }' model.ptm >recompute.ptm
seq 1 4000 >train.txt
seq 7000 7300 >val.txt

# --- compiling
expect 0 'small: ' 'ptc model.ptm'
expect 0 'wrote plan in' 'ptc model.ptm -o plan'
expect 0 '' 'test -s plan/plan.json -a -s plan/stage0.steps -a -s plan/stage0.ptir -a -d plan/kernels'
cp -r plan before
expect 0 'wrote plan in' 'ptc model.ptm -o plan'
expect 0 '' 'diff -r plan before'
expect 0 '' 'ptc model.ptm -q -n; test ! -e small.plan'
expect 0 'the arena takes' 'ptc model.ptm -n -o never; test ! -e never'
expect 0 'module "small"' 'cd /; ptc '"$work"'/model.ptm -q --print-after=fuse; test ! -e model.plan'
mkdir folder; touch folder/file
expect 1 'replaces nothing but a plan folder [output-exists]' 'ptc model.ptm -o folder'
expect 1 '[output-exists]' 'ptc model.ptm -o train.txt'
expect 1 'cannot write the plan: No such file or directory [write-plan]' 'ptc model.ptm -o no/such/plan'
expect 0 '' '! ls | grep tmp-'
expect 0 'the C compiler "no-such-cc"' 'CC=no-such-cc ptc model.ptm -o plan'
expect 1 'does not compile kernel' \
  'printf "#!/bin/sh\n[ \$1 = --version ] || exit 1\n" >badcc; chmod +x badcc; CC=./badcc ptc model.ptm -o other; s=$?; rm -rf other; [ $s = 3 ] && exit 1'

# --- usage
for command in run eval sample show export; do
  expect 0 "usage: ptc $command" "ptc $command --help"
  expect 2 'unknown option "--nope"' "ptc $command --nope"
  expect 1 'cannot write the output' "ptc $command --help >/dev/full"
done
expect 2 'no plan' 'ptc run'
expect 2 'did you mean "--data"' 'ptc run plan --dta=x'
expect 2 '--resume and --restart exclude each other' 'ptc run plan --resume --restart'
expect 2 '--eval-every needs --val' 'ptc run plan --data=train.txt --eval-every=2'
expect 2 '--map needs --init' 'ptc run plan --data=train.txt --map=x'
expect 2 '--threads takes a whole number from 1 to 1024: 0' 'ptc run plan --threads=0'
expect 2 '--steps takes a whole number from 1: x' 'ptc run plan --steps=x'
expect 2 'did you mean "memory"' 'ptc show plan memroy'
expect 2 'config has no --format svg' 'ptc show plan config --format=svg'
expect 2 '-o FILE is missing' 'ptc export plan.run'
expect 1 '[no-plan]' 'ptc run folder --data=train.txt'
expect 1 '[no-plan]' 'ptc show nowhere'
expect 1 'give --data' 'ptc run plan'
expect 1 'nofile' 'ptc run plan --data=nofile'
expect 1 'did you mean "lr"?' 'ptc run plan --data=train.txt --set lrr=1'
expect 1 'compile the model again' 'ptc run plan --data=train.txt --set batch=8'
expect 1 'takes a number from 0, not "fast"' 'ptc run plan --data=train.txt --set lr=fast'
expect 1 'compile it with --keep-grads [no-grads]' 'ptc run plan --data=train.txt --dump-grads=g'
cp -r plan broken; echo '// changed' >>"$(ls broken/kernels/*.c | head -n 1)"
expect 1 '[kernel-hash]' 'ptc run broken --data=train.txt'
head -c 300 plan/stage0.steps >broken/stage0.steps
expect 1 'stage0.steps' 'ptc run broken --data=train.txt'

# --- a run
expect 0 'step 12/12' 'ptc run plan --data=train.txt --val=val.txt --eval-every=5 --save-every=4 --profile'
expect 0 'val loss' 'ptc run plan --data=train.txt --val=val.txt --run-dir=val --steps=1'
expect 0 '' '[ "$(grep -c train plan.run/metrics.jsonl)" = 12 ] && [ "$(grep -c \"eval\" plan.run/metrics.jsonl)" = 3 ]'
expect 0 '"kernels"' 'cat plan.run/profile.json'
expect 1 '[run-exists]' 'ptc run plan --data=train.txt'
expect 0 '' 'ptc run plan --data=train.txt --restart -q'
final() { echo "$1/ckpt/step-00000012"; }
expect 0 '' "test -d $(final plan.run)"
for threads in 1 2 5; do
  expect 0 '' "ptc run plan --data=train.txt -q --threads=$threads --run-dir=t$threads"
  same "$(final plan.run)/model.safetensors" "$(final t$threads)/model.safetensors"
  same "$(final plan.run)/optimizer.safetensors" "$(final t$threads)/optimizer.safetensors"
done
expect 0 '' 'ptc recompute.ptm -q -o recompute && ptc run recompute --data=train.txt -q --run-dir=r'
same "$(final plan.run)/model.safetensors" "$(final r)/model.safetensors"
expect 0 '' 'ptc run plan --data=train.txt -q --run-dir=part --steps=5 && ptc run plan --data=train.txt -q --run-dir=part --resume'
same "$(final plan.run)/model.safetensors" "$(final part)/model.safetensors"
expect 0 '' 'diff <(grep -o "^.*\"loss\":[^,]*" plan.run/metrics.jsonl) <(grep -o "^.*\"loss\":[^,]*" part/metrics.jsonl)'

expect 0 'train.lr is 0.001 now; the checkpoint was written with 0.01' \
  'ptc run plan --data=train.txt --run-dir=part --resume --set lr=1e-3 --steps=13'
expect 0 '' 'ptc run plan --data=train.txt -q --run-dir=len --set steps=3; test -d len/ckpt/step-00000003'

# --- a damaged checkpoint: an error with the file and what helps; only on request the one before
expect 2 '--fall-back needs --resume' 'ptc run plan --data=train.txt --fall-back'
expect 0 '' 'ptc run plan --data=train.txt -q --run-dir=hurt --steps=6 --save-every=3'
printf x | dd of=hurt/ckpt/step-00000006/model.safetensors bs=1 seek=2000 conv=notrunc 2>/dev/null
expect 1 'step-00000006/model.safetensors": it is damaged' 'ptc run plan --data=train.txt --run-dir=hurt --resume'
expect 1 '--fall-back goes on from the latest intact checkpoint' \
  'ptc run plan --data=train.txt --run-dir=hurt --resume'
expect 1 'the checkpoint before it is "hurt/ckpt/step-00000003"' \
  'ptc eval plan --ckpt=hurt --data=val.txt'
expect 0 'the checkpoint before is tried' \
  'ptc run plan --data=train.txt --run-dir=hurt --resume --fall-back'
same "$(final plan.run)/model.safetensors" "$(final hurt)/model.safetensors"
printf x | dd of=hurt/ckpt/step-00000012/model.safetensors bs=1 seek=2000 conv=notrunc 2>/dev/null
rm -r hurt/ckpt/step-0000000*
expect 1 'no checkpoint of the run is intact: --restart begins anew' \
  'ptc run plan --data=train.txt --run-dir=hurt --resume --fall-back'

# --- killed at some instant, and resumed: the same bits
longer='--data=train.txt -q --steps=200 --save-every=7'
expect 0 '' "ptc run plan $longer --run-dir=whole"
for kill in $(seq "$kills"); do
  for try in 1 2; do
    ptc run plan $longer --run-dir="k$kill" --resume >/dev/null 2>&1 &
    pid=$!
    sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
  done
  expect 0 '' "ptc run plan $longer --run-dir=k$kill --resume"
  same whole/ckpt/step-00000200/model.safetensors "k$kill/ckpt/step-00000200/model.safetensors"
  same whole/ckpt/step-00000200/optimizer.safetensors "k$kill/ckpt/step-00000200/optimizer.safetensors"
done
# --- told to stop: a checkpoint, and it goes on
for signal in TERM:0 INT:130; do
  expect "${signal#*:}" 'stopped after step' \
    "ptc run plan --data=train.txt --steps=1000000 --run-dir=s${signal%:*} & pid=\$!
     while [ ! -s s${signal%:*}/metrics.jsonl ]; do sleep 0.02; done; kill -${signal%:*} \$pid; wait \$pid"
  expect 0 '' "ls s${signal%:*}/ckpt/step-*/manifest.json"
done

# --- what came of it
expect 0 'loss ' 'ptc eval plan --data=val.txt'
expect 0 'metric.hits' 'ptc eval plan --data=val.txt --batches=2'
# 187 windows: 46 batches of 4 and one of 3. The loss has all of them, a metric those of whole batches.
head -c 1500 val.txt >odd.txt
expect 0 '' 'ptc eval plan --data=odd.txt >e47; ptc eval plan --data=odd.txt --batches=46 >e46
  ! cmp -s e47 e46 && cmp <(grep metric e47) <(grep metric e46)'
expect 1 '[no-checkpoint]' 'ptc eval plan --ckpt=folder --data=val.txt'
expect 0 '1' 'ptc sample plan -q --prompt=12 --length=5 --temperature=0'
cp out first
expect 0 '' 'ptc sample plan --prompt=12 --length=5 --temperature=0 --threads=3 | cmp - first'
expect 0 '' 'ptc sample plan --length=9 --top-k=3 --seed=4'
# One sample at a time, by a plan of its own; without it, by the whole batch.
expect 0 'b=1 ' 'cat plan/sample/stage0.steps'
expect 0 '' 'cp -r plan by_batch; rm -r by_batch/sample
  ptc sample by_batch --ckpt=plan.run --prompt=12 --length=5 --temperature=0 | cmp - first'
expect 1 'the prompt has the byte 122; the vocabulary ends at 99 [prompt-token]' \
  'ptc model.ptm -q --set vocab=100 -o tiny && ptc run tiny --data=train.txt -q --steps=1 &&
   ptc sample tiny --prompt=z --length=1'
expect 0 'wrote 7 tensors' 'ptc export plan.run -o w.safetensors'
expect 0 '' 'ptc run plan --data=train.txt -q --init=w.safetensors --run-dir=init --steps=1'
# Through another program's names and layout and back.
cat >names.map <<'END'
embed.T                  = wte : d, v
h.{i}.fc[0:32]           = mlp.{i}.w1 : f, d
h.{i}.fc[32:64]          = mlp.{i}.w2
END
expect 0 'wrote 7 tensors' 'ptc export plan.run -o t.safetensors --map=names.map'
expect 1 'no line of the map gives' 'grep -v embed names.map >some.map; ptc export plan.run -o x --map=some.map'
expect 1 'bad.map:4:2: error: expected = after' \
  '(cat names.map; echo a) >bad.map; ptc export plan.run -o x --map=bad.map'
expect 0 '' 'ptc run plan --data=train.txt -q --init=t.safetensors --map=names.map --run-dir=mapped --steps=1'
same init/ckpt/step-00000001/model.safetensors mapped/ckpt/step-00000001/model.safetensors
expect 1 '[map-missing]' 'ptc run plan --data=train.txt -q --init=t.safetensors --run-dir=x --steps=1'
expect 0 '' 'ptc eval plan --ckpt=w.safetensors --data=val.txt >a && ptc eval plan --data=val.txt >b && cmp a b'
expect 0 '' 'ptc model.ptm -q --keep-grads -o grads && ptc run grads --data=train.txt -q --steps=1 --dump-grads=g.safetensors'
expect 0 'grad.mlp.1.w1' 'head -c 4000 g.safetensors'
expect 0 '* loss' 'ptc show plan.run loss'
for format in json csv svg; do expect 0 '' "ptc show plan.run loss --format=$format"; done
expect 0 'model small for cpu' 'ptc show plan'
expect 0 'arena_bytes' 'ptc show plan --format=json'
expect 0 'the peak is launch' 'ptc show plan memory'
expect 0 '<svg' 'ptc show plan memory --format=svg'
expect 0 'live_bytes' 'ptc show plan memory --task=eval --format=json'
expect 0 'model.ptm:' 'ptc show plan kernels'
expect 0 '#include' 'ptc show plan kernels "$(ls plan/kernels | head -n 1 | cut -d. -f1)"'
expect 1 '[unknown-kernel]' 'ptc show plan kernels nothing'
expect 0 'module "small"' 'ptc show plan ir'
expect 0 'default' 'ptc show plan config'
expect 0 'command line' 'ptc model.ptm -q --set d=8 -o other && ptc show other config'
expect 0 'train.f32_matmul         tf32             command line' \
  'ptc model.ptm -q --f32-matmul=tf32 -o other && ptc show other config'
expect 1 'is one of exact tf32 , not "fast" [setting-value]' 'ptc check model.ptm --f32-matmul=fast'
# A loss that is not finite ends the run.
expect 1 '[non-finite-loss]' 'ptc run plan --data=train.txt --run-dir=bad --set lr=1e30'
expect 0 '' 'ptc run plan --data=train.txt -q --run-dir=bad --restart --set lr=1e30 --keep-going'
# An index out of range is found when the data are read.
printf '\377\377\377\377' | head -c 4 >high.txt
sed 's/vocab = 256/vocab = 100/' model.ptm >narrow.ptm
expect 0 '' 'ptc narrow.ptm -q -o narrow'
expect 1 '[data-range]' 'for i in $(seq 50); do printf "\377\377"; done >high.txt; ptc run narrow --data=high.txt'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
