#!/usr/bin/env bash
# From a fresh checkout to a trained model in a few minutes: installs what is missing (Debian), builds
# ptc, compiles quickstart.ptm, a GPT-2 in small that reads bytes, to a plan of C kernels for two ranks of
# this CPU, each with half of every batch, trains it on the license texts of this system for about a minute,
# lets it write a paragraph, and shows what the ranks did in a step.
#
# Usage: bash samples/quickstart.sh [OPTION...]
#   --steps N      steps to train (default 800)
#   --threads N    default: all cores
#   --work DIR     where text, plan and run lie (default build/quickstart)
#   --build DIR    where ptc is built (default build/release)
set -euo pipefail
cd "$(dirname "$0")/.."
steps=800 threads=$(nproc) work=build/quickstart build=build/release
while [ $# -gt 0 ]; do
  case $1 in
    --steps | --threads | --work | --build)
      [ $# -ge 2 ] || { echo "quickstart.sh: $1 takes a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift
      ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "quickstart.sh: unknown option $1; --help names all" >&2; exit 2 ;;
  esac
  shift
done

say() { printf '\n== %s\n' "$*"; }

packages="gcc libc6-dev cmake ninja-build flex bison pkg-config libcunit1-dev libjansson-dev libmd-dev libcsv-dev zlib1g-dev"
if command -v dpkg-query >/dev/null; then
  missing=""
  for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing="$missing $package"
  done
  if [ -n "$missing" ]; then
    sudo=""
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    say "installing:$missing"
    $sudo apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing \
      >/dev/null
  fi
fi

say "building ptc"
if [ "$build" = build/release ]; then
  cmake --preset release >/dev/null
else
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
fi
cmake --build "$build" --target ptc | tail -n 1

# Each text once (the folder holds links, too), without its indentation; two of them are held out.
plain() { sed 's/^[[:space:]]*//; s/[[:space:]]\{1,\}/ /g' "$1" | cat -s; }
texts=/usr/share/common-licenses
[ -d $texts ] || { echo "quickstart.sh: $texts is missing: this is no Debian; try ptc run with a text of your own" >&2; exit 1; }
mkdir -p "$work"
: >"$work/train.txt"
: >"$work/held_out.txt"
for file in "$texts"/*; do
  [ -L "$file" ] && continue
  case ${file##*/} in
    Artistic | CC0-1.0) plain "$file" >>"$work/held_out.txt" ;;
    *) plain "$file" >>"$work/train.txt" ;;
  esac
done

say "compiling samples/quickstart.ptm for two ranks"
"$build/ptc" samples/quickstart.ptm --parallel dp=2 -o "$work/plan"

say "training on $(wc -c <"$work/train.txt") bytes, $(wc -c <"$work/held_out.txt") held out"
"$build/ptc" run "$work/plan" --data="$work/train.txt" --val="$work/held_out.txt" --steps="$steps" \
  --threads="$threads" --run-dir="$work/run" --restart

say "what it writes after \"The license\""
"$build/ptc" sample "$work/plan" --ckpt="$work/run" --prompt="The license " --length=500 \
  --temperature=0.7

say "a step of these ranks: what each computes, and reads from the other"
"$build/ptc" show "$work/plan" schedule | cut -c 1-120
cat <<EOF

== where to look next
  $build/ptc show $work/plan             the plan: kernels, memory, settings
  $build/ptc show $work/plan schedule    the steps of its ranks, in full
  $build/ptc show $work/plan memory      what lies where in its arena, step by step
  $work/plan/kernels/                    the C that was generated and ran
  $build/ptc show $work/run loss         the loss over the steps
  $build/ptc sample $work/plan --ckpt=$work/run --prompt="You may "
Change samples/quickstart.ptm and run this again, or see samples/README.md for larger models.
EOF
