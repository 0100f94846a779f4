#!/usr/bin/env bash
# From a fresh checkout to a trained model: builds ptc, then trains tiny.ptm, a byte-level GPT of 72
# thousand parameters, on the license texts of this system for about a minute. It runs on the
# reference interpreter, which is slow on purpose: it defines what every faster way must compute.
#
# Usage: bash samples/train_tiny.sh [STEPS]      (default: 400)
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-400}
build=build/release

packages="gcc libc6-dev cmake ninja-build flex bison pkg-config libcunit1-dev libjansson-dev libmd-dev zlib1g-dev"
if command -v dpkg-query >/dev/null; then
  missing=""
  for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing="$missing $package"
  done
  if [ -n "$missing" ]; then
    sudo=""
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    echo "installing:$missing"
    $sudo apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing \
      >/dev/null
  fi
fi

echo "building"
cmake --preset release >/dev/null
cmake --build --preset release --target ptc >/dev/null

# Each text once (the folder holds links, too); two of them are held out.
text=$(mktemp -d)
trap 'rm -rf "$text"' EXIT
for file in /usr/share/common-licenses/*; do
  [ -L "$file" ] && continue
  case ${file##*/} in
    Artistic | CC0-1.0) cat "$file" >>"$text/held_out" ;;
    *) cat "$file" >>"$text/train" ;;
  esac
done
echo "training on $(wc -c <"$text/train") bytes, $(wc -c <"$text/held_out") held out"
"$build/ptc" interpret samples/tiny.ptm --steps="$steps" --data=text="$text/train" \
  --val=text="$text/held_out" --sample=300 --prompt="The license "
