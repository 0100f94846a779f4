#!/usr/bin/env bash
# Measures how long a proof takes: plans for 1, 64 and 4,096 ranks (dp = 64, tp = 8, pp = 8; once with 512 micro-batches)
# of GPT-2 and of a model like Llama 3, compiled without a C compiler at hand, and `ptc verify` of them; goal 1 s for
# 4,096 ranks. The compiler proves what it writes, so that its own time holds the proof, too. CPU time of the best of so
# many runs counts; exit status 1 if it misses.
# Usage: tests/bench/verify.sh BUILD_FOLDER [RUNS [LAYERS]]   (a release build; default: 5 runs, 32 layers)
set -u
build=$(realpath "${1:?usage: verify.sh BUILD_FOLDER [RUNS [LAYERS]]}")
runs=${2:-5} layers=${3:-32}
cd "$(dirname "$0")/../.." || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CC=/bin/false PTC_CACHE=$work/cache
missed=0

# Milliseconds of CPU time, on one core, of the best run of a command.
best_ms() {
  local i time best=
  local TIMEFORMAT='%U %S'
  for ((i = 0; i < runs; i++)); do
    { time "$@" >"$work/out" 2>&1 || touch "$work/failed"; } 2>"$work/time"
    [ ! -e "$work/failed" ] || { cat "$work/out" >&2; exit 2; }
    time=$(awk '{ printf "%d", 1000 * ($1 + $2) }' "$work/time")
    [ -n "$best" ] && [ "$time" -ge "$best" ] || best=$time
  done
  echo "$best"
}

printf '%-8s %6s %-26s %6s %12s %12s\n' model ranks mesh micro "compile, ms" "verify, ms"
for model in gpt2 llama3; do
  for mesh in dp=1 dp=4,tp=4,pp=4,zero=1 dp=64,tp=8,pp=8,zero=1 dp=64,tp=8,pp=8,zero=3 dp=64,tp=8,pp=8,zero=2; do
    dp=${mesh#dp=} samples=16
    [ "${mesh##*,}" != zero=2 ] || samples=1024
    options=(--set batch=$((samples * ${dp%%,*})) --set layers=$layers --parallel "$mesh,micro_batch=2" -q)
    [ $model = llama3 ] || options+=(--set heads=16)
    compile=$(best_ms "$build/ptc" samples/$model.ptm "${options[@]}" -o "$work/plan") || exit 2
    verify=$(best_ms "$build/ptc" verify "$work/plan" -q) || exit 2
    ranks=$(("$(sed 's/zero=.*//; s/[a-z]*=//g; s/,$//; s/,/*/g' <<<"$mesh")"))
    printf '%-8s %6d %-26s %6d %12d %12d' $model $ranks "$mesh" $((samples / 2)) "$compile" "$verify"
    if [ $ranks = 4096 ] && [ "$verify" -gt 1000 ]; then
      missed=1
      printf '  MISSED'
    fi
    printf '\n'
  done
done
exit $missed
