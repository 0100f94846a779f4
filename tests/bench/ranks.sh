#!/usr/bin/env bash
# Times training steps of a small GPT (6 layers, d 384, batch 12 x 256, f32) on two ranks of one thread, dp = 2, beside one
# rank of two threads, and beside PyTorch's DistributedDataParallel over gloo (two processes of one thread), in turns.
#
# Usage: bash tests/bench/ranks.sh [--build DIR] [--rounds N] [--steps N] [--no-torch]
# PyTorch is the release that train.sh installs. Goals: at least 95 % of the tokens/s of one rank, at most 1.6 s a step.
# Exit status: 0 if they are reached, 1 if not or if other programs took too much of the machine to tell, 2 wrong usage.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "${1:-}" != --help ] && [ "${1:-}" != -h ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0; }
exec python3 tests/bench/ranks.py "$@"
