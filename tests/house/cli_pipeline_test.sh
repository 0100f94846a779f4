#!/usr/bin/env bash
# Proves: a model compiled with pp trains on the ranks of its stages, as threads and as processes, to the bits of one
# stage, also beside dp, tp and ZeRO; checkpoints go on under any other plan; its schedule is shown; misuse gets its
# exit status and words. Ends with `N passed, N failed`.
# Usage: cli_pipeline_test.sh BUILD_FOLDER
build=$(realpath "${1:?usage: cli_pipeline_test.sh BUILD_FOLDER}")
. "$(dirname "$0")/../support/cli.sh"

write_model 'train { batch = 8  steps = 8  optimizer = adamw(lr = 1e-2)  clip = 1  seed = 5 }'

# --- compiling
expect 0 '' 'ptc model.ptm -q --parallel micro_batch=2 -o one'
expect 0 '' 'ptc model.ptm -q --parallel pp=2,micro_batch=2 -o pp'
expect 0 '' 'ptc model.ptm -q --parallel pp=2,micro_batch=2,schedule=zero_bubble,recompute=full --keep-grads -o zero'
expect 0 '"stage": 1' 'cat pp/stage1.json'
expect 0 '' 'cp -r pp again; ptc model.ptm -q --parallel pp=2,micro_batch=2 -o again && diff -r pp again'
expect 1 'split-turns' 'ptc model.ptm -q --parallel pp=8,micro_batch=2 -o x'
expect 0 'send' 'ptc model.ptm -q --parallel pp=2 --target sm_80 -o x && ptc verify x && cat x/*.steps'

# --- looking
expect 0 'pipeline of 2 stages, 4 micro-batches; stages are idle for 20.0% of the time' 'ptc show pp schedule'
expect 0 '0F0,0F1,,,0B0,,0F2,0B1,,0F3,0B2,,,0B3,' 'ptc show pp schedule --format=csv'
expect 0 ',1F0,1I0,1F1,1I1,1W0' 'ptc show zero schedule --format=csv'
expect 0 'call train.f' 'ptc show pp schedule --rank=1'
expect 0 'train on rank 1, stage 1 of 2 (pp=2); bytes are those of rank 1' 'ptc show pp schedule --rank=1'
expect 0 '"stage": 1' 'ptc show pp schedule --rank=1 --format=json'
expect 0 'recv' 'ptc show pp memory --format=json'
expect 0 '' 'ptc show pp; ptc show pp kernels; ptc show pp config'
expect 0 '' '[ "$(ptc show pp ir --stage=1 | tail -n +2)" = "$(cat pp/stage1.ptir)" ]'
expect 0 '# stage 0 of 2, which count from 0 (--stage=N: another one)' 'ptc show pp ir'
expect 0 '# stage 1 of 2' 'ptc show pp ir --rank=1'
expect 0 '' '! ptc show one ir | grep -q "^# stage"'
for part in memory kernels; do expect 0 'stage 1 of 2' "ptc show pp $part --stage=1"; done
expect 0 'of each rank of stage 1 of 2' 'ptc show pp --stage=1'
expect 0 '"stages": 2' 'ptc show pp --stage=1 --format=json'
expect 0 'train on rank 1, stage 1 of 2 (pp=2); bytes are those of rank 1' 'ptc show pp schedule --stage=1'
expect 1 'the plan has 2 stages: the last one is 1 [no-stage]' 'ptc show pp ir --stage=2'
expect 1 'the plan has 1 stage: the last one is 0 [no-stage]' 'ptc show one memory --stage=1'
expect 1 'the plan is for 2 ranks: the last one is 1 [no-rank]' 'ptc show pp kernels --rank=2'
expect 2 '--stage takes a whole number' 'ptc show pp --stage=x'
expect 2 'both say which stage' 'ptc show pp --stage=1 --rank=1'
expect 0 '' '[ $(CC=no-such-cc ptc model.ptm --parallel pp=2,micro_batch=2 -o x 2>&1 | grep -c no-compiler) = 1 ]'

# --- running: the bits of one stage
run="--data train.txt --val val.txt -q --threads=2"
expect 0 '' "ptc run one $run"
for plan in pp zero; do
  expect 0 '' "ptc run $plan $run"
  for file in model optimizer; do
    expect 0 '' "cmp one.run/ckpt/step-00000008/$file.safetensors $plan.run/ckpt/step-00000008/$file.safetensors"
  done
done
expect 0 '' "diff <(ptc show one.run loss --format=json) <(ptc show pp.run loss --format=json)"
expect 0 '' "ptc run pp $run --ranks-as processes --run-dir p.run"
expect 0 '' 'cmp one.run/ckpt/step-00000008/model.safetensors p.run/ckpt/step-00000008/model.safetensors'

# --- resuming under another plan
expect 0 '' "ptc run pp $run --steps 5 --run-dir half.run && cp -r half.run other.run"
for plan in one zero; do
  expect 0 '' "rm -rf go.run; cp -r half.run go.run; ptc run $plan $run --run-dir go.run --resume"
  expect 0 '' 'cmp one.run/ckpt/step-00000008/model.safetensors go.run/ckpt/step-00000008/model.safetensors'
done

# --- stages of several devices: the bits of the same devices without stages
for mesh in dp=2 tp=2 dp=2,zero=2 dp=2,zero=3; do
  expect 0 '' "ptc model.ptm -q --parallel $mesh,micro_batch=2 -o flat"
  expect 0 '' "ptc model.ptm -q --parallel $mesh,pp=2,micro_batch=2,schedule=zero_bubble -o deep"
  expect 0 '' "ptc run flat $run --restart && ptc run deep $run --restart"
  expect 0 '' 'cmp flat.run/ckpt/step-00000008/model.safetensors deep.run/ckpt/step-00000008/model.safetensors'
done

# --- gradients
expect 0 '' 'ptc model.ptm -q --parallel micro_batch=2,dp=1 --keep-grads -o one'
expect 0 '' "ptc run one $run --run-dir g.run --steps 1 --dump-grads one.g"
expect 0 '' "ptc run zero $run --run-dir d.run --steps 1 --dump-grads zero.g && cmp one.g zero.g"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
