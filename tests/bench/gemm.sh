#!/usr/bin/env bash
# Measures the printed GEMMs on the shapes of GPT-2 124M and of a small model: GFLOP/s with 1 and 2 threads, as a
# share of the FMA peak of the same repetition, beside OpenBLAS if libopenblas is installed.
#
# Usage: bash tests/bench/gemm.sh [--build DIR] [--reps N] [--cpu] [NAME-PREFIX]
# --cpu takes the threads' own time, for a machine with other work on it. The goal is 0.88 of the peak.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/release reps=9
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --build) build=${2:?}; shift 2 ;;
    --reps) reps=${2:?}; shift 2 ;;
    --cpu) export GEMM_BENCH_CPU=1; shift ;;
    -*) echo "gemm.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
  esac
done
ninja -C "$build" gemm_bench >/dev/null
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
"$build/tests/gemm_bench" "$reps" ${1:+"$1"}
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
