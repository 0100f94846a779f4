#!/usr/bin/env bash
# Memory as the planner predicts it, before any plan is made, beside what the plans have: bytes of the arena, and of what
# lives in it at once (without kernels' workspaces, and what placing loses), of the stage that needs most; by kind. The
# samples at some MB, in many layouts.
#
# Usage: bash tests/bench/room.sh [--build DIR] [--only REGEX] [--summary] [--peak]
#   --only     models, precisions and layouts to match: 'gpt2 f32 .*zero=3'
#   --summary  errors alone
#   --peak     what lives at the peak, value by value
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/release only=. summary= peak=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --build) build=${2:?}; shift 2 ;;
    --only) only=${2:?}; shift 2 ;;
    --summary) summary=yes; shift ;;
    --peak) peak=--peak; shift ;;
    *) echo "room.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
[ -x "$build/tests/room_bench" ] || { echo "room.sh: $build/tests/room_bench is missing: build first" >&2; exit 2; }
exec python3 - "$build/tests/room_bench" "$only" "$summary" "$peak" <<'END_OF_PYTHON'
import re, statistics, subprocess, sys

bench, only, summary, peak = sys.argv[1:]
small = ["d=64", "seq=64", "vocab=256"]
heads = [*small, "heads=4"]
models = {
    "gpt2": ["5", *heads],
    "llama3": ["5", *heads, "kv_heads=2", "ffn=160"],
    "gemma2": ["6", *heads, "kv_heads=2", "head_dim=16", "ffn=160", "window=16"],
    "gptj": ["5", *heads, "rotary=8"],
    "deepseek_v2": ["5", *heads, "q_rank=32", "kv_rank=16", "nope=16", "rope_dim=8", "v_dim=16", "ffn=160", "moe_ffn=48",
                    "experts=4"],
    "mixtral": ["5", *heads, "kv_heads=2", "ffn=96", "experts=4"],
    "mamba2": ["5", *small, "head_dim=16", "state=16"],
    "bert": ["5", *heads],
}
one = ["micro_batch=16", "micro_batch=4"]
again = ["recompute=full", "recompute=selective", "recompute=every(2)", "recompute=every(8)"]
layouts = one + [f"{m},{r}" for m in one for r in again]
layouts += [f"dp=2,micro_batch={m},zero={z}" for m in (8, 2) for z in range(4)]
layouts += ["dp=4,micro_batch=1,zero=3,recompute=full", "dp=2,micro_batch=2,overlap=on",
            "dp=2,micro_batch=2,zero=1,overlap=on", "dp=2,micro_batch=2,zero=3,overlap=on",
            "tp=2,micro_batch=4", "tp=2,micro_batch=16", "tp=2,micro_batch=4,sequence_parallel=on",
            "tp=2,micro_batch=4,sequence_parallel=on,recompute=full", "dp=2,tp=2,micro_batch=2,zero=1",
            "cp=2,micro_batch=4", "cp=2,micro_batch=16", "ep=2,micro_batch=2", "dp=2,ep=2,micro_batch=2,zero=1"]
layouts += [f"pp={pp},micro_batch={8 // pp},schedule={s}" for pp in (2, 4) for s in ("1f1b", "gpipe", "zero_bubble")]
layouts += ["pp=2,micro_batch=2,schedule=interleaved(chunks=2)", *[f"pp=2,micro_batch=4,{r}" for r in again[:3]],
            *[f"pp=2,dp=2,micro_batch=2,zero={z}" for z in (1, 2, 3)], "pp=2,tp=2,micro_batch=4"]
if not summary:
    print(f"{'model':12} {'':4} {'layout':64} {'predicted':>10} {'arena':>10} {'error':>9} {'values':>10} {'error':>9}")
errors = []
for model, (layers, *settings) in models.items():
    for precision in ("f32", "bf16"):
        for layout in layouts:
            if not re.search(only, f"{model} {precision} {layout}"):
                continue
            command = [bench, model, layers, "16", precision, layout, *([peak] if peak else []), *settings]
            row = subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip()
            if not summary:
                print(row, flush=True)
            found = re.findall(r"([-+][\d.]+) %", row)
            if found:
                errors.append((float(found[1]), float(found[0]), f"{model} {precision} {layout}"))
if not errors:
    sys.exit("room.sh: no layout fits")
for what, at in ("values", 0), ("arena", 1):
    sizes = sorted(abs(e[at]) for e in errors)
    print(f"{len(sizes)} layouts, {what}: median {statistics.median(sizes):.2f} %, 90 % within "
          f"{sizes[int(len(sizes) * .9)]:.2f} %, largest {sizes[-1]:.2f} %")
print("farthest off")
for values, arena, name in sorted(errors, key=lambda e: -abs(e[0]))[:12]:
    print(f"  {values:+7.2f} %  (arena {arena:+7.2f} %)  {name}")
END_OF_PYTHON
