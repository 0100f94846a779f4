#!/usr/bin/env bash
# Proves: `ptc run --graph`: a step that is launched as one graph gives the bits of one that is launched kernel by kernel, with
# evaluations in between; the run says why a step is none; a graph that cannot be made is a warning, and the run
# goes on. Ends with `N passed, N failed`. Without NVRTC it says so and passes.
# Usage: gpusim_replay_test.sh BUILD_FOLDER
build=${1:?usage: gpusim_replay_test.sh BUILD_FOLDER}
. "$(dirname "$0")/../support/gpusim.sh"

head -c 3000 README.md >"$root/tokens"
small=(layers=1 d=16 heads=2 seq=8 vocab=256 drop=0.1 train.batch=2 train.seed=5)
settings=()
for setting in "${small[@]}"; do settings+=(--set "$setting"); done

compile() {  # compile PLAN OPTIONS...
  "$ptc" samples/gpt2.ptm -o "$root/$1" --target compute_80 -q "${settings[@]}" "${@:2}" \
    >"$root/log" 2>&1
}
run() {  # run PLAN RUN OPTIONS...
  "$ptc" run "$root/$1" --data "$root/tokens:bytes" --run-dir "$root/$2" --device=gpusim "${@:3}" \
    >"$root/log" 2>&1
}
same() { diff -r "$root/$1/ckpt" "$root/$2/ckpt" >>"$root/log"; }

head -c 64 "$root/tokens" >"$root/held"
data=(--steps 3 --val "$root/held:bytes" --eval-every 1)
compile one || { cat "$root/log"; echo "0 passed, 1 failed"; exit 1; }
if ! run one off --graph=off "${data[@]}"; then
  if grep -q nvrtc-missing "$root/log"; then
    echo "skipped: no NVRTC here"
    echo "0 passed, 0 failed"
    exit 0
  fi
  cat "$root/log"
fi
check "off says nothing" test "$(grep -c 'CUDA graph' "$root/log")" = 0
run one on --graph=on --gpusim-checks "${data[@]}"
check "on says so" grep -q 'CUDA graph: from its second run on, the step is one launch' "$root/log"
count=$(sed -n 's/.*one launch instead of \([0-9]*\).*/\1/p' "$root/log")
check "the same bits" same off on
PTC_GPUSIM_FAULT=graph:0:1 run one fault "${data[@]}"
check "a graph that cannot be made is a warning" grep -q 'could not be recorded.*out of memory' "$root/log"
check "and the bits are the same" same off fault
PTC_GPUSIM_FAULT=launch:0:$((2 * count)) run one broken --steps 2
check "a kernel that fails in a graph is named" grep -q 'kernel "[a-zA-Z_0-9]*" has failed (injected)' "$root/log"
run one profile --steps 1 --profile
check "a profile says why not" grep -q 'no CUDA graph: each kernel is measured' "$root/log"
compile two --parallel dp=2
run two two --steps 1
check "ranks say why not" grep -q 'no CUDA graph: the step exchanges data' "$root/log"
run two none --steps 1 --graph=on
check "on is an error then" grep -q 'no-graph' "$root/log"
echo "$passed passed, $failed failed"
