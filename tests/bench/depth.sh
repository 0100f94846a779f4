#!/usr/bin/env bash
# Measures what depth costs the compiler: the whole pipeline on 12 and on 96 equal layers, whose time
# and IR size may differ by a factor of 1.2, and `ptc check` of every sample, under 50 ms.
# Other work on the machine is in the medians but hardly in the best runs; exit status 1 if a best
# run misses its goal.
#
# Usage: tests/bench/depth.sh BUILD_FOLDER [RUNS]   (a release build; default: 21 runs)
set -u
build=$(realpath "${1:?usage: depth.sh BUILD_FOLDER [RUNS]}")
runs=${2:-21}
cd "$(dirname "$0")/../.." || exit 2
ptc=$build/ptc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=0

# Milliseconds of one command, the start of the process included.
time_ms() {
  local begin=$EPOCHREALTIME
  "$@" >"$work/out" 2>&1 || { echo "failed: $*" >&2; cat "$work/out" >&2; exit 1; }
  local end=$EPOCHREALTIME
  echo $((${end/./} - ${begin/./})) | awk '{printf "%.3f\n", $1 / 1000}'
}

median() { sort -g "$1" | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

best() { sort -g "$1" | head -n 1; }

# row WHAT AT_12 AT_96 GOAL
row() {
  local verdict
  verdict=$(awk -v a="$2" -v b="$3" -v goal="$4" 'BEGIN {
    printf "%8.3f  %s", b / a, b / a <= goal ? "ok" : "MISSED" }')
  printf '  %-28s %12s %12s  %s\n' "$1" "$2" "$3" "$verdict"
  [[ $verdict != *MISSED ]] || missed=1
}

printf '%-30s %12s %12s %9s  goal 1.2\n' "compile" "12 layers" "96 layers" "ratio"
for model in gpt2 llama3; do
  echo "$model"
  : >"$work/12"
  : >"$work/96"
  for ((i = 0; i < runs; i++)); do  # interleaved, so that a slow moment hits both
    for layers in 12 96; do
      time_ms "$ptc" "samples/$model.ptm" --set layers=$layers -q >>"$work/$layers" || exit 1
    done
  done
  medians=$missed
  row "median of $runs runs, ms" "$(median "$work/12")" "$(median "$work/96")" 1.2
  missed=$medians
  row "best of $runs runs, ms" "$(best "$work/12")" "$(best "$work/96")" 1.2
  declare -A ops lines bytes
  for layers in 12 96; do
    # The last module printed is the pipeline's result.
    "$ptc" "samples/$model.ptm" --set layers=$layers --print-after=all 2>"$work/summary" |
      awk '/^module /{text = ""} {text = text $0 "\n"} END {printf "%s", text}' >"$work/ir"
    ops[$layers]=$(sed -n 's/.*, \([0-9]*\) ops.*/\1/p' "$work/summary")
    lines[$layers]=$(wc -l <"$work/ir")
    bytes[$layers]=$(wc -c <"$work/ir")
  done
  row "ops" "${ops[12]}" "${ops[96]}" 1.2
  row "lines of printed IR" "${lines[12]}" "${lines[96]}" 1.2
  row "bytes of printed IR" "${bytes[12]}" "${bytes[96]}" 1.2
done

echo
printf '%-30s %12s %12s %12s\n' "ptc check, $runs runs, ms" "median" "best" "goal 50"
for sample in samples/*.ptm; do
  : >"$work/check"
  for ((i = 0; i < runs; i++)); do time_ms "$ptc" check "$sample" >>"$work/check" || exit 1; done
  ms=$(best "$work/check")
  verdict=$(awk -v ms="$ms" 'BEGIN {print ms < 50 ? "ok" : "MISSED"}')
  [ "$verdict" = ok ] || missed=1
  printf '  %-28s %12s %12s %12s\n' "$(basename "$sample")" "$(median "$work/check")" "$ms" "$verdict"
done
exit $missed
