#!/usr/bin/env bash
# Predicted against measured step times on this machine, which should be quiet: 38 plans of four small samples.
#
# Usage: bash tests/bench/local.sh [--build DIR] [--rounds N] [--only REGEX] [--keep FOLDER]
#   --build DIR   where the program ptc is (default build/release)
#   --rounds N    every plan runs so many times, in turns; its fastest step counts (default 4)
#   --only REGEX  plans whose model and layout match, e.g. '^gpt2.*pp=2'
#   --keep FOLDER plans and times stay there, and those that are there count, too (0 rounds: only they)
# Delete ~/.cache/ptc/local.ptm first if it was measured on a busy machine. Goals: every layout within 15 %, rank
# correlation 0.9. Exit status: 0 if they are reached, 1 if not, 2 for wrong usage.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/release rounds=4 only=. keep=
while [ $# -gt 0 ]; do
  case $1 in
    --build | --rounds | --only | --keep)
      [ $# -ge 2 ] || { echo "local.sh: $1 takes a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift
      ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "local.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
[ -x "$build/ptc" ] || { echo "local.sh: $build/ptc is missing: build first" >&2; exit 2; }
folder=$keep
if [ -n "$keep" ]; then
  mkdir -p "$keep"
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
python3 tests/bench/local.py "$build/ptc" "$folder" "$rounds" "$only"
