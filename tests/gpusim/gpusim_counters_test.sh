#!/usr/bin/env bash
# Proves, by the counters of the simulator of GPUs and for shapes that are multiples of the tiles: kernels bound by memory
# touch no sector that they do not use and move at most 1.05 times their least bytes (AdamW: each value is read and
# written once); GEMMs and attention have no bank conflicts in shared memory, and the products of those on tensor
# cores are in mma. Ends with `N passed, N failed`. By default one model, by PTC_SEED; PTC_CASES=4 runs all.
# PTC_SHOW=1 prints each kernel. Without NVRTC it says so and passes.
# Usage: gpusim_counters_test.sh BUILD_FOLDER
build=${1:?usage: gpusim_counters_test.sh BUILD_FOLDER}
. "$(dirname "$0")/../support/gpusim.sh"
head -c 4000 LICENSE | tr -c 'a-z \n' 'e' >"$root/tokens"

# Columns of |csv|: 1 kernel, 2 calls, 3 FLOP, 4 least bytes. Of the profile: 1 launches, 3 M FLOP outside of mma, 4 M FLOP in
# mma, 5 sectors touched, 6 the least for what was asked, 7 moved, 8 bank conflicts, 10 kernel.
cat >"$root/check.awk" <<'END'
function complain(text) { print model ": " name ": " text; bad++ }
FILENAME == csv {
  split($0, f, ",")
  calls[f[1]] = f[2]; least[f[1]] = f[4]; work[f[1]] = f[3]
  next
}
$2 ~ /%$/ { about[$6] = $0 }
$1 == "launches" { counted = 1 }
!counted || !($10 in calls) || !calls[$10] { next }
{
  name = $10
  n = calls[name]
  inside = $4
  kind = name ~ /einsum/ && inside > 0 ? "gemm" : name ~ /attention/ ? "attention" : "memory"
  if (name ~ /einsum/ && inside == 0) kind = "exact"
  seen[kind]++
  ratio = 32 * $7 / (n * least[name])
  if (show) printf "%s %-9s %6.3f x least, %.3f touched, conflicts %d, mma %.1f%%  %s\n", model, kind, ratio, $5 / $6, $8, 100 * inside / (inside + $3 + 1e-9), name
  if (kind == "memory") {
    # A scalar takes a sector.
    if (32 * $7 > 1.05 * n * least[name] + 128 * n) complain("moves " ratio " times the least bytes")
    if (32 * $7 > 10000 && ratio > worst) worst = ratio
    if ($5 > $6) complain($5 " sectors for " $6)
    if (about[name] ~ /adamw/ && 32 * $7 > 10000 && ratio > worst_adamw) worst_adamw = ratio
  } else {
    if ($8 > 0) complain($8 " bank conflicts")
    if (kind != "attention" && $5 > $6) complain($5 " sectors for " $6)
  }
  # In attention the rest is softmax. GEMMs: nothing but products, and the rounding of the result.
  if (kind == "gemm" && name ~ /_einsum(_cast)?$/ && inside < 0.99 * (inside + $3) && $3 > 0.02 * inside) complain("only " inside " of " inside + $3 " M FLOP in mma")
  # The stated FLOPs are products and what follows them.
  if (kind == "gemm" && inside + $3 < 0.99 * n * work[name] * 1e-6) complain(inside + $3 " of " n * work[name] * 1e-6 " M FLOP")
  if (kind == "attention" && inside > 0 && inside < 0.97 * (inside + $3)) complain("only " inside " of " inside + $3 " M FLOP in mma")
}
END {
  printf "%s: %d kernels bound by memory move at most %.3f times their least bytes, %d GEMMs in mma, %d exact, %d attention; AdamW moves at most %.3f times its least\n",
    model, seen["memory"], worst, seen["gemm"], seen["exact"], seen["attention"], worst_adamw
  if (seen["memory"] < 20 || seen["gemm"] + seen["exact"] < 8 || seen["attention"] < 2) { print model ": too few kernels"; bad++ }
  exit bad > 0
}
END

check_model() {  # check_model NAME MODEL SETTINGS...
  local name=$1 model=$2
  shift 2
  local settings=()
  for setting in "$@"; do settings+=(--set "$setting"); done
  local ok=1
  "$ptc" "$model" -o "$root/plan" --target compute_80 -q "${settings[@]}" >"$root/log" 2>&1 &&
    "$ptc" show "$root/plan" kernels --format=csv >"$root/kernels.csv" 2>>"$root/log" &&
    "$ptc" run "$root/plan" --data "$root/tokens:bytes" --steps 1 -q --device=gpusim --profile >"$root/profile" 2>&1 || ok=0
  if [ $ok = 0 ] && grep -q nvrtc-missing "$root/log"; then
    echo "skipped: no NVRTC here"
    return
  fi
  [ $ok = 1 ] && awk -v model="$name" -v csv="$root/kernels.csv" -v show="${PTC_SHOW:-}" -f "$root/check.awk" "$root/kernels.csv" "$root/profile" || ok=0
  if [ $ok = 1 ]; then
    passed=$((passed + 1))
  else
    fail "$name"
    grep error "$root/profile"
  fi
  [ -z "${PTC_KEEP:-}" ] || cp -r "$root" "$PTC_KEEP"
  rm -rf "$root"/plan*
}

run() {
  local gpt2=(layers=1 d=128 heads=2 seq=128 vocab=512 drop=0 train.batch=2)
  local llama=(layers=1 d=128 heads=2 kv_heads=1 ffn=256 seq=128 vocab=512 train.batch=2)
  case $1 in
    0) check_model 'gpt2 bf16' samples/gpt2.ptm "${gpt2[@]}" train.precision=bf16 ;;
    1) check_model 'llama3 bf16' samples/llama3.ptm "${llama[@]}" train.precision=bf16 ;;
    2) check_model 'gpt2 f32' samples/gpt2.ptm "${gpt2[@]}" train.precision=f32 ;;
    *) check_model 'llama3 f32' samples/llama3.ptm "${llama[@]}" train.precision=f32 ;;
  esac
}

seed=${PTC_SEED:-${PTC_SUITE_SEED:-$RANDOM}}
echo "PTC_SEED=$seed"
for ((i = 0; i < ${PTC_CASES:-1} && i < 4; i++)); do run $(((seed + i) % 4)); done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
