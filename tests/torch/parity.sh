#!/usr/bin/env bash
# Trains models of real size with ptc and with PyTorch, from the same weights on the same data, and
# compares: the loss of each of 20 AdamW steps, the gradients of the first, the parameters after
# the last; then the losses in bf16 with those in f32.
#
# Usage: bash tests/torch/parity.sh [OPTION...] [CASE...]    (cases of parity.json; default: all)
#   --build DIR     where the program ptc is (default build/release)
#   --work DIR      where weights, data and results lie (default build/parity); PyTorch's are kept
#                   and used again while nothing they depend on has changed
#   --threads N     of either program (default: all cores)
#   --no-bf16       f32 only
#   --list          names the cases
# Exit status: 0 if all agree, 1 if not, 2 for a wrong command line, 3 if something cannot run.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/release work=build/parity threads=$(nproc) bf16=yes
cases=()
python=/usr/bin/python3
here=tests/torch

value() {  # value OPTION COUNT: the option has a value
  [ "$2" -ge 2 ] || { echo "parity.sh: $1 takes a value" >&2; exit 2; }
}
while [ $# -gt 0 ]; do
  case $1 in
    --build) value "$1" $#; build=$2; shift ;;
    --work) value "$1" $#; work=$2; shift ;;
    --threads) value "$1" $#; threads=$2; shift ;;
    --no-bf16) bf16=no ;;
    --list) cases=(--list) ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "parity.sh: unknown option $1" >&2; exit 2 ;;
    *) cases+=("$1") ;;
  esac
  shift
done

# Debian's PyTorch multiplies with whatever libblas.so.3 is; without OpenBLAS it is ten times slower.
export OMP_WAIT_POLICY=passive  # beside other programs, threads that spin take forever
libraries=$(ldconfig -p)
if ! $python -c 'import numpy, torch' 2>/dev/null || [[ $libraries != *libopenblas* ]]; then
  sudo=""
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  echo "installing python3-torch, python3-numpy and libopenblas0-openmp" >&2
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
    python3-torch python3-numpy libopenblas0-openmp >&2 || exit 3
fi
[ "${cases[*]-}" != --list ] || exec $python $here/parity.py list
ptc=$build/ptc
[ -x "$ptc" ] || { echo "parity.sh: $ptc is missing: build first, or name its folder with --build" >&2; exit 2; }
[ ${#cases[@]} -gt 0 ] || mapfile -t cases < <($python $here/parity.py list)
for name in "${cases[@]}"; do $python $here/parity.py options "$name" >/dev/null || exit 2; done

# quietly LOG COMMAND...: its output goes to LOG, and to the screen if it fails.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 && return
  printf 'failed: %s\n' "$*"
  tail -n 20 "$log" | sed 's/^/  /'
  return 1
}

# train CASE PRECISION: compiles, and trains from PyTorch's weights; results in $work/CASE/PRECISION.
train() {
  local name=$1 out=$work/$1/$2 model options data
  mapfile -t options < <($python $here/parity.py options "$name")
  model=${options[0]}
  options=("${options[@]:1}" "--set=train.precision=$2")
  mapfile -t data < <($python $here/parity.py data "$name" "$work/$name")
  rm -rf "$out"
  mkdir -p "$out"
  quietly "$out/compile.log" "$ptc" "$model" "${options[@]}" -o "$out/plan" || return
  local run=("--init=$work/$name/weights.safetensors" "${data[@]}" "--threads=$threads" -q)
  if [ "$2" = f32 ]; then
    quietly "$out/compile.log" "$ptc" "$model" "${options[@]}" --keep-grads -o "$out/grads.plan" ||
      return
    quietly "$out/grads.log" "$ptc" run "$out/grads.plan" "${run[@]}" --steps=1 \
      --run-dir="$out/first" --dump-grads="$out/grads.safetensors" || return
    rm -rf "$out/first" "$out/grads.plan"
  fi
  quietly "$out/run.log" "$ptc" run "$out/plan" "${run[@]}" --steps="$steps" \
    --run-dir="$out/run" || return
  cp "$out/run/metrics.jsonl" "$out/metrics.jsonl"
  if [ "$2" = f32 ]; then
    quietly "$out/export.log" "$ptc" export "$out/run" -o "$out/final.safetensors" || return
  fi
}

steps=$($python -c "import json; print(json.load(open('$here/parity.json'))['steps'])")
failed=0
for name in "${cases[@]}"; do
  if ! $python $here/parity.py torch "$name" "$work/$name" --threads "$threads"; then
    echo "$name: PyTorch failed"
    failed=1
    continue
  fi
  for precision in f32 bf16; do
    [ "$precision" = f32 ] || [ $bf16 = yes ] || continue
    if ! train "$name" $precision; then
      echo "$name: ptc failed in $precision"
      failed=1
      continue
    fi
    flag=()
    [ $precision = f32 ] || flag=(--bf16)
    $python $here/parity.py compare "$name" "$work/$name" "$work/$name/$precision" "${flag[@]}" ||
      failed=1
  done
done
[ $failed -eq 0 ] && echo "all agree" || echo "some differ"
exit $failed
