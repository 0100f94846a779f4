#!/usr/bin/env bash
# Proves: what is installed is complete and runs from where it was put. Ends with `N passed, N failed`.
# Usage: install_test.sh BUILD_FOLDER
build=${1:?usage: install_test.sh BUILD_FOLDER}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

passed=0
failed=0
check() {  # check WHAT COMMAND...
  local what=$1
  shift
  if "$@" >"$root/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $what"
    cat "$root/log"
  fi
}

check "cmake --install" env DESTDIR="$root/dest" cmake --install "$build"
prefix=$(find "$root/dest" -type d -path '*/bin' -printf '%h\n' | head -n 1)
check "a bin folder" test -n "$prefix"
for file in bin/ptc bin/ptc-opt share/man/man1/ptc.1 share/man/man1/ptc-opt.1 \
  share/ptc/samples/gpt2.ptm lib/libptc_gpusim_cuda.so lib/libptc_gpusim_nccl.so \
  lib/ptc/ptc-nvrtc share/doc/ptc/README.md share/doc/ptc/LICENSE; do
  check "$file is installed" test -s "$prefix/$file"
done
check "ptc --version" "$prefix/bin/ptc" --version
check "ptc --help" "$prefix/bin/ptc" --help
for sample in "$prefix"/share/ptc/samples/*.ptm; do
  check "ptc check $(basename "$sample")" "$prefix/bin/ptc" check "$sample"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
