#!/usr/bin/env bash
# The cost model against measurements: cost.sh BUILD_FOLDER [FOLDER], the folder that holds nccl_busbw_measured.csv and
# gemm_attn_eff_measured.csv (default: $PTC_REFERENCE, else ../shared/reference beside the repository).
build=${1:?usage: cost.sh BUILD_FOLDER [FOLDER]}
data=${2:-${PTC_REFERENCE:-$(dirname "$0")/../../../shared/reference}}
for kind in net:nccl_busbw_measured.csv kernel:gemm_attn_eff_measured.csv; do
  file=$data/${kind#*:}
  if [ ! -f "$file" ]; then
    echo "cost.sh: $file is not there" >&2
    exit 2
  fi
  "$build/tests/cost_bench" "${kind%%:*}" "$file" || exit 1
done
