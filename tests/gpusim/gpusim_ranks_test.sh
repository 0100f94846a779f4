#!/usr/bin/env bash
# Proves: GPT-2 and a Llama train on 2 and 4 simulated GPUs, by dp, tp, pp and ZeRO-3 and several of them together, as
# on one CPU: the loss of each of 5 steps, within 1e-4 in f32 and 2e-2 in bf16. A GPU whose kernel fails, that is lost, has
# no memory, hangs, or whose connection fails ends the run with its rank named, and the run goes on from its last
# checkpoint to the same loss. Ends with `N passed, N failed`. By default one mesh of each number of GPUs and two faults,
# by PTC_SEED; PTC_CASES=all runs everything (20 minutes on two cores). Without NVRTC it says so and passes.
# Usage: gpusim_ranks_test.sh BUILD_FOLDER
build=$(realpath "${1:?usage: gpusim_ranks_test.sh BUILD_FOLDER}")
here=$(cd "$(dirname "$0")" && pwd)
models=$here/../../samples
. "$here/../support/cli.sh"

# 4000 bytes with some order in them, so that the loss has something to fall to.
awk 'BEGIN { s = 7; t = 0
  for (i = 0; i < 4000; i++) { s = (s * 1103515245 + 12345) % 2147483648
    t = s % 10 < 7 ? (t * 5 + 1) % 200 : int(s / 64) % 200
    printf "%c", t % 90 + 33 } }' >tokens

losses() { grep -o '"loss":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2; }

fail() {
  failed=$((failed + 1))
  echo "FAILED: $*"
  head -n 8 log | cut -c1-300
}

compile() {  # compile PLAN TARGET MODEL PRECISION OPTION...
  local plan=$1 target=$2 model=$3 precision=$4
  shift 4
  local settings=(layers=2 d=64 heads=4 seq=32 vocab=256 train.precision="$precision" train.batch=4 train.seed=5)
  [ "$model" = gpt2 ] && settings+=(drop=0.1) || settings+=(kv_heads=2 ffn=96)
  local options=()
  for setting in "${settings[@]}"; do options+=(--set "$setting"); done
  ptc "$models/$model.ptm" -o "$plan" --target "$target" -q "${options[@]}" "$@" >log 2>&1
}

# The run of one CPU, made once.
reference() {  # reference MODEL PRECISION
  local plan=cpu-$1-$2
  [ -d "$plan.run" ] && return 0
  compile "$plan" cpu "$1" "$2" && ptc run "$plan" --data tokens:bytes --steps 5 -q >>log 2>&1
}

check() {  # check MODEL PRECISION MESH
  local model=$1 precision=$2 mesh=$3 bound=1e-4
  [ "$precision" = bf16 ] && bound=2e-2
  reference "$model" "$precision" || { fail "$model $precision on the CPU"; return; }
  compile gpu compute_80 "$model" "$precision" --parallel "$mesh" ||
    { fail "compiling $model $precision $mesh"; return; }
  ptc verify gpu >>log 2>&1 || { fail "ptc verify of $model $precision $mesh"; return; }
  ptc run gpu --data tokens:bytes --steps 5 -q --device=gpusim --gpusim-checks >>log 2>&1 ||
    { fail "$model $precision $mesh"; return; }
  local worst
  worst=$(paste <(losses "cpu-$model-$precision.run") <(losses gpu.run) | awk '
    { n++; d = $1 - $2; if (d < 0) d = -d; d /= $1; if (d > w) w = d }
    END { if (n < 5) print "few"; else printf "%.3g", w }')
  if awk -v w="$worst" -v b="$bound" 'BEGIN { exit !(w != "few" && w + 0 <= b) }'; then
    passed=$((passed + 1))
    echo "$model $precision $mesh: losses differ by at most $worst"
  else
    fail "$model $precision $mesh: losses differ by $worst"
  fi
  rm -rf gpu gpu.run
}

two=(dp=2 tp=2 pp=2,micro_batch=1 dp=2,zero=3 pp=2,micro_batch=2,schedule=zero_bubble)
four=(dp=4 tp=4 dp=2,tp=2 dp=4,zero=3 pp=2,dp=2,micro_batch=1 dp=2,tp=2,zero=3,sequence_parallel=on
  pp=2,tp=2,micro_batch=2)

# --- faults: a plan that trains for 6 steps, with a checkpoint after each

write_model 'train { batch = 8  steps = 6  optimizer = adamw(lr = 1e-2)  clip = 1  seed = 5 }'
fault() {  # fault FAULT WORDS...: in step 4 or so; the rank is 1
  local text=$1
  shift
  rm -rf f.run
  PTC_COMM_LIMIT=3 PTC_GPUSIM_FAULT=$text timeout 300 ptc run two --run-dir f.run --data train.txt \
    --save-every=1 --device=gpusim -q >log 2>&1 && { fail "$text: the run went on"; return; }
  for words in "$@"; do
    grep -qF -- "$words" log || { fail "$text: nothing says \"$words\""; return; }
  done
  [ "$text" = memory:1:2 ] || [ -n "$(ls f.run/ckpt)" ] || { fail "$text: no checkpoint"; return; }
  timeout 300 ptc run two --run-dir f.run --data train.txt --resume --device=gpusim -q >log 2>&1 ||
    { fail "$text: it does not resume"; return; }
  [ "$(tail -n 1 log)" = "$expected" ] || { fail "$text: resumed to another loss than $expected"; return; }
  passed=$((passed + 1))
  echo "$text: named, and resumed to $expected"
}

run_fault() {
  case $1 in
    0) fault "launch:1:$launches" 'kernel "' 'has failed (injected)' 'on rank 1' ;;
    1) fault "lost:1:$launches" 'GPU 1 is lost' 'on rank 1' ;;
    2) fault memory:1:2 'cuMemAlloc: out of memory' 'on rank 1' ;;
    3) fault "hang:1:$launches" 'rank 1: its GPU has worked for' ;;
    *) fault "nccl:1:$calls" 'rank 1 on GPU 1: the connection has failed (injected)' ;;
  esac
}

seed=${PTC_SEED:-${PTC_SUITE_SEED:-$RANDOM}}
echo "PTC_SEED=$seed"
ptc model.ptm -o two --target compute_80 -q --parallel dp=2,zero=1 >log 2>&1 || fail "compiling"
ptc run two --data train.txt -q --device=gpusim --profile >log 2>&1
if grep -q nvrtc-missing log; then
  echo "skipped: no NVRTC here"
  echo "0 passed, 0 failed"
  exit 0
fi
expected=$(grep '^loss' log)
# Of both ranks and all steps; those of one rank in four steps.
launches=$(awk '/all kernels \(/ { print int($1 / 2 * 4 / 6) }' log)
calls=60
[ -n "$expected" ] && [ -n "$launches" ] || fail "two ranks"
if [ "${PTC_CASES:-}" = all ]; then
  for model in gpt2 llama3; do
    for precision in f32 bf16; do
      for mesh in "${two[@]}" "${four[@]}"; do check $model $precision "$mesh"; done
    done
  done
  for ((i = 0; i < 5; i++)); do run_fault $i; done
else
  kinds=("gpt2 f32" "llama3 bf16" "gpt2 bf16" "llama3 f32")
  check ${kinds[seed % 4]} "${two[seed % ${#two[@]}]}"
  check ${kinds[(seed / 4 + 1) % 4]} "${four[seed % ${#four[@]}]}"
  run_fault $((seed % 5))
  run_fault $(((seed + 2) % 5))
fi
expect 0 'loss' 'ptc eval two --ckpt two.run --data val.txt --device=gpusim -q'
expect 1 'gpusim-ranks' 'ptc run two --data train.txt --device=gpusim --ranks-as=processes --restart -q'
expect 1 'bad-limit' 'PTC_COMM_LIMIT=soon ptc run two --data train.txt --device=gpusim --restart -q'
expect 1 'device-target' 'ptc model.ptm -o cpu -q && ptc run cpu --data train.txt --device=cuda -q'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
