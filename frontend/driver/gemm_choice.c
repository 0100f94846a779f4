#include "frontend/driver/gemm_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/cluster.h"
#include "passes/planner/kernel_cost.h"
#include "passes/planner/planner.h"

// The generated kernels' place below the library's best tile, and the share of the tensor cores' peak that mma.sync
// reaches where later GPUs have other instructions. The library has to win by |margin|, since neither cost is exact, and by
// what its call takes on the host besides; products below |least_flops| are not asked about.
static const double tensor_eff = .8, exact_eff = .5, share_hopper = .62, share_blackwell = .5,
                    margin = .95, call_s = 2e-6, least_flops = 0x1p28;

void ptc_gemm_choice_init(ptc_gemm_choice_t *choice, const ptc_pass_ctx_t *ctx,
                          const ptc_module_t *module, const char *target) {
  const char *digits = strpbrk(target, "0123456789");
  *choice = (ptc_gemm_choice_t){
      .options.tf32 = strcmp(ptc_attrs_string(&module->config, "f32_matmul", "exact"), "tf32") == 0,
      .how = ptc_attrs_string(&module->config, "gemm", "auto"),
      .arch = digits ? atoi(digits) : 0};
  const ptc_planner_t *planner = ctx->options.planner;
  if (!planner) return;
  choice->looked_up = true;
  choice->device = planner->cluster->groups[0].node.device;
}

void ptc_gemm_choice_deinit(ptc_gemm_choice_t *choice) { ptc_arena_deinit(&choice->arena); }

static const ptc_device_model_t *device_of(ptc_gemm_choice_t *choice) {
  if (choice->looked_up) return choice->device;
  choice->looked_up = true;
  const char *name = choice->arch >= 100  ? "dgx_b200"
                     : choice->arch >= 90 ? "dgx_h100"
                                          : "dgx_a100";
  ptc_diag_t unheard;
  ptc_diag_init(&unheard);
  ptc_cluster_t *cluster;
  if (ptc_cluster_find(&unheard, &choice->arena, NULL, name, &cluster) == PTC_OK)
    choice->device = cluster->groups[0].node.device;
  ptc_diag_deinit(&unheard);
  return choice->device;
}

static ptc_precision_t precision_of(const ptc_plan_gemm_t *gemm) {
  if (gemm->a.dtype == PTC_BF16) return PTC_PREC_BF16;
  if (gemm->a.dtype == PTC_F16) return PTC_PREC_F16;
  return gemm->tf32 ? PTC_PREC_TF32 : PTC_PREC_F32;
}

static double library_seconds(const ptc_device_model_t *device, const ptc_plan_gemm_t *gemm) {
  const ptc_kernel_work_t work = {.kind = PTC_KW_GEMM,
                                  .prec = precision_of(gemm),
                                  .batch = gemm->batch,
                                  .m = gemm->n,
                                  .n = gemm->m,
                                  .k = gemm->k};
  return ptc_kernel_seconds(device, &work, &(ptc_kernel_options_t){.launch_s = 0});
}

static double flops_of(const ptc_plan_gemm_t *gemm) {
  return 2 * (double)gemm->batch * (double)gemm->m * (double)gemm->n * (double)gemm->k;
}

// Blocks of 128 x 128 or, exact, 64 x 64, each of an equal part of k; those of one multiprocessor share its rate.
static double generated_seconds(const ptc_device_model_t *device, const ptc_plan_gemm_t *gemm,
                                const ptc_kernel_shape_t *shape) {
  const ptc_precision_t precision = precision_of(gemm);
  const bool exact = precision == PTC_PREC_F32;
  const double side = exact ? 64 : 128;
  const double tiles =
      (double)gemm->batch * ceil((double)gemm->m / side) * ceil((double)gemm->n / side);
  const double blocks = (double)shape->runs[0].tiles[0];
  double rate = device->peak[precision] * device->gemm_eff * (exact ? exact_eff : tensor_eff);
  if (!exact && device->arch >= 100)
    rate *= share_blackwell;
  else if (!exact && device->arch >= 90)
    rate *= share_hopper;
  const double block_flops = 2 * side * side * (double)gemm->k * tiles / blocks;
  const double compute = ceil(blocks / device->sms) * block_flops * device->sms / rate;
  const double bytes = (double)ptc_dtype_bytes(gemm->a.dtype) * (double)gemm->batch *
                           (double)gemm->k * (double)(gemm->m + gemm->n) +
                       (double)ptc_dtype_bytes(gemm->d.dtype) * (double)gemm->batch *
                           (double)gemm->m * (double)gemm->n;
  return fmax(compute, bytes / (device->memory_rate * device->memory_eff));
}

static bool is_worth_it(ptc_gemm_choice_t *choice, const ptc_plan_gemm_t *gemm,
                        const ptc_kernel_shape_t *shape) {
  if (strcmp(choice->how, "cublaslt") == 0) return true;
  if (flops_of(gemm) < least_flops) return false;
  const ptc_device_model_t *device = device_of(choice);
  return device && device->arch >= 70 && device->peak[precision_of(gemm)] > 0 &&
         library_seconds(device, gemm) + call_s < margin * generated_seconds(device, gemm, shape);
}

const ptc_plan_gemm_t *ptc_gemm_choose(ptc_gemm_choice_t *choice, ptc_arena_t *arena,
                                       const ptc_kernel_t *kernel, ptc_kernel_shape_t *shape) {
  ptc_plan_gemm_t gemm;
  if (strcmp(choice->how, "generated") == 0 ||
      !ptc_cuda_library_gemm(kernel, &choice->options, &gemm) || !is_worth_it(choice, &gemm, shape))
    return NULL;
  // What NVIDIA recommends.
  gemm.workspace_bytes = (choice->arch >= 90 ? INT64_C(32) : INT64_C(4)) << 20;
  const int64_t needed = gemm.workspace_bytes + PTC_PLAN_GEMM_ALIGN;
  if (shape->workspace_bytes < needed) shape->workspace_bytes = needed;
  ptc_plan_gemm_t *kept = PTC_ARENA_NEW(arena, ptc_plan_gemm_t);
  *kept = gemm;
  return kept;
}
