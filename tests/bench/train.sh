#!/usr/bin/env bash
# Times whole training steps (forward, backward, AdamW) in f32 and says which part of the FMA peak,
# measured in the same run, they reach, how they compare with PyTorch (a current release from PyPI,
# eager and compiled, and Debian's), where the time goes, and what memory they take. ptc and PyTorch
# take turns, so that a slow moment hits both; PyTorch runs in the best of several settings. A step's
# time is what a user pays for it once the run is going: the output says what that includes.
#
# Usage: bash tests/bench/train.sh [OPTION...] [gpt2] [small]
#   --build DIR      where the program ptc is (default build/release)
#   --threads N      of all programs (default: all cores)
#   --rounds N       turns of each (default 5)
#   --steps N        steps of a turn (default 2)
#   --no-torch       leave PyTorch out
#   --no-debian      only the release from PyPI
#   --no-tuning      PyTorch in one setting only
#   --json FILE      the figures, too
# PyTorch is installed into a cache folder (XDG_CACHE_HOME or ~/.cache). Exit status: 0 if the goals
# are reached, 1 if not or if other programs took too much of the machine to tell, 2 wrong usage.
set -euo pipefail
cd "$(dirname "$0")/../.."
torch=yes debian=yes
rest=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-torch) torch=no ;;
    --no-debian) debian=no ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) rest+=("$1") ;;
  esac
  shift
done
command -v python3 >/dev/null || { echo "train.sh: python3 is missing" >&2; exit 2; }

install() {  # install PACKAGE...: Debian packages that are missing
  local missing=() sudo="" package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  echo "installing ${missing[*]}" >&2
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

if [ $torch = yes ]; then
  venv=${XDG_CACHE_HOME:-$HOME/.cache}/ptc-bench/torch
  if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    install python3-venv python3-dev g++
    echo "installing PyTorch from PyPI into $venv (some GiB, once)" >&2
    mkdir -p "$(dirname "$venv")"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q torch numpy
  fi
  rest+=("--contender=PyPI eager=$venv/bin/python:eager"
    "--contender=PyPI compiled=$venv/bin/python:compile")
  if [ $debian = yes ]; then
    install python3-torch libopenblas0-openmp
    rest+=("--contender=Debian eager=/usr/bin/python3:eager")
  fi
fi
exec python3 tests/bench/train.py "${rest[@]}"
