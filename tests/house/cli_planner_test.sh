#!/usr/bin/env bash
# Proves: --cluster chooses a split, predicts it and says why; what is fixed stays; measured runs are read, predicted,
# drawn, and constants fitted to them; and every misuse gets its exit status and words. Ends with `N passed, N failed`.
# Usage: cli_planner_test.sh BUILD_FOLDER
build=$(realpath "${1:?usage: cli_planner_test.sh BUILD_FOLDER}")
samples=$(realpath "$(dirname "$0")/../../samples")
. "$(dirname "$0")/../support/cli.sh"

# --- planning
expect 0 'planned for dgx_h100, 16 devices' "ptc $samples/llama3.ptm --cluster dgx-h100:2 -n"
expect 0 'waiting for tp' "ptc $samples/llama3.ptm --cluster dgx-h100:2 -n --parallel tp=8,sequence_parallel=on"
expect 0 'tp=4' "ptc $samples/llama3.ptm --cluster dgx-h100:2 -n --parallel tp=4,pp=2 | head -2"
expect 0 'pp=2' "ptc $samples/llama3.ptm --cluster dgx-h100:2 -n --parallel tp=4,pp=2 | head -2"
expect 0 'recompute=full' "ptc $samples/llama3.ptm --cluster dgx-h100:2 -n --parallel recompute=full"
expect 0 'the best on other meshes near it' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --why"
expect 0 'why not tp=8: +' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --why-not tp=8"
expect 0 'too much memory at best' \
  "ptc $samples/llama3.ptm --cluster dgx_h100:2 -n --why-not tp=1,zero=0,pp=1,recompute=none"
expect 0 'gap        0 %: proved' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n"
expect 0 'gap        <= ' "ptc $samples/gpt2.ptm --cluster dgx_a100:8 -n --why"
expect 0 'gap        not certified: nothing is proved of memory' \
  "ptc $samples/gpt2.ptm --cluster dgx_a100:8 -n --objective memory"
expect 0 '' "for c in 1 8; do ptc $samples/gpt2.ptm --cluster dgx_a100:\$c -n -q --format json >gap\$c.json; done; \
  ptc $samples/gpt2.ptm --cluster dgx_a100:8 -n -q --objective memory --format json >gap.json; python3 -c 'import json
one, eight, memory = (json.load(open(f\"gap{c}.json\")) for c in (\"1\", \"8\", \"\"))
assert one[\"gap\"] == 0 and one[\"bound\"] == one[\"best\"][\"step_s\"]
assert 0 < eight[\"gap\"] < 1 and abs(eight[\"bound\"] / eight[\"best\"][\"step_s\"] + eight[\"gap\"] - 1) < 1e-9
assert memory[\"gap\"] is None and memory[\"bound\"] is None and memory[\"uncertified\"]'"
expect 0 '"step_s"' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --format json"
expect 0 '' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --format json -q | python3 -m json.tool >json.txt"
expect 0 'planned for' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --objective memory"
# Dollars of a token: eight devices for a step's part of it.
expect 0 '' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n -q --objective cost --format json >cost.json; \
  ptc clusters --format json >all.json; python3 -c 'import json
c = json.load(open(\"cost.json\")); d = {x[\"device\"]: x for x in json.load(open(\"all.json\"))[\"devices\"]}
price = 8 * d[\"a100_sxm_80g\"][\"price_per_hour\"] / 3600 / c[\"best\"][\"tokens_per_s\"]
assert price > 0 and abs(c[\"bound\"] / price - 1) < 1e-6, (c[\"bound\"], price)'"
# Products in tf32 take tensor cores; of 16 bits they do so anyway.
step_s() { echo "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n -q --format json --set train.precision=$1 --f32-matmul=$2 |
  python3 -c 'import json, sys; print(json.load(sys.stdin)[\"best\"][\"step_s\"])'"; }
expect 0 '' "awk -v a=\$($(step_s f32 exact)) -v b=\$($(step_s f32 tf32)) 'BEGIN { exit !(b > 0 && 2 * b < a) }'"
expect 0 '' "[ \"\$($(step_s bf16 exact))\" = \"\$($(step_s bf16 tf32))\" ]"
large="ptc $samples/llama3.ptm --set d=16384 --set ffn=65536 --cluster dgx_a100:1 -n"
expect 1 'GB too much' "$large >large.txt 2>&1; status=\$?; cat large.txt; exit \$status"
expect 0 '[out-of-memory]' 'cat large.txt'
# What would fit: a setting left open before more nodes.
expect 0 'the cheapest change that fits: ' 'grep "nodes (" large.txt'
expect 1 'the cheapest change that fits: leave zero open' \
  "ptc $samples/llama3.ptm --set batch=64 --cluster dgx_a100:1 --parallel zero=0,tp=1,pp=1 --set d=6144 -n"
# Rules of thumb.
idle="ptc $samples/gpt2.ptm --set layers=16 --set batch=64 --cluster dgx_a100:1 --parallel pp=8,schedule=1f1b,micro_batch=2"
expect 0 '[pipeline-bubble]' "$idle -n"
expect 0 'told 1 time' "echo told \$($idle -q -o idle 2>&1 | grep -c '\[pipeline-bubble\]') time"
expect 0 '[recompute-interval]' "ptc $samples/tiny.ptm --set layers=32 --parallel 'recompute=every(8)' -q -o every"
# What is given stays.
expect 0 'recompute=every(2)' "ptc $samples/tiny.ptm --set layers=6 --cluster local:2 --parallel 'recompute=every(2)' -n"
expect 0 'recompute = every(2), given by the user' \
  "ptc $samples/tiny.ptm --set layers=6 --cluster local:2 --parallel 'recompute=every(2)' -n --why"
expect 0 'recompute = every(2), given by the user' \
  "ptc $samples/tiny.ptm --set layers=6 --cluster local:2 --parallel 'recompute=every(2)' -q -o given && ptc show given why && ptc show given config | grep -q every"
expect 0 'why not recompute=every(3): ' "ptc $samples/tiny.ptm --set layers=6 --cluster local:2 -n --why-not 'recompute=every(3)'"
expect 0 'why not schedule=interleaved(chunks=2): ' \
  "ptc $samples/gpt2.ptm --set layers=16 --cluster dgx_a100:1 -n --why-not 'schedule=interleaved(chunks=2)'"
expect 1 '[no-mesh]' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --parallel tp=3"
expect 1 'has 8 devices [no-mesh]' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --world 16"
expect 1 '[unknown-cluster]' "ptc $samples/gpt2.ptm --cluster dgx_x100:1 -n"
expect 1 '[no-cluster]' "ptc $samples/gpt2.ptm -n --why"
expect 1 '[setting]' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --why-not tp"
# The fewest devices that hold the model, or that are fast enough too.
few="ptc $samples/llama3.ptm --cluster dgx-h100:4 -n --objective devices"
expect 0 'planned for dgx_h100, 2 of 32 devices' "$few"
expect 0 'devices=1                62' "$few --why"
expect 0 '' "$few -q --within 6s --format json >few.json; python3 -c 'import json
d = json.load(open(\"few.json\"))
assert d[\"objective\"] == \"devices\" and d[\"devices\"] == 32 and 2 < d[\"used\"] < 32, d
assert d[\"best\"][\"step_s\"] <= 6, d'"
expect 0 'planned for dgx_h100, 16 of 32' "$few --within 6000ms"
expect 0 's too long: +' "$few --within 6s --why"
expect 1 'the fastest split (' "$few --within 1ms >slow.txt 2>&1; status=\$?; cat slow.txt; exit \$status"
expect 0 '[too-slow]' 'cat slow.txt'
expect 1 '[out-of-memory]' "$few --set d=32768 --set ffn=65536"
expect 1 '[fixed-devices]' "$few --world 8"
expect 1 '[no-cluster]' "ptc $samples/gpt2.ptm -n --objective devices"
expect 2 'goes with --objective devices' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --within 2s"
expect 2 'takes a time such as 2s' "$few --within 2x"
expect 2 'takes a time such as 2s' "$few --within=-1s"
expect 2 'is time, cost, memory or devices' "ptc $samples/gpt2.ptm --objective speed"
expect 2 'is text or json' "ptc $samples/gpt2.ptm --format xml"

# --- no cluster: by rule
quick="ptc $samples/quickstart.ptm --world 2"
expect 0 'chosen by rule for 2 ranks: dp=2' "$quick -n"
expect 0 ' over dp; its work takes as long as ' "$quick -n"
expect 0 '  next       ' "$quick -n"
expect 0 'why not tp=2: +' "$quick -n -q --why-not tp=2"
expect 0 '' "$quick -q --why -o ruled >why.txt && ptc show ruled why >again.txt && cmp why.txt again.txt"
expect 0 'dp = 2, chosen by rule: fewest bytes sent and least waiting' 'ptc show ruled why'
expect 0 'recompute = none, the default' 'ptc show ruled why'
expect 0 '' "ptc show ruled config | grep -q '^train.dp .*rule'"
expect 0 'proved for 2 ranks' 'ptc verify ruled'
expect 0 '' "$quick -n -q --why --format json >rule.json; python3 -c 'import json
all = json.load(open(\"rule.json\")); w = all[\"why\"]; best = all[\"best\"]
assert w[\"rule\"] and best[\"sent_bytes\"][\"dp\"] > 0 and best[\"bubble_bytes\"] == 0 and \"step_s\" not in best, best
assert abs(w[\"value\"] / best[\"cost_bytes\"] - 1) < 1e-9 and w[\"meshes\"]
for m in w[\"meshes\"]: assert abs(m[\"cost_bytes\"] - best[\"cost_bytes\"] - m[\"more_bytes\"]) < 1, m
for d in w[\"decisions\"]:
  for a in d[\"alternatives\"]: assert a[\"outcome\"] != \"possible\" or a[\"more_bytes\"] > -1, a'"
expect 1 '[out-of-memory]' "$quick -n --memory 1MB"
expect 0 'chosen by rule' "$quick -n --memory 64MiB"
expect 0 '[rule-memory]' "ptc $samples/llama3.ptm --set d=65536 --set heads=512 --world 2 -n"
expect 1 '[out-of-memory]' "ptc $samples/gpt2.ptm --cluster dgx_a100:1 -n --memory 100MB"
expect 1 '[no-cluster]' "ptc $samples/quickstart.ptm -n --memory 1GB"
expect 2 'takes a size such as 16GB' "$quick --memory 2x"
expect 0 'dp=4' "ptc $samples/quickstart.ptm -n --world 4 --parallel pp=1,tp=1"
expect 0 'chosen by rule for 8 ranks' "ptc $samples/llama3.ptm -n --world 8 --target sm_90a"
# What is predicted of a pipeline of chunks is what lives at once; placing it loses some more.
expect 0 '[over-memory]' "ptc $samples/quickstart.ptm --world 4 --parallel \
  'pp=2,dp=2,zero=1,micro_batch=1,recompute=none,schedule=interleaved(chunks=2)' --memory 17.5MiB -o ruled"
cat >many.ptm <<'END'
layer l(x[b, d]) {
  dim f = 2 * d
  param w1[d, f], w2[f, d] ~ normal(0.02)
  u[b, f] = x[b, d] * w1[d, f]
  y[b, d] = gelu(u[b, f]) * w2[f, d]
  return y
}
model many(d = 8) {
  dim d, b = batch
  input x[b, d], t[b, d]
END
printf '  repeat 2 { x = x + l@a%d(x) }\n' $(seq 40) >>many.ptm
printf '  loss = mean[b, d]((x[b, d] - t[b, d]) ^ 2)\n}\ntrain { batch = 8 optimizer = adamw(lr = 1e-4) }\n' >>many.ptm
expect 0 'dp takes the 2 ranks that are left [rule-pieces]' 'ptc many.ptm --world 2 -n'
expect 1 '[planner-pieces]' 'ptc many.ptm --cluster dgx_a100:1 -n'

# --- a plan of this machine, as chosen
expect 0 'planned for local, 2 devices' "ptc $samples/tiny.ptm --cluster local:2 -o plan"
expect 0 'proved for 2 ranks' 'ptc verify plan'
expect 0 '' "ptc show plan config | grep -q '^train.dp .*planner'"

# The plan keeps why: later in the same words, whoever decided.
expect 0 '' "ptc $samples/tiny.ptm --cluster local:2 --parallel zero=1 -q --why -o plan >why.txt"
expect 0 '' 'ptc show plan why >again.txt && cmp why.txt again.txt'
expect 0 'zero = 1, given by the user (--parallel:1)' 'ptc show plan why'
expect 0 'ep = 1, chosen by the planner' 'ptc show plan why'
expect 0 'overlap = off, the default' 'ptc show plan why'
expect 0 '' "ptc show plan why --format json >why.json; cmp why.json plan/why.json && python3 -c 'import json
w = json.load(open(\"why.json\"))
assert w[\"planner\"] and w[\"cluster\"] == \"local\" and w[\"devices\"] == 2 and w[\"objective\"] == \"time\", w
d = {x[\"name\"]: x for x in w[\"decisions\"]}
assert d[\"zero\"][\"by\"] == \"user\" and d[\"zero\"][\"alternatives\"][0][\"setting\"] == \"zero=auto\", d[\"zero\"]
assert d[\"tp\"][\"by\"] == \"planner\" and d[\"overlap\"][\"by\"] == \"default\"
# Nothing else is better, but what was forbidden may be; what is told of another choice is consistent.
for name, x in d.items():
  for a in x[\"alternatives\"]:
    assert a[\"outcome\"] in (\"possible\", \"memory\", \"impossible\"), a
    if a[\"outcome\"] == \"possible\":
      assert abs(a[\"step_s\"] / w[\"best\"][\"step_s\"] - 1 - a[\"loss\"]) < 1e-6, a
      assert a[\"loss\"] > -1e-9 or x[\"by\"] == \"user\", a
      assert a[\"loss\"] < 1e-6 or a[\"cause_s\"] > 0, a
mesh = lambda text: tuple(sorted(x for x in text.split() if x[:3] in (\"pp=\", \"dp=\", \"ep=\", \"cp=\", \"tp=\")))
least = {mesh(m[\"choice\"]): m[\"step_s\"] for m in w[\"meshes\"]}
assert least and list(least.values()) == sorted(least.values()) and mesh(w[\"best\"][\"choice\"]) not in least, least
for x in d.values():
  for a in x[\"alternatives\"]:
    if x[\"by\"] == \"planner\" and a[\"outcome\"] == \"possible\" and mesh(a[\"choice\"]) in least:
      assert least[mesh(a[\"choice\"])] <= a[\"step_s\"], (a, least)'"
expect 0 '"why": {' "ptc $samples/tiny.ptm --cluster local:2 -n --why --format json"
expect 0 'made without a planner (--cluster), for 2 ranks' \
  "ptc $samples/tiny.ptm --parallel dp=2 -q -o own && ptc show own why"
expect 0 'dp = 2, given by the user (--parallel:1)' 'ptc show own why'
expect 0 '' 'ptc show own why --format json | grep -q "\"planner\": false"'
expect 2 'why has no --format csv' 'ptc show own why --format csv'
expect 1 '[broken-why]' 'echo "{" >own/why.json; ptc show own why'
expect 1 '[broken-why]' 'echo "[1]" >own/why.json; ptc show own why --format json'

# A block of one's own, with room for some of what is kept: some turns are computed again, in the prediction and the plan.
cat >small.ptm <<'END'
device small_cpu {
  arch = cpu  sms = 2  f32 = 200 GFLOP/s  memory = 75 MB  bandwidth = 24 GB/s  launch = 1 us
  gemm = 0.86  gemm_tile = 2 us
  attention_64 = 0.65  attention_128 = 0.7  attention_256 = 0.7
  attention_grad_64 = 0.53  attention_grad_128 = 0.58  attention_grad_256 = 0.58
  attention_half = 48  stream = 0.75  l2 = 32 MB
}
cluster small {
  node 1 x small_cpu { link memory  bandwidth = 10 GB/s  latency = 20 us  ring = 10 GB/s }
}
END
tiny="ptc $samples/tiny.ptm small.ptm --set layers=8"
expect 0 'recompute=full of 4 turns' "$tiny --parallel micro_batch=8 -o partial"
expect 0 'proved for 1 rank' 'ptc verify partial'
expect 0 '0:0-4 ' 'ptc show partial config | grep train.recompute_turns'
# To the bit what a plan makes that keeps everything.
printf 'a line of text that goes on and on, %d times over\n' $(seq 200) >text.txt
steps="ptc run --data=text.txt -q --set steps=5 --threads=1"
expect 0 '' "ptc $samples/tiny.ptm --set layers=8 --parallel micro_batch=8,recompute=none -q -o kept"
expect 0 '' "$steps partial --run-dir=partial.run && $steps kept --run-dir=kept.run"
expect 0 '' "for r in partial kept; do python3 -c 'import json, sys
for line in open(sys.argv[1]): print(json.loads(line).get(\"loss\"))' \$r.run/metrics.jsonl >\$r.loss; done
  test -s kept.loss && cmp partial.loss kept.loss"
expect 0 'planned for small' "$tiny --parallel micro_batch=8 -n"
# Who gives a mode gets it on every turn.
expect 0 '' "$tiny --parallel micro_batch=8,recompute=full -n | grep -q 'recompute=full\$'"

# Devices whose figures are the same wherever this runs.
kind() {
  cat <<END
device $1 {
  arch = cpu  sms = 2  f32 = $2 GFLOP/s  memory = 8 GB  bandwidth = $3 GB/s  launch = 1 us
  gemm = 0.86  gemm_tile = 2 us  stream = 0.75  l2 = 32 MB
  attention_64 = 0.65  attention_128 = 0.7  attention_256 = 0.7  attention_half = 48
  attention_grad_64 = 0.53  attention_grad_128 = 0.58  attention_grad_256 = 0.58
}
END
}
{
  kind slow_cpu 50 24
  echo 'cluster pair { node 2 x slow_cpu { link memory  bandwidth = 10 GB/s  latency = 20 us  ring = 10 GB/s } }'
} >pair.ptm

# A pipeline is cut where it was predicted: by the planner, or where it is told to.
six="ptc $samples/tiny.ptm pair.ptm --set layers=6 --cluster pair"
expect 0 'stages     begin block.0..2 | block.3..5 end' "$six --parallel pp=2,schedule=1f1b -n"
expect 0 'cut=even' "$six --parallel pp=2,schedule=1f1b -n --why"
expect 0 '"cuts": [' "$six --parallel pp=2,schedule=1f1b -n --format json"
echo 'parallel { pp = 2  schedule = 1f1b  cut block.1 }' >cut.ptm
cut="ptc $samples/tiny.ptm cut.ptm pair.ptm --set layers=6 --cluster pair"
expect 0 'stages     begin block.0 | block.1..5 end' "$cut -n"
expect 0 'end, given by the user (cut.ptm:1)' "$cut -n --why"
expect 0 'cut=auto                 -' "$cut -n --why"
echo 'parallel { pp = 2  schedule = 1f1b  cut block.0 }' >cut.ptm
expect 0 '[planner-cuts]' "$cut -n"

# Two kinds of devices: a stage has the speed and the memory of those on which it lies.
{
  kind slow_cpu 50 24
  kind fast_cpu 200 80
  echo 'cluster mixed {'
  for device in slow_cpu fast_cpu; do
    echo "  node 1 x $device { link memory  bandwidth = 10 GB/s  latency = 20 us  ring = 10 GB/s }"
  done
  echo '  network ethernet  bandwidth = 1 x 12.5 GB/s  latency = 30 us  fabric = tcp'
  echo '}'
} >mixed.ptm
mixed="ptc $samples/tiny.ptm mixed.ptm --set layers=10 --parallel pp=2,schedule=1f1b"
expect 0 'end on fast_cpu' "$mixed -n"
expect 0 '' "$mixed -n --format json | python3 -c 'import json, sys
assert json.load(sys.stdin)[\"best\"][\"cuts\"][0] < 4'"
grep -v network mixed.ptm >apart.ptm
expect 1 '[no-network]' "${mixed/mixed.ptm/apart.ptm} -n"
expect 0 'proved for 2 ranks in 2 stages' "$mixed -q -o mixed && ptc verify mixed"

# --- measured runs
cat >runs.csv <<'END'
id,year,gpu,gpus_per_node,n_gpus,interconnect,source,model_name,layers,hidden,ffn_hidden,heads,vocab,ffn_type,seq_len,global_batch_seqs,micro_batch,tp,sp,pp,vp,recompute,precision,step_time_s,group
A-1,2022,A100-80G-SXM,8,8,"8x200Gb/s, per node",Korthikanti,22B,48,6144,24576,64,51200,gelu,2048,4,4,8,yes,1,,selective,fp16,1.10,g1
A-2,2022,A100-80G-SXM,8,8,8x200Gb/s per node,Korthikanti,22B,48,6144,24576,64,51200,gelu,2048,4,4,8,no,1,,full,fp16,1.42,g1
A-3,2022,A100-80G-SXM,8,7,8x200Gb/s per node,Korthikanti,22B,48,6144,24576,64,51200,gelu,2048,4,4,8,no,1,,full,fp16,1.42,g1
A-5,2022,A100-80G-SXM,8,8,,Korthikanti,22B,48,6144,24576,64,51200,gelu,2048,4,4,0,no,1,,full,fp16,1.42,g1
A-4,2022,X-1,8,8,,Korthikanti,22B,48,6144,24576,64,51200,gelu,2048,4,4,8,no,1,,full,fp16,1.42,g1
END
expect 0 'n_gpus is no multiple of tp * pp * cp' 'ptc validate runs.csv'
expect 0 'the device is not in the catalog' 'ptc validate runs.csv'
expect 0 'farthest off' 'ptc validate runs.csv --svg=out.svg'
expect 0 '</svg>' 'cat out.svg'
expect 0 'A-1,g1,megatron-2022,1.1,' 'ptc validate runs.csv --format csv'
expect 0 '' 'ptc validate runs.csv --format json | python3 -m json.tool >json.txt'
expect 0 'torchtitan' 'ptc validate --stack=list'
expect 0 'fitted' 'ptc calibrate runs.csv'
expect 0 '' 'ptc calibrate runs.csv --format json | python3 -m json.tool >json.txt'
# The kind of run the model is for: within a tenth of what was measured.
expect 0 '' "ptc validate runs.csv --format csv | awk -F, '/^A-1/ {exit !(\$6 > -0.1 && \$6 < 0.1)}'"
# What a run's memory figure means, and what its framework keeps: torchtitan's reserved bytes with an eager and a compiled
# loss, Megatron-Core's allocated ones of the last rank, those of NeMo; all within 4 %.
cat >memory.csv <<'END'
id,year,gpu,gpus_per_node,n_gpus,source,layers,hidden,ffn_hidden,heads,kv_heads,vocab,ffn_type,seq_len,global_batch_seqs,micro_batch,tp,sp,pp,vp,zero_or_fsdp_stage,recompute,precision,peak_mem_gib,mem_metric,notes,group
M-1,2024,H100-96G-HBM2e-500W,8,8,torchtitan,32,4096,14336,32,8,128256,swiglu,8192,16,2,1,no,1,,3,selective,bf16,77.0,max reserved,,g1
M-2,2025,H200-141G-SXM,8,64,torchtitan,32,4096,14336,32,8,128256,swiglu,8192,128,2,1,no,1,,3,selective,fp8,46.97,max reserved,,g1
M-3,2026,H100-80G-SXM,8,8,Megatron-LM tests/functional_tests,32,4096,16384,32,8,131073,gelu,8192,8,1,1,no,4,8,1,none,bf16,56.551,"max allocated, last rank",untied embeddings; dropout default 0.1,g1
M-4,2026,H100-80G-SXM,8,8,Megatron-LM tests/functional_tests,32,4096,16384,32,8,131073,gelu,8192,8,2,4,no,1,,1,none,bf16,53.219,"max allocated, last rank",untied embeddings; dropout default 0.1,g1
M-5,2025,H100-80G-SXM,8,64,dgxc-benchmarking,32,6144,24576,48,8,256000,squared-relu,4096,256,2,2,yes,1,,1,none,bf16,67.961,max reserved,,g1
M-6,2021,V100-32G-SXM2,4,8,bigscience,24,2048,8192,16,16,50257,gelu,2048,512,2,1,no,1,,,full,fp16,17,nvidia-smi used,,g1
END
expect 0 '' "ptc validate memory.csv --format csv | awk -F, '/^M-/ {n++; e = \$17 / \$16 - 1; if (e > 0.04 || e < -0.04) exit 1} END {exit n != 6}'"
# Experts' tokens are routed where they lie, also where a sequence lies on cp and tp (Megatron-MoE-ModelZoo, 128k tokens).
cat >experts.csv <<'END'
id,year,gpu,gpus_per_node,n_gpus,source,layers,hidden,ffn_hidden,heads,kv_heads,head_dim,vocab,ffn_type,n_experts,topk,moe_ffn_hidden,seq_len,global_batch_seqs,micro_batch,tp,sp,pp,vp,cp,ep,zero_or_fsdp_stage,recompute,precision,derived_step_time_s,group
X-1,2025,H100-80G-SXM,8,256,Megatron-MoE-ModelZoo,94,4096,12288,64,4,128,151936,swiglu,128,8,1536,131072,256,1,4,yes,8,4,8,8,1,selective,bf16,247.55,g1
END
expect 0 '' "ptc validate experts.csv --format csv | awk -F, '/^X-1/ {exit !(\$6 > -0.15 && \$6 < 0.15)}'"
# A token goes once to a node that has several of its experts (DeepEP); biases and bounds of experts (GPT-OSS) are kernels of
# their own; a window on every second layer saves the time of what it hides. A run that does not say how much it computes
# again computes no more than memory wants.
cat >facts.csv <<'END'
id,year,gpu,gpus_per_node,n_gpus,interconnect,source,model_name,notes,layers,hidden,ffn_hidden,heads,kv_heads,vocab,ffn_type,n_experts,topk,moe_ffn_hidden,seq_len,global_batch_seqs,micro_batch,tp,sp,pp,cp,ep,zero_or_fsdp_stage,recompute,precision,step_time_s,group
Y-1,2026,H100-80G-SXM,8,16,8x50GB/s,Megatron-Bridge [25.11,Made-up,,16,4096,8192,32,4,64000,swiglu,64,8,2048,16384,64,1,1,no,1,1,16,1,none,bf16,9,g1
Y-2,2026,H100-80G-SXM,8,16,8x50GB/s,Megatron-MoE-ModelZoo,Made-up,,16,4096,8192,32,4,64000,swiglu,64,8,2048,16384,64,1,1,no,1,1,16,1,none,bf16,9,g1
Y-3,2026,H100-80G-SXM,8,16,8x50GB/s,Megatron-Bridge [25.11,GPT-OSS-1B,,16,4096,8192,32,4,64000,swiglu,64,8,2048,16384,64,1,1,no,1,1,16,1,none,bf16,9,g1
Y-4,2026,H100-80G-SXM,8,16,8x50GB/s,Megatron-Bridge [25.11,Made-up,alternate sliding-window(128)/full attention,16,4096,8192,32,4,64000,swiglu,64,8,2048,16384,64,1,1,no,1,1,16,1,none,bf16,9,g1
Z-1,2026,H100-80G-SXM,8,8,,dgxc,Made-up,,32,4096,14336,32,8,64000,swiglu,,,,8192,32,2,1,no,1,1,1,1,full,bf16,9,g2
Z-2,2026,H100-80G-SXM,8,8,,dgxc,Made-up,,32,4096,14336,32,8,64000,swiglu,,,,8192,32,2,1,no,1,1,1,1,unknown,bf16,9,g2
Z-3,2026,H100-80G-SXM,8,8,,dgxc,Made-up,,32,4096,14336,32,8,64000,swiglu,,,,8192,32,2,1,no,1,1,1,1,none,bf16,9,g2
END
expect 0 '' "ptc validate facts.csv --format csv | python3 -c 'import csv, sys
of = {r[\"id\"]: {k: float(r[k]) for k in (\"compute_s\", \"recompute_s\", \"ep_s\", \"predicted_bytes\")} for r in csv.DictReader(sys.stdin)}
assert 0.2 < of[\"Y-2\"][\"ep_s\"] / of[\"Y-1\"][\"ep_s\"] < 0.3, of
assert 1.05 < of[\"Y-3\"][\"compute_s\"] / of[\"Y-1\"][\"compute_s\"] < 1.6, of
assert 0.7 < of[\"Y-4\"][\"compute_s\"] / of[\"Y-1\"][\"compute_s\"] < 0.99, of
assert 0 == of[\"Z-3\"][\"recompute_s\"] < of[\"Z-2\"][\"recompute_s\"] < 0.8 * of[\"Z-1\"][\"recompute_s\"], of
assert of[\"Z-2\"][\"predicted_bytes\"] < 88e9 < of[\"Z-3\"][\"predicted_bytes\"], of'"
# Small kernels wait for the host, and their collectives with them: of these runs (vTrain) the fastest is told, and it has
# tp = 2 although that sends more; rows of logits that no axis cuts have an odd length.
cat >small.csv <<'END'
id,setup,n_gpus,global_batch_seqs,micro_batch,layers,hidden,heads,seq_len,tp,dp,pp,step_time_ms
S-0528,single,4,16,4,16,1024,16,1024,2,2,1,119.567674
S-0561,single,4,16,2,16,1024,16,1024,1,4,1,131.793631
S-0238,single,4,16,4,16,1024,16,1024,2,1,2,154.53795
S-0568,single,4,16,8,16,1024,16,1024,4,1,1,171.843999
S-0853,single,4,16,2,16,1024,16,1024,1,2,2,173.216378
S-0064,single,4,16,4,16,1024,16,1024,1,1,4,219.400073
END
expect 0 '' "ptc validate small.csv --format json | python3 -c 'import json, sys; t = json.load(sys.stdin)[\"time\"]; sys.exit(t[\"regret\"] != 0 or t[\"median\"] > 0.12)'"
expect 2 'did you mean fsdp' 'ptc validate runs.csv --stack=fsdpp'
expect 2 'no file of measured runs' 'ptc validate'
expect 1 '[read]' 'ptc validate none.csv'
expect 1 '[write]' 'ptc validate runs.csv --svg=none/out.svg'
printf 'id,n_gpus\n"A\n' >broken.csv
expect 1 '[csv]' 'ptc validate broken.csv'
printf 'id,n_gpus\nA,8\n' >columns.csv
expect 1 'there is no column "layers"' 'ptc validate columns.csv'
sed -n '1p;4,5p' runs.csv >bad.csv
expect 1 '[no-rows]' 'ptc calibrate bad.csv'
: >empty.csv
expect 1 'the file is empty' 'ptc validate empty.csv'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
