#!/usr/bin/env bash
# Proves: `ptc show PLAN kernels` of a plan for GPUs tells registers, shared memory, spills and occupancy in each format,
# and where they cannot be known says so and shows the rest; which products are left to cuBLASLt, and that they run
# as generated kernels where it is missing. Ends with `N passed, N failed`.
# Usage: cli_cuda_test.sh BUILD_FOLDER
build=$(realpath "${1:?usage: cli_cuda_test.sh BUILD_FOLDER}")
. "$(dirname "$0")/../support/cli.sh"

write_model 'train { batch = 4  steps = 2  optimizer = adamw(lr = 1e-2) }'

expect 0 '' 'ptc model.ptm -q --target compute_80 -o ptx'
expect 0 '[no-resources]' 'ptc show ptx kernels'
expect 0 ' -         -      -     - ' 'ptc show ptx kernels'
expect 0 '"registers": null' 'ptc show ptx kernels --format=json'
expect 0 ',,,,,,,,' 'ptc show ptx kernels --format=csv'

# Products: all that cuBLASLt can do, none, or those that are worth it.
expect 0 '' 'ptc model.ptm -q --target compute_80 --gemm=cublaslt -o lt'
expect 0 '; by cuBLASLt, else as generated' 'ptc show lt kernels'
expect 0 '"by": "cublaslt"' 'ptc show lt kernels --format=json'
expect 0 'train.gemm               cublaslt         command line' 'ptc show lt config'
expect 0 'workspace ' 'ptc show lt memory | grep "4.00 MiB"'
expect 1 '' 'ptc show ptx kernels --format=csv | grep cublaslt'
expect 1 'not "fast" [setting-value]' 'ptc check model.ptm --gemm=fast'
seq 1 400 >train.txt
if ! grep -q nvrtc-missing <(ptc model.ptm -q --target compute_80 -o ptx 2>&1); then
  expect 0 'loss ' 'ptc run lt --data train.txt --device gpusim -q && ptc show lt.run loss'
  # A simulator that stands alone.
  mkdir -p alone && cp "$build/libptc_gpusim_cuda.so" alone
  expect 0 'run as generated kernels: cuBLASLt was not found (tried alone/libptc_gpusim_cublaslt.so)' \
    'PTC_GPUSIM=alone/libptc_gpusim_cuda.so ptc run lt --data train.txt --device gpusim -q --restart 2>&1'
fi

# Without NVRTC.
export PTC_NVRTC=/nowhere/libnvrtc.so
expect 0 '[nvrtc-missing]' 'ptc model.ptm -q --target sm_80 -o gpu'
expect 0 'are not known: NVRTC, which compiles the CUDA kernels, was not found' 'ptc show gpu kernels -q'
expect 0 '"warps_per_sm": null' 'ptc show gpu kernels --format=json'

# An NVRTC that crashes, one that does so unless it is asked otherwise, and one that hangs when ptc is interrupted.
export PTC_NVRTC=$build/libfake_nvrtc.so PTC_CACHE=$PWD/crash-cache
export FAKE_NVRTC=CRASH
expect 4 'error: NVRTC 12.9 crashes with signal 11 (Segmentation fault) on kernel "' 'ptc model.ptm -q --target sm_90a -o gpu'
expect 0 'model.ptm:' 'ptc model.ptm -q --target sm_90a -o gpu 2>&1 | grep "\[nvrtc-crashed\]"'
export FAKE_NVRTC=CRASH_AS_IS
expect 0 '[nvrtc-retried]' 'ptc model.ptm -q --target sm_90a -o gpu 2>&1'
expect 1 '' 'ptc model.ptm -q --target sm_90a -o gpu 2>&1 | grep nvrtc'
export FAKE_NVRTC=HANG FAKE_NVRTC_PIDS=$PWD/pids
for signal in INT TERM KILL; do
  : >pids
  ptc model.ptm -q --target sm_80 -o gpu >hang.log 2>&1 &
  while [ ! -s pids ]; do sleep 0.02; done
  kill -$signal $!
  { wait $!; } 2>/dev/null
  expect 0 '' 'for i in $(seq 200); do kill -0 $(cat pids) 2>/dev/null || exit 0; sleep 0.05; done; exit 1'
done
unset PTC_NVRTC PTC_CACHE FAKE_NVRTC FAKE_NVRTC_PIDS

if grep -q nvrtc-missing <(ptc model.ptm -q --target sm_80 -o gpu 2>&1); then
  echo "skipped: no NVRTC here"
else
  expect 0 'limited by' 'ptc show gpu kernels'
  expect 1 '' 'ptc show gpu kernels --format=csv | cut -d, -f9- | grep -q ,,'
  # All numbers of a row: 255 registers and 64 warps at most, and no spills.
  expect 0 '' "ptc show gpu kernels --format=csv | awk -F, 'NR > 1 { if (NF != 18 || \$9 < 1 || \$9 > 255 || \$12 + \$13 > 0 ||
    \$15 != 8 * \$14 || \$15 > \$16 || \$16 != 64) exit 1 }'"
  expect 0 '"limited_by": "' 'ptc show gpu kernels --format=json'
  # From the cache, in nothing but reading.
  expect 1 '' 'ptc show gpu kernels 2>&1 | grep compiling'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
