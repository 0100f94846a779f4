#!/usr/bin/env bash
# Trains the quickstart's model with ptc and with PyTorch, for the same number of steps from the same
# initial weights on the same samples, and compares the loss on the held-out text: 2 % at most.
#
# Usage: bash tests/torch/quickstart.sh [--steps N] [--threads N] [--build DIR]    (default 800 steps)
# Exit status: 0 if they agree, 1 if not, 2 for wrong usage, 3 if something cannot run.
set -euo pipefail
cd "$(dirname "$0")/../.."
steps=800 threads=$(nproc) build=build/release
while [ $# -gt 0 ]; do
  case $1 in
    --steps | --threads | --build)
      [ $# -ge 2 ] || { echo "quickstart.sh: $1 takes a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift
      ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "quickstart.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
if ! /usr/bin/python3 -c 'import numpy, torch' 2>/dev/null; then
  sudo=""
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  echo "installing python3-torch and libopenblas0-openmp" >&2
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
    python3-torch python3-numpy libopenblas0-openmp >&2 || exit 3
fi
export OMP_WAIT_POLICY=passive
work=build/quickstart
SECONDS=0
bash samples/quickstart.sh --steps "$steps" --threads "$threads" --build "$build" --work $work || exit 3
took=$SECONDS
ptc=$(sed -n 's/^{"kind": *"eval".*"loss": *\([0-9][0-9.e+-]*\),.*/\1/p' $work/run/metrics.jsonl |
  tail -n 1)
[ -n "$ptc" ] || { echo "quickstart.sh: no held-out loss in $work/run/metrics.jsonl" >&2; exit 3; }
echo
echo "== PyTorch, $steps steps"
torch=$(THREADS=$threads /usr/bin/python3 tests/torch/quickstart.py "$build/ptc" $work "$steps" | head -n 1)
awk -v ptc="$ptc" -v torch="$torch" -v took="$took" 'BEGIN {
  off = (ptc - torch) / torch
  ok = off <= 0.02 && off >= -0.02
  printf "held-out loss: ptc %.4f, PyTorch %.4f, %+.2f %% (allowed 2 %%): %s; the quickstart took %d s\n",
    ptc, torch, 100 * off, ok ? "ok" : "FAILED", took
  exit !ok
}'
