#!/usr/bin/env bash
# Proves: GPT-2 and a Llama train on the simulator of GPUs as on the CPU: the loss of each of 5 steps, within 1e-4
# in f32, 1e-3 in f32 with tf32 products, and 2e-2 in bf16, with all checks silent. Ends with `N passed, N failed`. By default one model in one
# precision, by PTC_SEED; PTC_CASES=5 runs all. Without NVRTC it says so and passes.
# Usage: gpusim_train_test.sh BUILD_FOLDER
build=${1:?usage: gpusim_train_test.sh BUILD_FOLDER}
. "$(dirname "$0")/../support/gpusim.sh"

# 4000 bytes with some order in them, so that the loss has something to fall to.
awk 'BEGIN { s = 7; t = 0
  for (i = 0; i < 4000; i++) { s = (s * 1103515245 + 12345) % 2147483648
    t = s % 10 < 7 ? (t * 5 + 1) % 200 : int(s / 64) % 200
    printf "%c", t % 90 + 33 } }' >"$root/tokens"

losses() { grep -o '"loss":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2; }

train() {  # train PLAN TARGET MODEL SETTINGS... : compiles, runs 5 steps
  local plan=$1 target=$2 model=$3
  shift 3
  local settings=()
  for setting in "$@"; do settings+=(--set "$setting"); done
  "$ptc" "$model" -o "$plan" --target "$target" -q "${settings[@]}" >"$root/log" 2>&1 || return 1
  local device=()
  [ "$target" = cpu ] || device=(--device=gpusim --gpusim-checks --profile)
  "$ptc" run "$plan" --data "$root/tokens:bytes" --steps 5 -q "${device[@]}" >>"$root/log" 2>&1
}

check_model() {  # check_model NAME PRECISION BOUND MODEL SETTINGS...
  local name=$1 precision=$2 bound=$3 model=$4
  shift 4
  local common=("$@" "train.precision=$precision" train.batch=2 train.seed=5)
  train "$root/cpu" cpu "$model" "${common[@]}" || { fail "$name $precision on the CPU"; return; }
  if ! train "$root/gpu" compute_80 "$model" "${common[@]}"; then
    if grep -q nvrtc-missing "$root/log"; then
      echo "skipped: no NVRTC here"
      return
    fi
    fail "$name $precision on the simulator"
    return
  fi
  local worst
  worst=$(paste <(losses "$root/cpu.run") <(losses "$root/gpu.run") | awk '
    { n++; d = $1 - $2; if (d < 0) d = -d; d /= $1; if (d > w) w = d }
    END { if (n < 5) print "few"; else printf "%.3g", w }')
  if awk -v w="$worst" -v b="$bound" 'BEGIN { exit !(w != "few" && w + 0 <= b) }' &&
    grep -q 'all kernels (' "$root/log"; then
    passed=$((passed + 1))
    echo "$name $precision: losses differ by at most $worst"
  else
    fail "$name $precision: losses differ by $worst"
  fi
  rm -rf "$root"/cpu* "$root"/gpu*
}

run() {
  local gpt2=(layers=2 d=64 heads=4 seq=32 vocab=256 drop=0.1)
  local llama=(layers=2 d=64 heads=4 kv_heads=2 ffn=96 seq=32 vocab=256)
  case $1 in
    0) check_model gpt2 f32 1e-4 samples/gpt2.ptm "${gpt2[@]}" ;;
    1) check_model gpt2 bf16 2e-2 samples/gpt2.ptm "${gpt2[@]}" ;;
    2) check_model llama3 f32 1e-4 samples/llama3.ptm "${llama[@]}" ;;
    3) check_model gpt2 f32 1e-3 samples/gpt2.ptm "${gpt2[@]}" train.f32_matmul=tf32 ;;
    *) check_model llama3 bf16 2e-2 samples/llama3.ptm "${llama[@]}" ;;
  esac
}

seed=${PTC_SEED:-${PTC_SUITE_SEED:-$RANDOM}}
echo "PTC_SEED=$seed"
for ((i = 0; i < ${PTC_CASES:-1} && i < 5; i++)); do run $(((seed + i) % 5)); done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
