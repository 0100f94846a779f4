#!/usr/bin/env bash
# Times printed attention kernels: usage: tests/bench/attention.sh [THREADS [SHAPE]]; from the project's folder.
# Builds build/release first. Prints, per shape, forward and backward: time, rate counted on all T x T scores,
# rate of the work that the mask leaves, and its share of the FMA peak measured in the same run.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset release > /dev/null
ninja -C build/release ptc_test_support > /dev/null
cc -O2 -std=c17 -D_GNU_SOURCE -I. -o build/release/attention_bench tests/bench/attention_bench.c \
  build/release/tests/libptc_test_support.a build/release/libptc_{driver,frontend,passes,codegen,runtime,ir,base}.a \
  build/release/libptc_passes.a -lcunit -ljansson -lz -lm -lpthread -ldl
build/release/attention_bench "${1:-$(nproc)}" ${2:+"$2"}
