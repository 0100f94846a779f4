#!/usr/bin/env bash
# Proves: the programs answer every misuse with the right exit status and words: options, files that
# are no models, streams that fail, signals. Ends with `N passed, N failed`.
# Usage: cli_test.sh BUILD_FOLDER
build=$(realpath "${1:?usage: cli_test.sh BUILD_FOLDER}")
samples=$(realpath "$(dirname "$0")/../../samples")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
PATH=$build:$PATH
unset NO_COLOR
export LC_ALL=C
# A leak would not be a finding of these tests: a signal can leave memory behind.
export ASAN_OPTIONS=detect_leaks=0

passed=0
failed=0
# expect STATUS PATTERN COMMAND: runs COMMAND in a shell; its exit status must be STATUS, and what it
# says on stdout and stderr must contain PATTERN (fixed text; empty: must say nothing).
expect() {
  local status=$1 pattern=$2 got=0
  timeout 60 bash -c "$3" >out 2>&1 || got=$?
  local ok=1
  [ "$got" -eq "$status" ] || ok=0
  if [ -n "$pattern" ]; then grep -qF -- "$pattern" out || ok=0; else [ ! -s out ] || ok=0; fi
  grep -qE 'ERROR: AddressSanitizer|runtime error' out && ok=0
  if [ $ok = 1 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n  wanted status %s and "%s"; got %s and:\n' "$3" "$status" "$pattern" "$got"
    head -n 5 out | cut -c1-300
  fi
}

cp "$samples/gpt2.ptm" model.ptm
: >empty.ptm
mkdir folder
head -c 3000 /dev/zero >binary.ptm
truncate -s 300M huge.ptm
printf '\xff\xfe\x1b[31m\n' >noise.ptm
printf 'model m(n = 1) {\n  dim n\n  param w[n]\n  loss = sum[n](w)\n' >unclosed.ptm
ptc model.ptm -q --set layers=2 --print-after=lower --stop-after=lower >model.ptir

# --- usage
expect 0 'usage: ptc MODEL.ptm' 'ptc --help'
expect 0 'usage: ptc interpret' 'ptc interpret --help'
expect 0 'usage: ptc-opt' 'ptc-opt -h'
expect 0 'ptc 0.' 'ptc --version'
expect 0 'ptc-opt 0.' 'ptc-opt -V'
for program in ptc 'ptc check' 'ptc interpret' ptc-opt; do
  expect 2 'no input file' "$program"
  expect 2 'unknown option "--nope"' "$program --nope"
  expect 2 'unknown option "-x"' "$program -x"
  expect 2 'did you mean "--diagnostics"?' "$program --diagnostcs=json"
  expect 2 'option "--diagnostics" needs a value' "$program --diagnostics"
  expect 2 'option "--help" takes no value' "$program --help=3"
  expect 2 'is text or json' "$program --diagnostics=xml model.ptm"
done
# The catalog.
expect 0 'usage: ptc clusters' 'ptc clusters --help'
expect 0 'dgx_h100           h100_sxm' 'ptc clusters'
expect 0 'dgx_h100,h100_sxm,8,450,360,8,50,ib' 'ptc clusters --format csv'
expect 0 '"device": "mi300x"' 'ptc clusters --format=json'
expect 0 'cluster aws_p5(nodes = 1) {' 'ptc clusters aws-p5:4'
expect 0 'device mi300x {' 'ptc clusters MI300X'
expect 0 'link memory' "PTC_CACHE=$work/cache ptc clusters local"
expect 1 'did you mean "dgx_h100"?' 'ptc clusters dgx-h10'
expect 1 'the number of nodes, from 1 to 1048576 [cluster-nodes]' 'ptc clusters dgx_h100:0'
expect 2 '--format is table, csv or json, not' 'ptc clusters --format xml'
expect 2 'unknown option "--nope"' 'ptc clusters --nope'
# A budget of memory: the plan that just fits, none if nothing does.
cat >budget.sh <<'END'
budget() { ptc model.ptm -n --set layers=3 --set d=64 --set heads=2 --set seq=64 --set vocab=100 --set batch=8 \
  --parallel "${2-}recompute=$1" 2>&1; }
arena() { sed -n 's/.*arena takes .*(\([0-9]*\) bytes.*/\1/p' | sort -n | tail -n 1; }
END
expect 0 '' '. ./budget.sh; all=$(budget none | arena); full=$(budget full | arena)
  for bytes in $all $((all - 1)) $(((all + full) / 2)) $full; do
    got=$(budget "selective(bytes=$bytes)" | arena); [ "$got" -le "$bytes" ] || echo "$bytes: $got"; done'
expect 0 '' '. ./budget.sh; one=pp=2,micro_batch=2,; all=$(budget none $one | arena)
  got=$(budget "selective(bytes=$((all - 1)))" $one | arena); [ "$got" -lt "$all" ]'
expect 1 '[memory-budget]' '. ./budget.sh; budget "selective(bytes=1000)"'
expect 1 ' bytes even if everything is computed again, ' '. ./budget.sh; budget "selective(bytes=1000)"'
expect 2 'ptc: --set takes NAME=VALUE, not "layers"' 'ptc --set layers model.ptm'
expect 2 'ptc: --set takes NAME=VALUE, not "=2"' 'ptc --set =2 model.ptm'
expect 2 '--color is auto, always or never, not "red"' 'ptc --color=red model.ptm'
expect 2 'ptc: there is no pass "autodif"; did you mean "autodiff"?' \
  'ptc model.ptm --print-after=autodif'
expect 2 'ptc: there is no pass "optimiser"; did you mean "optimizer"?' \
  'ptc model.ptm --stop-after=optimiser'
expect 2 'ptc: there is no pass "zzz"; `ptc-opt --list-passes` lists them' \
  'ptc model.ptm --stop-after=zzz'
expect 2 'ptc interpret: there is no pass "recomptue"; did you mean "recompute"?' \
  'ptc interpret model.ptm --stop-after=recomptue'
expect 2 'ptc-opt: there is no pass "canonicalise"; did you mean "canonicalize"?' \
  'ptc-opt model.ptir --pass=canonicalise'
expect 2 'did you mean `ptc check`?' 'ptc chekc model.ptm'
expect 2 'did you mean `ptc interpret`?' 'ptc interpet model.ptm'
expect 2 '`ptc diff` does not exist yet' 'ptc diff plan'
expect 2 'with --stop-after there is no plan to write' 'ptc model.ptm -o plan --stop-after=autodiff'
expect 1 'there is no target "cpu:x86-64-v5"; did you mean' 'ptc model.ptm --target cpu:x86-64-v5'
expect 2 '--steps takes a whole number from 1: 0' 'ptc interpret model.ptm --steps=0'
expect 2 '--steps takes a whole number from 1: 3x' 'ptc interpret model.ptm --steps=3x'
expect 2 '--temperature takes a number from 0: -1' 'ptc interpret model.ptm --temperature=-1'
expect 2 'need --steps=N' 'ptc interpret model.ptm --data=text=model.ptm'
expect 1 'give --data text=FILE [data-missing]' \
  'ptc interpret model.ptm --steps=1 --set layers=1 --set d=12 --set seq=8 --set vocab=16 --set batch=1'
expect 1 'cannot read "nofile": No such file or directory [read-file]' \
  'ptc interpret '"$samples"'/tiny.ptm --steps=1 --data=text=nofile'
expect 1 'did you mean "layers"? [override-name]' 'ptc model.ptm --set layrs=3'

# --- files
expect 0 '' 'ptc check model.ptm'
expect 0 'parameters' 'ptc model.ptm -n'
expect 0 '' 'ptc model.ptm -n -q'
for program in ptc 'ptc check' 'ptc interpret' ptc-opt; do
  expect 1 'nofile.x: error: cannot read the file: No such file or directory [cannot-read]' \
    "$program nofile.x"
  expect 1 'folder: error: cannot read the file: Is a directory [cannot-read]' "$program folder"
  expect 1 'huge.ptm: error: cannot read the file: File too large [cannot-read]' \
    "$program huge.ptm"
  expect 1 '<stdin>: error: cannot read the file: Bad file descriptor [cannot-read]' \
    "$program - <&-"
  expect 1 'error:' "$program noise.ptm"
done
expect 1 'binary.ptm: error: the file is binary, not text [not-text]' 'ptc check binary.ptm'
expect 1 'the file is binary, not text' 'ptc check $(command -v ptc)'
expect 0 '' 'ptc check empty.ptm'
expect 1 'there is no model to compile' 'ptc empty.ptm'
expect 1 'there is no model to run' 'ptc interpret empty.ptm'
expect 0 '' 'ptc check - <model.ptm'
expect 1 '<stdin>:5:1: error:' 'ptc check - <unclosed.ptm'
expect 0 'module "gpt2"' 'ptc-opt - <model.ptir'
expect 1 'error:' 'ptc-opt empty.ptm'
expect 1 'cannot read the file: Permission denied' \
  'touch secret.ptm; chmod 0 secret.ptm; [ "$(id -u)" != 0 ] || {
     echo "cannot read the file: Permission denied"; exit 1; }; ptc check secret.ptm'

# --- what is printed
expect 1 '{"severity":"error","id":"cannot-read","file":"nofile","line":0,"column":0,"message":' \
  'ptc check nofile --diagnostics=json'
expect 1 $'\033[1;31merror:\033[0m' 'ptc check nofile --color=always'
expect 1 'nofile: error:' 'ptc check nofile --color=auto'
expect 1 'nofile: error:' 'script -qec "NO_COLOR=1 ptc check nofile" /dev/null'
expect 1 $'\033[1;31merror:\033[0m' 'script -qec "ptc check nofile" /dev/null'
expect 1 '?[31m' 'ptc check noise.ptm'
expect 1 '???' 'ptc check $'"'"'a\033\xffb'"'"' 2>&1 | grep -c "a??b" >/dev/null && echo "???"; exit 1'

# --- streams that fail
full='cannot write the output: No space left on device'
expect 1 "ptc: error: $full" 'ptc --help >/dev/full'
expect 1 "ptc: error: $full" 'ptc --version >/dev/full'
expect 1 "$full" 'ptc-opt --list-passes >/dev/full'
expect 1 'cannot write the output' 'ptc model.ptm -q --print-after=all >/dev/full'
expect 1 'cannot write the output' 'ptc-opt model.ptir >/dev/full'
expect 1 'cannot write the output: Bad file descriptor' 'ptc --version >&-'
expect 1 'cannot write the output' 'ptc model.ptm -q --print-after=lower >&-'
expect 1 '' 'ptc check nofile 2>&-'
expect 0 '' 'ptc check model.ptm >&- 2>&- <&-'
# A closed stderr must not let messages into a file that is opened later.
expect 0 '' 'ptc interpret '"$samples"'/tiny.ptm --steps=1 --data=text=model.ptm --set layers=1 \
  --set d=8 --dump=dump.st >/dev/null 2>&-; grep -c step dump.st | grep -qx "[01]"; ! grep -q tokens/s dump.st'
expect 1 'cannot' 'ptc interpret '"$samples"'/tiny.ptm --set layers=1 --set d=8 --dump=folder'
# A reader that goes away ends the program like any other: by SIGPIPE.
expect 141 'module' 'set -o pipefail; ptc model.ptm -q --print-after=all | head -n 1'

# --- signals
for signal in INT:130 TERM:143; do
  expect "${signal#*:}" '' "timeout --preserve-status -s ${signal%:*} 0.5 ptc interpret \
    $samples/tiny.ptm -q --steps=1000000 --data=text=model.ptm"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
