#!/usr/bin/env bash
# Compares ptc with the PyTorch references, live: bash tests/torch/run.sh [BUILD] [CASE...]
# BUILD (default build/release) holds the program ptc. Installs python3-torch if it is missing.
set -u
cd "$(dirname "$0")/../.." || exit 3
build=${1:-build/release}
[ $# -gt 0 ] && shift
here=tests/torch
python=/usr/bin/python3
if ! $python -c 'import numpy, torch' 2>/dev/null; then
  echo "installing python3-torch and python3-numpy" >&2
  apt-get update -q >&2 && apt-get install -y -q python3-torch python3-numpy >&2 || exit 3
fi
[ -x "$build/ptc" ] || { echo "$build/ptc is missing: build first" >&2; exit 2; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

$python $here/philox.py || exit 1
$python $here/selfcheck.py >"$tmp/selfcheck" 2>&1 || { cat "$tmp/selfcheck"; exit 1; }
echo "selfcheck: the references hold"

# One line per case: name, model file, --set options.
$python - "$@" >"$tmp/cases" <<'PY'
import json, sys
for case in json.load(open("tests/torch/cases.json"))["cases"]:
    if len(sys.argv) > 1 and case["name"] not in sys.argv[1:]:
        continue
    sets = " ".join("--set " + key + "=" + json.dumps(value).translate({ord(c): "" for c in ' "[]'})
                    for key, value in case["set"].items())
    print(case["name"], case["model"], sets)
PY

failed=0
while read -r name model sets; do
  # shellcheck disable=SC2086  # the options are words
  if ! "$build/ptc" interpret "$model" $sets --func=train --stop-after=autodiff \
      --dump="$tmp/$name.safetensors" >"$tmp/$name.log" 2>&1; then
    echo "$name: ptc interpret failed"
    sed 's/^/  /' "$tmp/$name.log" | head -20
    failed=1
    continue
  fi
  $python $here/compare.py "$name" "$tmp/$name.safetensors" >"$tmp/$name.txt" || failed=1
  grep -q PASS "$tmp/$name.txt" || grep FAIL "$tmp/$name.txt" | head -10
  tail -1 "$tmp/$name.txt"
done <"$tmp/cases"
exit $failed
