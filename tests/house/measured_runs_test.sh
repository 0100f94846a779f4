#!/usr/bin/env bash
# Proves: predictions of published training runs are as far off as passes/planner/README.md says and no farther: vTrain's
# times and the regret of picking by them, Korthikanti et al., the three kinds of rows, memory by source. Wants the tables of measured runs
# ($PTC_REFERENCE, else ../shared/reference beside the repository); without them it says so and proves nothing.
# Usage: measured_runs_test.sh BUILD_FOLDER
build=$(realpath "${1:?usage: measured_runs_test.sh BUILD_FOLDER}")
data=$(realpath -m "${PTC_REFERENCE:-$(dirname "$0")/../../../shared/reference}")
. "$(dirname "$0")/../support/cli.sh"

if [ ! -f "$data/vtrain_runs.csv" ] || [ ! -f "$data/published_runs.csv" ]; then
  echo "no tables of measured runs in $data (PTC_REFERENCE): not checked"
  echo "0 passed, 0 failed"
  exit 0
fi

# at_most FILE PREFIX {WHAT FIGURE LIMIT}...: of the rows whose id begins with PREFIX.
at_most() {
  local file=$1 prefix=$2
  shift 2
  expect 0 '' "ptc validate $data/$file --only $prefix --format json -q | python3 -c 'import json, sys
found, words = json.load(sys.stdin), sys.argv[1:]
for what, figure, limit in zip(words[::3], words[1::3], words[2::3]):
    value = found[what][figure]
    assert value is not None and value <= float(limit), (what, figure, value, limit)' $*"
}

# Groups of dense rows in 16 bits, dense ones in fewer, mixtures of experts: median and 90 %.
expect 0 '' "ptc validate $data/published_runs.csv --format csv -q | python3 -c 'import collections, csv, statistics, sys
rows = {row[\"id\"]: row for row in csv.DictReader(open(sys.argv[1]))}
kinds = collections.defaultdict(lambda: collections.defaultdict(list))
for run in csv.DictReader(sys.stdin):
    if not run[\"predicted_s\"] or not run[\"measured_s\"]: continue
    row = rows[run[\"id\"]]
    kind = \"experts\" if int(row[\"n_experts\"] or 1) > 1 else \"narrow\" if \"fp\" in row[\"precision\"].replace(\"fp16\", \"\") else \"dense\"
    kinds[kind][run[\"group\"]].append(abs(float(run[\"predicted_s\"]) / float(run[\"measured_s\"]) - 1))
for kind, median, most in ((\"dense\", 0.05, 0.11), (\"narrow\", 0.08, 0.19), (\"experts\", 0.08, 0.17)):
    errors = sorted(statistics.mean(group) for group in kinds[kind].values())
    found = statistics.median(errors), statistics.quantiles(errors, n=10, method=\"inclusive\")[8]
    assert found[0] <= median and found[1] <= most, (kind, found)' $data/published_runs.csv"
at_most vtrain_runs.csv VT-single time median 0.06 time regret 0.03
at_most vtrain_runs.csv VT-multi time median 0.10 time regret 0.023
at_most published_runs.csv KOR time median 0.027
at_most published_runs.csv TT memory median 0.04
at_most published_runs.csv MCGOLD memory median 0.02
at_most published_runs.csv DGXC-10 memory median 0.02
at_most published_runs.csv BSV memory median 0.10

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
