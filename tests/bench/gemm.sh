#!/usr/bin/env bash
# GFLOP/s of the printed GEMMs on the shapes of GPT-2 124M and of a small model, with 1 and 2 threads, as a share of
# the FMA peak of the same repetition, beside OpenBLAS if libopenblas is installed.
# usage: tests/bench/gemm.sh [BUILD-FOLDER] [REPETITIONS] [NAME-PREFIX]
set -eu
build=${1:-build/release}
ninja -C "$build" gemm_bench > /dev/null
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
"$build/tests/gemm_bench" "${2:-9}" ${3:+"$3"}
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
