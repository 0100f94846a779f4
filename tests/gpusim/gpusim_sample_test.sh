#!/usr/bin/env bash
# Proves: `ptc sample --device=gpusim` draws from a checkpoint what the CPU draws from it: the likeliest tokens, and with a
# temperature by the seed; also with all ranks of a plan for two; and a device that is none is refused. Ends with
# `N passed, N failed`. Without NVRTC it says so and passes.
# Usage: gpusim_sample_test.sh BUILD_FOLDER
build=${1:?usage: gpusim_sample_test.sh BUILD_FOLDER}
. "$(dirname "$0")/../support/gpusim.sh"
settings=()
for setting in layers=1 d=16 heads=2 seq=8 vocab=256 train.batch=2 train.lr=0.02; do
  settings+=(--set "$setting")
done
compile() {  # compile PLAN OPTIONS...
  "$ptc" samples/gpt2.ptm -o "$root/$1" -q "${settings[@]}" "${@:2}" >"$root/log" 2>&1
}
sample() {  # sample PLAN OPTIONS... : on stdout
  "$ptc" sample "$root/$1" --ckpt "$root/cpu.run" -q --prompt 'The ' --length 12 "${@:2}" 2>"$root/log"
}

compile cpu && "$ptc" run "$root/cpu" --data README.md:bytes --steps 40 -q >"$root/log" 2>&1 || cat "$root/log"
compile gpu --target compute_80
sample gpu --device=gpusim --temperature 0 >"$root/gpu0"
if grep -q nvrtc-missing "$root/log"; then
  echo "skipped: no NVRTC here"
  echo "0 passed, 0 failed"
  exit 0
fi
sample cpu --temperature 0 >"$root/cpu0"
check "something is drawn" test "$(wc -c <"$root/cpu0")" -ge 16
check "the likeliest" cmp "$root/cpu0" "$root/gpu0"
sample gpu --device=gpusim --temperature 0.9 --seed 3 >"$root/gpu1"
sample cpu --temperature 0.9 --seed 3 >"$root/cpu1"
check "by the seed" cmp "$root/cpu1" "$root/gpu1"
check "which differs" test "$(cat "$root/cpu0")" != "$(cat "$root/cpu1")"
compile two --target compute_80 --parallel dp=2
sample two --device=gpusim --temperature 0 --ranks-as=threads --length 3 >"$root/gpu2"
check "all ranks" cmp <(head -c 7 "$root/cpu0") <(head -c 7 "$root/gpu2")
sample gpu --device=tpu >"$root/none"
check "no such device" grep -q -- '--device takes cuda or gpusim' "$root/log"
sample cpu --device=gpusim >"$root/none"
check "a plan for CPUs" grep -q 'gpusim-target' "$root/log"
echo "$passed passed, $failed failed"
