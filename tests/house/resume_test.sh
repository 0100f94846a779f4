#!/usr/bin/env bash
# Proves: any plan goes on from the checkpoint of any other plan of the same model (mesh, ZeRO stage, pipeline): 10 steps
# under one, 10 under the other, are 20 steps under one rank: losses within 1e-5, parameters within 1e-3 of the way that
# they went; under the same plan bit by bit. And: a SIGKILL of one rank, or of all, at random instants: the others end
# with the culprit's name in bounded time, and what is resumed ends with the bits of a run that nobody killed.
# Ends with `N passed, N failed`. Usage: resume_test.sh BUILD_FOLDER [PLANS [KILLS]]
#   PLANS: the first so many of six plans, in all pairs (default 2); KILLS: default 2. All of it: 6 50. PTC_SEED.
build=$(realpath "${1:?usage: resume_test.sh BUILD_FOLDER [PLANS [KILLS]]}")
num_plans=${2:-2}
num_kills=${3:-2}
. "$(dirname "$0")/../support/cli.sh"
seed=${PTC_SEED:-$(date +%s)}
RANDOM=$((seed % 32768))
echo "PTC_SEED=$seed"
progress() { [ ! -t 2 ] || printf '\r%s   ' "$*" >&2; }

write_model 'train { batch = 4  steps = 20  optimizer = adamw(lr = 1e-2)  clip = 1  seed = 5 }'
parallels=(pp=2,micro_batch=2 dp=2,zero=3 dp=1 tp=2 dp=2,tp=2,zero=1 dp=2,pp=2,micro_batch=1,zero=2,schedule=zero_bubble)

# --- pairs
expect 0 '' "ptc model.ptm -q --parallel dp=1 -o one && ptc run one -q --data=train.txt --run-dir=whole"
for ((i = 0; i < num_plans; i++)); do
  expect 0 '' "ptc model.ptm -q --parallel ${parallels[i]} -o p$i && ptc verify p$i"
  expect 0 '' "ptc run p$i -q --data=train.txt --run-dir=half.$i --steps=10"
  expect 0 '' "ptc run p$i -q --data=train.txt --run-dir=whole.$i"
done

# compare RUN: its losses and parameters after 20 steps are those of `whole`.
cat >compare.py <<'END'
import json, math, struct, sys
def losses(run):
    rows = [json.loads(line) for line in open(run + "/metrics.jsonl")]
    return {row["step"]: row["loss"] for row in rows if "loss" in row and row.get("kind", "train") == "train"}
def tensors(run, step):
    data = open("%s/ckpt/step-%08d/model.safetensors" % (run, step), "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {name: struct.unpack("<%df" % ((e["data_offsets"][1] - e["data_offsets"][0]) // 4),
                                data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in head.items() if name != "__metadata__" and e["dtype"] == "F32"}
run = sys.argv[1]
a, b = losses("whole"), losses(run)
worst = max(abs(a[s] - b[s]) / abs(a[s]) for s in range(1, 21))
start, want, have = tensors("half.0", 10), tensors("whole", 20), tensors(run, 20)
off = 0
for name in want:
    gone = math.dist(want[name], start[name])
    off = max(off, math.dist(want[name], have[name]) / gone if gone else 0)
print("loss off by %.2g, parameters by %.2g" % (worst, off))
sys.exit(not (worst <= 1e-5 and off <= 1e-3))
END
for ((i = 0; i < num_plans; i++)); do
  for ((j = 0; j < num_plans; j++)); do
    progress "pair $((i * num_plans + j + 1)) of $((num_plans * num_plans))"
    expect 0 '' "cp -r half.$i pair.$i.$j && ptc run p$j -q --data=train.txt --run-dir=pair.$i.$j --resume"
    expect 0 '' "python3 compare.py pair.$i.$j"
    [ $i != $j ] || for file in model optimizer; do
      expect 0 '' "cmp pair.$i.$j/ckpt/step-00000020/$file.safetensors whole.$i/ckpt/step-00000020/$file.safetensors"
    done
  done
done

# --- kills: ranks are processes; every step writes a checkpoint, so that an instant may be inside of one
run_killed() {  # run_killed PLAN RUN SECONDS WHO
  setsid ptc run "$1" -q --data=train.txt --run-dir="$2" --resume --save-every=1 --ranks-as=processes >/dev/null 2>"$2.err" &
  local pid=$! victim
  sleep "$3"
  if [ "$4" = one ]; then
    victim=$(pgrep -P $pid | shuf -n 1 --random-source=<(yes "$seed$3"))
    if [ -z "$victim" ] || ! kill -KILL "$victim" 2>/dev/null; then  # it has begun none, or they have ended
      kill -KILL -- -$pid 2>/dev/null
      wait $pid 2>/dev/null
      return 2
    fi
  else
    # With its group: also ranks that it has just begun.
    kill -KILL -- -$pid 2>/dev/null || return 2
  fi
  local begin=$SECONDS
  wait $pid 2>/dev/null
  killed_status=$?
  killed_seconds=$((SECONDS - begin))
}
kills=0
for ((tries = 0; kills < num_kills && tries < 20 * num_kills; tries++)); do
  plan=p$((RANDOM % num_plans))
  who=$([ $((RANDOM % 2)) = 0 ] && echo one || echo all)
  run=kill.$tries
  progress "kill $kills of $num_kills"
  mkdir -p $run.none
  killed_status=0
  run_killed $plan $run "0.$(printf %03d $((RANDOM % 1000)))" $who || { rm -rf $run; continue; }
  [ "$killed_status" != 0 ] || { rm -rf $run; continue; }  # it had ended
  kills=$((kills + 1))
  if [ $who = one ]; then
    expect 0 '' "[ $killed_status != 0 ] && [ $killed_seconds -le 20 ] && grep -qE 'rank [0-9]+ .*(signal 9|died)|has died' $run.err || { cat $run.err; false; }"
  fi
  expect 0 '' "ptc run $plan -q --data=train.txt --run-dir=$run --resume --save-every=1"
  for file in model optimizer; do
    expect 0 '' "cmp $run/ckpt/step-00000020/$file.safetensors whole.${plan#p}/ckpt/step-00000020/$file.safetensors"
  done
done
[ "$kills" -eq "$num_kills" ] || { failed=$((failed + 1)); echo "FAILED: only $kills of $num_kills kills met a run"; }
progress
echo "$num_plans plans in $((num_plans * num_plans)) pairs, $kills kills"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
