#!/usr/bin/env bash
# Trains small models of every family on the CPU and on a GPU, from one seed and on the same data, and compares
# the loss of every step and the gradients of the first. Ends with `N passed, N failed`.
#
# Usage: bash tests/gpu/run.sh [OPTION...] [CASE...]
#   --ptc BINARY       the program (default: build/release/ptc, which is built)
#   --device NAME      cuda (default), or gpusim, the simulator: takes minutes a case, start with gpt2
#   --target ARCH      what the kernels are compiled for (default: the GPU's; compute_80 for gpusim)
#   --precision P      f32, tf32 (f32 with products in tf32), bf16 or f16; may be repeated (default: f32 and bf16)
#   --gemm HOW         products by generated kernels, by cublaslt where it can, or auto (default)
#   --steps N          of each case (default: 5; 2 on gpusim)
#   --work DIR         plans, runs and a log (default: a temporary folder)
# NVRTC is looked for in PTC_NVRTC_DIR, the loader's paths, /usr/local/cuda* and Python's nvidia packages.
# Exit status: 0 if all passed, 1 if not, 2 wrong usage, 3 no GPU or no NVRTC.
set -euo pipefail
cd "$(dirname "$0")/../.."
ptc="" device=cuda target="" work="" steps="" rest=()
value() { [ "$2" -gt 1 ] || { echo "run.sh: $1 needs a value" >&2; exit 2; }; }
while [ $# -gt 0 ]; do
  case $1 in
    --ptc) value "$1" $#; ptc=$2; shift ;;
    --device) value "$1" $#; device=$2; shift ;;
    --target) value "$1" $#; target=$2; shift ;;
    --work) value "$1" $#; work=$2; shift ;;
    --steps) value "$1" $#; steps=$2; shift ;;
    --gemm) value "$1" $#; rest+=(--gemm "$2"); shift ;;
    --precision) value "$1" $#; rest+=(--precision "$2"); shift ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) rest+=("$1") ;;
  esac
  shift
done
command -v python3 >/dev/null || { echo "run.sh: python3 is missing" >&2; exit 2; }
case $device in
  gpusim) target=${target:-compute_80} steps=${steps:-2} ;;
  cuda)
    if [ -z "$target" ]; then
      capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .) || true
      [ -n "$capability" ] || { echo "run.sh: no GPU here: nvidia-smi names none; --device gpusim needs none" >&2; exit 3; }
      target=sm_$capability
      [ "$capability" != 90 ] || target=sm_90a
    fi ;;
  *) echo "run.sh: --device is cuda or gpusim, not $device" >&2; exit 2 ;;
esac
if [ -z "$ptc" ]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target ptc >/dev/null
  [ "$device" = cuda ] || cmake --build --preset release >/dev/null  # the simulator is a library of its own
  ptc=build/release/ptc
fi
[ -x "$ptc" ] || { echo "run.sh: $ptc is no program" >&2; exit 2; }
if [ -z "${PTC_NVRTC_DIR:-}" ] && ! ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so'; then
  for folder in /usr/local/cuda*/lib64 /usr/local/cuda*/lib $(python3 -c '
import glob, site
for root in site.getsitepackages() + [site.getusersitepackages()]:
    print(*glob.glob(root + "/nvidia/*/lib"))' 2>/dev/null); do
    if ls "$folder"/libnvrtc.so* >/dev/null 2>&1; then
      export PTC_NVRTC_DIR=$folder
      break
    fi
  done
  [ -n "${PTC_NVRTC_DIR:-}" ] || {
    echo "run.sh: no NVRTC here: install the CUDA toolkit, or pip's nvidia-cuda-nvrtc, or name its folder in PTC_NVRTC_DIR" >&2
    exit 3
  }
fi
if [ -z "${PTC_CUBLASLT_DIR:-}" ] && ! ldconfig -p 2>/dev/null | grep -q 'libcublasLt\.so'; then
  for folder in "${PTC_NVRTC_DIR:-}" "${PTC_NVRTC_DIR:-}"/../../*/lib; do
    if ls "$folder"/libcublasLt.so* >/dev/null 2>&1; then
      export PTC_CUBLASLT_DIR=$folder
      break
    fi
  done
fi
if [ -z "$work" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
python3 tests/gpu/compare.py --ptc "$ptc" --work "$work" --target "$target" --device "$device" \
  --steps "${steps:-5}" ${rest[@]+"${rest[@]}"}
