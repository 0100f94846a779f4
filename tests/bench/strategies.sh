#!/usr/bin/env bash
# The splits that guides recommend (Megatron's: conformance B14) beside the planner's own, on DGX H100 nodes.
# Usage: strategies.sh [BUILD_FOLDER]
build=$(realpath "${1:-build/release}")
samples=$(dirname "$0")/../../samples

row() {  # row NAME NODES GUIDE ARGUMENTS: GUIDE are settings as --why-not takes them
  local name=$1 nodes=$2 guide=$3
  shift 3
  printf '== %s on %s GPUs\n' "$name" $((8 * nodes))
  "$build/ptc" "$@" --cluster "dgx_h100:$nodes" -n --why-not "$guide" 2>/dev/null || echo "   no plan"
}

llama() { row "$1" "$2" "$3" "$samples/llama3.ptm" "${@:4}"; }
llama 'Llama-3 8B' 1 tp=1,pp=1,cp=2 --set batch=128
llama 'Llama-3 70B' 8 tp=4,pp=4,cp=2 --set layers=80 --set d=8192 --set heads=64 --set ffn=28672 --set batch=128
row 'GPT-3 175B' 16 tp=4,pp=8 "$samples/gpt2.ptm" --set layers=96 --set d=12288 --set heads=96 --set seq=2048 --set batch=256
llama 'Llama-3 405B' 128 tp=8,pp=8,cp=2 --set layers=126 --set d=16384 --set heads=128 --set ffn=53248 --set batch=512
row 'DeepSeek-V2-Lite 16B' 2 tp=1,pp=2 "$samples/deepseek_v2.ptm" --set batch=256
row 'Mixtral 8x7B' 4 tp=1,pp=4 "$samples/mixtral.ptm" --set batch=256
