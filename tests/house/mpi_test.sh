#!/usr/bin/env bash
# Proves: ranks that a launcher starts find each other and compute the bits of the definition: under OpenMPI and MPICH by
# the MPI module, and by shared memory as torchrun and srun start them; what goes wrong between MPI's ranks is named.
# What is not installed is skipped, with the reason. Usage: mpi_test.sh BUILD_DIR. Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 2
build=${1:?usage: mpi_test.sh BUILD_DIR}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Ranks are more than cores here.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
# Sanitized programs load an MPI library that leaks at its end.
export ASAN_OPTIONS=detect_leaks=0

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
check() {  # check WHAT RANKS: $log has a line "0 wrong" of each rank and no other
  if [ "$(grep -c ': 0 wrong$' "$log")" -eq "$2" ] && ! grep -q '[1-9][0-9]* wrong$' "$log"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$1"
    head -n 40 "$log"
  fi
}

# The launcher's environment, without a launcher: all ranks by hand.
by_hand() {  # by_hand RANKS RANK-VARIABLE WORLD-VARIABLE ASSIGNMENT...
  local ranks=$1 rank=$2 world=$3 pids="" r
  shift 3
  : >"$log"
  for ((r = 0; r < ranks; r++)); do
    env "$@" "$rank=$r" "$world=$ranks" PTC_CASES=10 timeout 120 "$build/tests/communicator_test" rank >>"$log" 2>&1 &
    pids="$pids $!"
  done
  # shellcheck disable=SC2086
  wait $pids
}
by_hand 3 RANK WORLD_SIZE LOCAL_WORLD_SIZE=3 MASTER_PORT=$$ TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0
check "torchrun's environment" 3
by_hand 3 SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=$$ SLURM_STEP_ID=0
check "srun's environment" 3
by_hand 2 PTC_RANK PTC_WORLD PTC_RUN=test-$$
check "ptc's environment" 2

for mpi in openmpi mpich; do
  if ! command -v mpirun.$mpi >/dev/null; then
    echo "skipped: mpirun.$mpi is not installed"
    continue
  fi
  if [ ! -f "$build/ptc_mpi_$mpi.so" ]; then
    echo "skipped: ptc was built where mpicc.$mpi was missing"
    continue
  fi
  PTC_CASES=15 timeout 120 mpirun.$mpi -n 4 "$build/tests/communicator_test" rank >"$log" 2>&1
  check "4 ranks of $mpi" 4
  PTC_COMM=local PTC_CASES=10 timeout 120 mpirun.$mpi -n 3 "$build/tests/communicator_test" rank >"$log" 2>&1
  check "3 ranks of $mpi over shared memory" 3
  for deed in "other kind" "other size" "other cut" message "give up" "take long" nobody; do
    timeout 120 mpirun.$mpi -n 3 "$build/tests/communicator_faults_test" rank "$deed" >"$log" 2>&1
    check "$deed under $mpi" 3
  done
done
# A module of another MPI than the launcher's believes that it is alone.
if [ -f "$build/ptc_mpi_openmpi.so" ] && command -v mpirun.mpich >/dev/null; then
  PTC_MPI_MODULE="$build/ptc_mpi_openmpi.so" timeout 120 mpirun.mpich -n 2 "$build/tests/communicator_test" rank >"$log" 2>&1
  if grep -q 'MPI says that it is rank 0 of 1.*comm-start' "$log"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: another MPI's module"
    head -n 20 "$log"
  fi
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
