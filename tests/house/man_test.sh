#!/usr/bin/env bash
# Proves: the manual pages name every long option that --help names, and no other.
# Ends with `N passed, N failed`. Usage: man_test.sh BUILD_FOLDER
build=${1:?usage: man_test.sh BUILD_FOLDER}
cd "$(dirname "$0")/../.." || exit 2

passed=0
failed=0
options() { grep -oE -- '--[a-z][a-z-]*' | sort -u; }

compare() {  # compare PAGE HELP-TEXT
  local page=$1 in_page in_help difference
  in_page=$(sed 's/\\-/-/g' "$page" | grep -vE '^(ptc|ptc-opt) ' | options)
  in_help=$(options <<<"$2")
  difference=$(diff <(echo "$in_help") <(echo "$in_page") | grep '^[<>]')
  if [ -n "$in_help" ] && [ -z "$difference" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s (< only in --help, > only in the page)\n%s\n' "$page" "$difference"
  fi
}

compare frontend/driver/ptc.1 "$("$build/ptc" --help
for command in run eval sample export show interpret validate calibrate; do "$build/ptc" "$command" --help; done)"
compare frontend/driver/ptc-opt.1 "$("$build/ptc-opt" --help)"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
