#!/usr/bin/env bash
# Compares kernels that memory bounds (norms, softmax, elementwise chains, AdamW, gathers) with the stream
# bandwidth of this machine, measured in the same run: bytes that a kernel must move, by the time it takes.
#
# Usage: bash tests/bench/kernels.sh [--build DIR] [--threads N] [--steps N] [gpt2] [small]
# The goal, 80 % of the triad, counts for kernels whose data do not fit into a cache. Marked "arith" is what the
# instructions of exps and exact sums bound, not memory. Exit status: 0 if all
# reach it, 1 if not or if other programs took too much of the machine to tell, 2 for wrong usage.
set -euo pipefail
cd "$(dirname "$0")/../.."
case ${1-} in
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
command -v python3 >/dev/null || { echo "kernels.sh: python3 is missing" >&2; exit 2; }
exec python3 tests/bench/kernels.py "$@"
