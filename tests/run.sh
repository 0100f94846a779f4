#!/usr/bin/env bash
# Builds ptc and runs all tests: release, then debug with ASan and UBSan. On Debian it installs the
# packages that are missing. Ends with `N passed, N failed`; the exit status is 0 if none failed.
#
# Usage: bash tests/run.sh [--quick | --asan] [--fuzz MINUTES] [--valgrind] [--tsan] [--gpu] [--jobs N]
#   --quick          release only
#   --asan           debug (ASan and UBSan) only
#   --fuzz MINUTES   afterwards, fuzz each reader for so long (needs clang)
#   --valgrind       afterwards, release unit tests under memcheck (installs valgrind; some minutes)
#   --tsan           afterwards, programs of many ranks and threads under ThreadSanitizer, their kernels too
#   --gpu            afterwards, models on a GPU against the CPU (tests/gpu/run.sh)
#   --jobs N         parallel jobs (default: the number of cores)
set -u
cd "$(dirname "$0")/.." || exit 2

configs="release debug"
fuzz_minutes=0
valgrind=no
tsan=no
gpu=no
jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --quick) configs=release ;;
    --asan) configs=debug ;;
    --fuzz) fuzz_minutes=${2:?--fuzz takes MINUTES}; shift ;;
    --valgrind) valgrind=yes ;;
    --tsan) tsan=yes ;;
    --gpu) gpu=yes ;;
    --jobs) jobs=${2:?--jobs takes a number}; shift ;;
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done

install_missing() {
  local packages="gcc libc6-dev cmake ninja-build flex bison pkg-config libcunit1-dev libjansson-dev libmd-dev libcsv-dev
    zlib1g-dev python3"
  [ "$fuzz_minutes" != 0 ] && packages="$packages clang"
  [ "$valgrind" = yes ] && packages="$packages valgrind"
  command -v dpkg-query >/dev/null || return 0
  local missing="" sudo="" lean=--no-install-recommends
  [ "$fuzz_minutes" != 0 ] && lean=""  # clang's sanitizer libraries are a recommendation
  for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  echo "== installing:$missing"
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  # shellcheck disable=SC2086
  $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq \
    $lean $missing >/dev/null
}

# For the tests of ranks under MPI, which are skipped where it is missing.
install_mpi() {
  command -v dpkg-query >/dev/null && ! command -v mpicc >/dev/null || return 0
  local sudo=""
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  echo "== installing: openmpi-bin libopenmpi-dev"
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends openmpi-bin \
    libopenmpi-dev >/dev/null 2>&1 || echo "run.sh: no MPI: its tests are skipped"
}

# Random cases of the same sources are the same everywhere, those of other sources are others.
PTC_SUITE_SEED=${PTC_SUITE_SEED:-$(find frontend ir passes codegen runtime tests samples -type f -name '*.[chly]' -print0 |
  LC_ALL=C sort -z | xargs -0 cat | cksum | cut -d' ' -f1)}
export PTC_SUITE_SEED
echo "== PTC_SUITE_SEED=$PTC_SUITE_SEED"

passed=0
failed=0
add() {  # add PASSED FAILED
  passed=$((passed + $1))
  failed=$((failed + $2))
}

# Counts test cases in the output of `ctest -V`: the tests of CUnit programs, the cases that scripts
# state as `N passed, N failed`, and one for anything else. A program that failed without naming a
# case (a crash, a sanitizer's report) counts as one failure.
count_cases() {
  awk '
    match($0, /^[0-9]+: /) {
      test = substr($0, 1, RLENGTH - 2) + 0
      if (match($0, /^[0-9]+: +tests +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+/)) {
        pass[test] += $5; fail[test] += $6; seen[test] = 1
      } else if (match($0, /^[0-9]+: [0-9]+ passed, [0-9]+ failed$/)) {
        pass[test] += $2; fail[test] += $4; seen[test] = 1
      }
      next
    }
    match($0, /Test +#[0-9]+: /) {
      split(substr($0, RSTART, RLENGTH), words, "#")
      test = words[2] + 0
      ok = $0 ~ /   Passed /
      if (!seen[test]) { pass[test] = ok; fail[test] = !ok }
      else if (!ok && !fail[test]) fail[test] = 1
      total_pass += pass[test]; total_fail += fail[test]
    }
    END { printf "%d %d\n", total_pass, total_fail }
  ' "$1"
}

run_config() {
  local config=$1 log=build/$1-tests.log counts
  echo "== $config: building"
  if ! cmake --preset "$config" >build/"$config"-configure.log 2>&1; then
    cat build/"$config"-configure.log
    add 0 1
    return
  fi
  if ! cmake --build --preset "$config" -j "$jobs" >build/"$config"-build.log 2>&1; then
    grep -E -A8 'error|FAILED' build/"$config"-build.log | head -n 60
    add 0 1
    return
  fi
  echo "== $config: testing"
  ctest --preset "$config" -V -j "$jobs" --timeout 1200 >"$log" 2>&1
  grep -E '^ *[0-9]+/[0-9]+ Test +#' "$log"
  local number
  for number in $(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#([0-9]+): .*\*\*\*.*/\1/p' "$log"); do
    echo "== $config: what went wrong in test $number (PTC_SEED=${PTC_SEED:-$PTC_SUITE_SEED})"
    grep -E "^$number: " "$log" |
      grep -E 'had failures|^[0-9]+: +[0-9]+\. |FAILED|ERROR: |runtime error|expected' | head -n 40
    grep -E "^$number: " "$log" | tail -n 15
  done
  counts=$(count_cases "$log")
  # shellcheck disable=SC2086
  add $counts
  echo "== $config: ${counts% *} passed, ${counts#* } failed (log: $log)"
}

run_fuzz() {
  echo "== fuzz: building"
  if ! { cmake --preset fuzz && cmake --build --preset fuzz -j "$jobs"; } >build/fuzz.log 2>&1; then
    tail -n 40 build/fuzz.log
    add 0 1
    return
  fi
  local pids="" names="" name pid
  for harness in build/fuzz/tests/*_fuzz; do
    name=$(basename "$harness" _fuzz)
    mkdir -p "build/fuzz/corpus_$name" "build/fuzz/findings_$name"
    local dictionary=""
    [ -f "tests/fuzz/$name.dict" ] && dictionary="-dict=tests/fuzz/$name.dict"
    "$harness" $dictionary -max_total_time=$((fuzz_minutes * 60)) -timeout=20 -rss_limit_mb=3000 \
      -max_len=16384 -artifact_prefix="build/fuzz/findings_$name/" "build/fuzz/corpus_$name" \
      "tests/fuzz/corpus_$name" >"build/fuzz/$name.log" 2>&1 &
    pids="$pids $!"
    names="$names $name"
  done
  for pid in $pids; do
    name=${names# }
    name=${name%% *}
    names=${names# }
    names=${names#"$name"}
    if wait "$pid"; then
      echo "== fuzz $name: no finding; $(grep -E '^Done|stat::number_of_executed' "build/fuzz/$name.log" | tail -n 1)"
      add 1 0
    else
      echo "== fuzz $name: a finding in build/fuzz/findings_$name"
      tail -n 40 "build/fuzz/$name.log"
      add 0 1
    fi
  done
}

# Tests that compile and run generated code, fork many ranks, or would take many minutes under memcheck stay with
# the sanitizers.
valgrind_tests="arena axes builder checkpoint cost data diag map memory_plan metrics module name_map npy plan_order
  plan_stages safetensors schedule shape shuffle str thread_pool type weights"

run_valgrind() {
  local name log leaks
  for name in $valgrind_tests; do
    log=build/valgrind-$name.log
    leaks=full
    [ "$name" = checkpoint ] && leaks=no  # its children end at any instant, with what they hold
    if valgrind -q --error-exitcode=99 --leak-check=$leaks --errors-for-leak-kinds=definite \
      "build/release/tests/${name}_test" >"$log" 2>&1; then
      add 1 0
    else
      echo "== valgrind $name: findings in $log"
      grep -E '^==' "$log" | head -n 20
      add 0 1
    fi
  done
}

# Where threads meet: the pool, the executor, communicators, launches, ranks and stages that train.
tsan_tests="thread_pool executor communicator communicator_faults launch ranks stages_generated"

run_tsan() {
  echo "== tsan: building"
  # shellcheck disable=SC2086
  if ! { cmake --preset tsan && cmake --build --preset tsan -j "$jobs" --target ptc \
    $(printf '%s_test ' $tsan_tests); } >build/tsan.log 2>&1; then
    grep -E -A8 'error|FAILED' build/tsan.log | head -n 40
    add 0 1
    return
  fi
  local name log
  for name in $tsan_tests; do
    log=build/tsan-$name.log
    if PTC_CACHE=build/tsan/kernel-cache "build/tsan/tests/${name}_test" >"$log" 2>&1 &&
      ! grep -q 'WARNING: ThreadSanitizer' "$log"; then
      add 1 0
    else
      echo "== tsan $name: findings in $log"
      grep -E -A14 'WARNING: ThreadSanitizer|^ +[0-9]+\. ' "$log" | head -n 40
      add 0 1
    fi
  done
}

run_gpu() {
  local log=build/gpu.log counts
  bash tests/gpu/run.sh --ptc build/release/ptc 2>&1 | tee "$log" | grep -v '^pass '
  counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log")
  # shellcheck disable=SC2086
  add ${counts:-0 1}
}

mkdir -p build
install_missing || { echo "run.sh: installing packages failed" >&2; exit 2; }
install_mpi
for config in $configs; do run_config "$config"; done
[ "$fuzz_minutes" = 0 ] || run_fuzz
[ "$valgrind" = no ] || run_valgrind
[ "$tsan" = no ] || run_tsan
[ "$gpu" = no ] || run_gpu
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
