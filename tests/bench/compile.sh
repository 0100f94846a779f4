#!/usr/bin/env bash
# Times compilation: ptc's own work (text to plan folder), the whole with an empty cache of objects (the
# C compiler's work included) and with a full one; and whether the generated source grows with depth.
#
# Usage: bash tests/bench/compile.sh [--build DIR] [--runs N] [MODEL.ptm...]
#   --build DIR   where the program ptc is (default build/release)
#   --runs N      the best of so many runs counts, for the empty cache of two (default 5)
# Default: all samples at their published sizes. Goals, of GPT-2 (124M): own work 1 s, empty cache 15 s,
# full cache 1 s. Exit status: 0 if they are reached, 1 if not, 2 for wrong usage.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/release runs=5
models=()
while [ $# -gt 0 ]; do
  case $1 in
    --build | --runs)
      [ $# -ge 2 ] || { echo "compile.sh: $1 takes a value" >&2; exit 2; }
      if [ "$1" = --build ]; then build=$2; else runs=$2; fi
      shift
      ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "compile.sh: unknown option $1" >&2; exit 2 ;;
    *) models+=("$1") ;;
  esac
  shift
done
ptc=$build/ptc
[ -x "$ptc" ] || { echo "compile.sh: $ptc is missing: build first" >&2; exit 2; }
if [ ${#models[@]} -eq 0 ]; then
  for model in samples/*.ptm; do grep -q '^model' "$model" && models+=("$model"); done
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PTC_CACHE=$work/cache
echo "$(nproc) cores; load $(cut -d' ' -f1-3 /proc/loadavg)"

# compile_once MODEL OPTION...: seconds in all, and of ptc's own work as it tells.
compile_once() {
  local begin=$EPOCHREALTIME end
  if ! "$ptc" "$@" -o "$work/plan" >"$work/out" 2>&1; then
    tail -n 5 "$work/out" >&2
    return 1
  fi
  end=$EPOCHREALTIME
  awk -v us=$((${end/./} - ${begin/./})) '
    match($0, / in [0-9.]+ s/) { own = substr($0, RSTART + 4, RLENGTH - 6) }
    END { printf "%.3f %.3f\n", us / 1e6, own }' "$work/out"
}

best() { sort -g "$1" | head -n 1; }  # of the first column, with the second

source_bytes() { cat "$work"/plan/kernels/*.c | wc -c; }

failed=0
printf '%-28s %9s %11s %10s %8s %12s\n' model "own, s" "empty, s" "full, s" kernels "source, KiB"
for model in "${models[@]}"; do
  : >"$work/empty"
  : >"$work/full"
  if ! (for _ in 1 2; do rm -rf "$PTC_CACHE"; compile_once "$model" >>"$work/empty"; done
    for ((i = 0; i < runs; i++)); do compile_once "$model" >>"$work/full"; done); then
    printf '%-28s failed\n' "$(basename "$model")"
    failed=1
    continue
  fi
  empty=$(best "$work/empty") full=$(best "$work/full")
  own=$(awk '{print $2}' "$work/full" | sort -g | head -n 1)
  printf '%-28s %9s %11s %10s %8s %12s\n' "$(basename "$model")" "$own" "${empty% *}" "${full% *}" \
    "$(find "$work/plan/kernels" -name '*.c' | wc -l)" "$(($(source_bytes) / 1024))"
  if [ "$(basename "$model")" = gpt2.ptm ]; then
    awk -v own="$own" -v empty="${empty% *}" -v full="${full% *}" 'BEGIN {
      exit !(own < 1 && empty <= 15 && full <= 1) }' || { echo "  missed: 1 s, 15 s, 1 s"; failed=1; }
  fi
done

for model in "${models[@]}"; do
  [ "$(basename "$model")" = gpt2.ptm ] || continue
  for layers in 12 48; do
    compile_once "$model" --set layers=$layers >/dev/null
    source_bytes >"$work/source.$layers"
  done
  printf 'source of GPT-2: %s bytes with 12 layers, %s with 48\n' \
    "$(cat "$work/source.12")" "$(cat "$work/source.48")"
  # The digits of a loop's extent may differ.
  awk -v a="$(cat "$work/source.12")" -v b="$(cat "$work/source.48")" 'BEGIN {
    exit !(b <= a * 1.01 && a <= b * 1.01) }' || { echo "  it grows with depth"; failed=1; }
done
exit $failed
