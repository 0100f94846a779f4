# Sourced by tests of the simulator of GPUs, in the root of the sources: a folder of their own, $root, and what they count.
# Wants $build. The log of what fails is $root/log.
ptc=$build/ptc
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
export PTC_CACHE=${PTC_CACHE:-$build/kernel-cache}

passed=0
failed=0
fail() {  # fail NAME
  failed=$((failed + 1))
  echo "FAILED: $*"
  cat "$root/log"
}
check() {  # check NAME COMMAND...
  if "${@:2}" >/dev/null; then
    passed=$((passed + 1))
  else
    fail "$1"
  fi
}
