#!/usr/bin/env bash
# Times the planner from text to decision, nothing cached: seconds of one core (median and best of N runs), what it took
# of memory, and what it chose. Then the same model over growing clusters and depths.
#
# Usage: bash tests/bench/planner.sh [--build DIR] [--runs N] [--scaling]
# Goals: GPT-3 on 64 and 512 A100 0.2 s, Llama 3 405B on 16,384 H100 1 s, 1T parameters of 128 layers on 16,384 A100 1 s.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/release runs=5 scaling=no
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --build) build=${2:?}; shift 2 ;;
    --runs) runs=${2:?}; shift 2 ;;
    --scaling) scaling=yes; shift ;;
    *) echo "planner.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
[ -x "$build/ptc" ] || { echo "planner.sh: $build/ptc is missing: build first" >&2; exit 2; }

plan() {  # plan NAME CLUSTER ARGUMENT...
  python3 - "$runs" "$1" "$build/ptc" "${@:3}" --cluster "$2" -n <<'END'
import resource, statistics, subprocess, sys
runs, name, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
seconds = []
for _ in range(runs):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
chosen = next((line.split(": ")[-1] for line in (done.stdout + done.stderr).splitlines() if "planned for" in line), "")
memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(f"{name:44} {statistics.median(seconds):6.3f} s  best {min(seconds):6.3f}  {memory:4.0f} MB  {chosen}")
END
}
gpt() {  # gpt LAYERS D HEADS BATCH: of samples/gpt2.ptm, 2048 tokens, no dropout
  echo "samples/gpt2.ptm --set layers=$1 --set d=$2 --set heads=$3 --set seq=2048 --set train.batch=$4"
}
gpt3=$(gpt 96 12288 96 1536)
trillion=$(gpt 128 25600 160 3072)
llama="samples/llama3.ptm --set layers=126 --set d=16384 --set heads=128 --set kv_heads=8 --set ffn=53248 --set train.batch=2048"
# shellcheck disable=SC2086
{
  plan 'GPT-3 175B, 64 A100' dgx_a100:8 $gpt3
  plan 'GPT-3 175B, 512 A100' dgx_a100:64 $gpt3
  plan 'Llama 3 405B, 16,384 H100' dgx_h100:2048 $llama
  plan '1T, 128 layers, 16,384 A100' dgx_a100:2048 $trillion
  [ $scaling = yes ] || exit 0
  for nodes in 64 512 4096 16384; do plan "1T, $((8 * nodes)) H100" dgx_h100:$nodes $trillion; done
  for layers in 8 32 128 1024; do plan "$layers layers of d 4096, 64 H100" dgx_h100:8 $(gpt $layers 4096 32 512); done
}
