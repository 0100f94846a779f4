#!/usr/bin/env bash
# What limits the regret of picking by prediction among vTrain's runs: regret.sh BUILD_FOLDER [FOLDER], the folder that
# holds vtrain_runs.csv (default: $PTC_REFERENCE, else ../shared/reference beside the repository).
build=${1:?usage: regret.sh BUILD_FOLDER [FOLDER]}
file=${2:-${PTC_REFERENCE:-$(dirname "$0")/../../../shared/reference}}/vtrain_runs.csv
if [ ! -f "$file" ]; then
  echo "regret.sh: $file is not there" >&2
  exit 2
fi
"$build/ptc" validate -q "$file" --format csv | python3 "$(dirname "$0")/regret.py" "$file"
