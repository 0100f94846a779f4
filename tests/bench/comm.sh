#!/usr/bin/env bash
# Times an all_reduce of f32 into private buffers: ptc with ranks as threads and as processes, beside OpenMPI, MPICH and
# gloo (PyTorch) where they are installed, in turns. Prints the median and the best time of each.
#
# Usage: bash tests/bench/comm.sh [--build DIR] [--ranks N] [--mib N] [--reps N] [--rounds N] [--cpu]
# --cpu takes ptc's ranks' own time, for a machine with other work on it; there, `chrt -f 20 bash tests/bench/comm.sh` keeps
# that work away from all of them.
# The goal for 64 MiB over 2 ranks on 2 cores is a median of at most 20 ms with threads.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/release ranks=2 mib=64 reps=11 rounds=3
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --build) build=${2:?}; shift 2 ;;
    --ranks) ranks=${2:?}; shift 2 ;;
    --mib) mib=${2:?}; shift 2 ;;
    --reps) reps=${2:?}; shift 2 ;;
    --cpu) export COMM_BENCH_CPU=1; shift ;;
    --rounds) rounds=${2:?}; shift 2 ;;
    *) echo "comm.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
bytes=$((mib << 20))
ninja -C "$build" comm_bench >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

has_torch() { /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null; }

names="threads processes"
for mpi in openmpi mpich; do
  command -v mpicc.$mpi >/dev/null && command -v mpirun.$mpi >/dev/null || continue
  mpicc.$mpi -O2 tests/bench/comm_mpi.c -o "$work/comm_$mpi"
  names="$names $mpi"
done
if has_torch; then names="$names gloo"; fi

run() {  # run NAME: its times
  case $1 in
    threads | processes) "$build/tests/comm_bench" "$1" "$ranks" "$bytes" "$reps" ;;
    openmpi)
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --oversubscribe -n "$ranks" \
        "$work/comm_openmpi" "$bytes" "$reps" ;;
    mpich) mpirun.mpich -n "$ranks" "$work/comm_mpich" "$bytes" "$reps" ;;
    gloo) /usr/bin/python3 tests/bench/comm_gloo.py "$ranks" "$bytes" "$reps" ;;
  esac
}

echo "all_reduce of $mib MiB f32, $ranks ranks, $(nproc) cores; load: $(cut -d' ' -f1-3 /proc/loadavg)"
for ((round = 0; round < rounds; round++)); do
  # The first repetition touches memory for the first time.
  for name in $names; do run "$name" 2>>"$work/errors" | tail -n +2 >>"$work/$name.times" || echo "$name failed: $(tail -n 1 "$work/errors")"; done
done
for name in $names; do
  sort -n "$work/$name.times" | awk -v name="$name" '{ t[NR] = $1 }
    END { if (NR) printf "%-10s median %8.2f ms   best %8.2f ms   of %d\n", name, t[int((NR + 1) / 2)], t[1], NR }'
done
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
