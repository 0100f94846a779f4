// Constants of this file belong to kinds of kernels, those of a device to its model (ir/cluster.h). How both were
// fitted, and with which error: passes/planner/README.md.
#include "passes/planner/kernel_cost.h"

#include <math.h>

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }
// Short divisions take less time.
static int64_t ceil_div(int64_t a, int64_t b) {
  const int64_t sum = a + b - 1;
  return (sum | b) >> 32 ? sum / b : (int64_t)((uint32_t)sum / (uint32_t)b);
}
static int64_t at_least_one(int64_t value) { return value < 1 ? 1 : value; }

// Bytes of an element of a matrix product's operand.
static double operand_bytes(ptc_precision_t prec) {
  switch (prec) {
    case PTC_PREC_F32:
    case PTC_PREC_TF32: return 4;
    case PTC_PREC_FP8: return 1;
    case PTC_PREC_FP4: return .5;
    default: return 2;
  }
}

// A precision that the device lacks runs in the next wider one.
static ptc_precision_t runs_as(const ptc_device_model_t *device, ptc_precision_t prec) {
  const double *peak = device->peak;
  if (prec == PTC_PREC_FP4 && peak[prec] <= 0) prec = PTC_PREC_FP8;
  if (prec == PTC_PREC_FP8 && peak[prec] <= 0) prec = PTC_PREC_BF16;
  if (prec == PTC_PREC_BF16 && peak[prec] <= 0) prec = PTC_PREC_F16;
  if (prec == PTC_PREC_F16 && peak[prec] <= 0) prec = PTC_PREC_F32;
  if (prec == PTC_PREC_TF32 && peak[prec] <= 0) prec = PTC_PREC_F32;
  return prec;
}

static double peak_of(const ptc_device_model_t *device, ptc_precision_t prec) {
  const double peak = device->peak[runs_as(device, prec)];
  return peak > 0 ? peak : 1e9;
}

static double streamed(const ptc_device_model_t *device, double bytes) {
  return bytes / (device->memory_rate * device->memory_eff);
}

static double memory_seconds(const ptc_device_model_t *device, double bytes) {
  return streamed(device, bytes + device->memory_half_bytes);
}

// --- matrix products

typedef struct tile_s {
  int32_t m, n;
  double eff;  // of the best tile's rate
} tile_t;

// cuBLAS's choices. Ampere: fitted; later ones work with two or four times the data per tile.
static const tile_t tiles_ampere[] = {{256, 128, 1},  {128, 256, .98}, {256, 64, .98},
                                      {64, 256, .85}, {128, 128, .84}, {128, 64, .79},
                                      {64, 128, .69}, {64, 64, .87}};
static const tile_t tiles_hopper[] = {{256, 128, 1},  {128, 256, 1},  {128, 192, .96},
                                      {128, 128, .9}, {128, 64, .75}, {64, 128, .75},
                                      {64, 64, .6}};
static const tile_t tiles_blackwell[] = {{256, 256, 1},   {256, 192, .98}, {256, 128, .96},
                                         {128, 256, .96}, {128, 128, .87}, {128, 64, .75},
                                         {64, 64, .5}};
enum { MAX_SPLIT = 16 };

// Of the rate where rows do not begin at multiples of 16 bytes: narrow loads along the sum, narrow stores of the result.
static const double misaligned_sum_eff = .5, misaligned_result_eff = .85;
// Operands whose rows begin at odd elements are read one by one (gradients of a vocabulary of 50257).
static const double odd_operand_eff = .33;
// fp8 and fp4 products reach a little less of their peak.
static const double narrow_eff = .97;
// Weight gradients read and write their f32 accumulator beside the product; part of that is hidden.
static const double accumulate_bytes = .77 * 4;

// The heat of what came before: a device in a training step is settled unless the kernel is all there is.
static double gemm_rate_eff(const ptc_device_model_t *device, double seconds) {
  if (device->gemm_settle_s <= 0) return device->gemm_eff;
  return device->gemm_eff +
         (device->gemm_burst_eff - device->gemm_eff) / (1 + seconds / device->gemm_settle_s);
}

static double gemm_gpu(const ptc_device_model_t *device, const ptc_kernel_work_t *work,
                       int64_t batch) {
  const int64_t m = work->m, n = work->n, k = work->k;
  const double peak = peak_of(device, work->prec);
  const double element = operand_bytes(runs_as(device, work->prec));
  const bool narrow = element < 2;
  const double flops = 2. * (double)batch * (double)m * (double)n * (double)k;
  // All groups of the kernel heat the device.
  const double all = flops * (double)at_least_one(work->batch) / (double)batch;
  double eff = gemm_rate_eff(device, all / (peak * device->gemm_eff));
  if (narrow) eff *= narrow_eff;
  const int64_t align = (int64_t)(16 / element);
  if ((m | k) % 2)
    eff *= odd_operand_eff;
  else if (k % align)
    eff *= misaligned_sum_eff;
  if (n % align) eff *= misaligned_result_eff;
  const double per_sm = peak * eff / device->sms;
  const tile_t *tiles = tiles_ampere;
  size_t num_tiles = sizeof(tiles_ampere) / sizeof(*tiles_ampere);
  if (device->arch >= 100) {
    tiles = tiles_blackwell;
    num_tiles = sizeof(tiles_blackwell) / sizeof(*tiles_blackwell);
  } else if (device->arch >= 90) {
    tiles = tiles_hopper;
    num_tiles = sizeof(tiles_hopper) / sizeof(*tiles_hopper);
  }
  double best = INFINITY;
  for (size_t i = 0; i < num_tiles; i++) {
    const tile_t *tile = &tiles[i];
    const int64_t count = batch * ceil_div(m, tile->m) * ceil_div(n, tile->n);
    const double work_of_tile = 2. * tile->m * tile->n * (double)k / (per_sm * tile->eff);
    for (int32_t split = 1; split <= MAX_SPLIT; split *= 2) {
      if (split > 1 && (count * split > 4 * device->sms || k / split < 256)) break;
      const double waves = (double)ceil_div(count * split, device->sms);
      double seconds = waves * (work_of_tile / split + device->gemm_tile_s);
      if (split > 1) seconds += streamed(device, 8. * split * (double)(batch * m * n));
      best = least(best, seconds);
    }
  }
  double bytes = work->bytes * (double)batch / (double)at_least_one(work->batch);
  if (bytes <= 0)
    bytes = element * (double)batch * ((double)m * (double)k + (double)k * (double)n) +
            2. * (double)batch * (double)m * (double)n;
  best = most(best, memory_seconds(device, bytes));
  if (work->accumulates_f32)
    best += streamed(device, accumulate_bytes * (double)batch * (double)m * (double)n);
  return best;
}

// The experts' products run in a few streams beside each other, each a launch of its own: small ones leave SMs idle, and
// wait for the host.
enum { GROUP_STREAMS = 4 };
static const double group_launch_s = 8.5e-6;

static double grouped_gpu(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  const int64_t groups = at_least_one(work->batch);
  const int64_t at_once = groups < GROUP_STREAMS ? groups : GROUP_STREAMS;
  const double seconds = gemm_gpu(device, work, at_once) / (double)at_once;
  return (double)groups * most(seconds, group_launch_s);
}

// --- attention

// Rows of a tile of queries.
static int64_t query_tile(const ptc_device_model_t *device) {
  return device->arch >= 100 ? 256 : 128;
}

// |eff| at head dims 64, 128, 256: between them linear in the logarithm.
static double by_head_dim(const double eff[3], double dim) {
  const double x = least(most(log2(dim / 64), -1), 2);
  if (x < 0) return eff[0] * (1 + x / 2);  // half the head dim: half the product, all the softmax
  const int32_t i = x < 1 ? 0 : 1;
  return eff[i] + (eff[i + 1] - eff[i]) * least(x - i, 1);
}

// Keys that all queries of one head see, and that one query sees at most.
static double visible_keys(const ptc_kernel_work_t *work, double *out_most) {
  const double rows = (double)work->rows, cols = (double)work->cols;
  double widest = cols, total = rows * cols;
  if (work->window > 0 && (double)work->window < cols) {
    widest = (double)work->window;
    // The first rows of a causal window see fewer.
    total = work->causal ? rows * widest - widest * (widest - 1) / 2 : rows * widest;
  } else if (work->causal) {
    // Query i sees the keys up to cols - rows + i.
    total = rows * (cols - rows) + rows * (rows + 1) / 2;
  }
  *out_most = widest;
  return total;
}

static double pair_flops(const ptc_kernel_work_t *work) {
  const bool grad = work->kind == PTC_KW_ATTENTION_GRAD;
  return (grad ? 6. : 2.) * (double)work->qk_dim + (grad ? 4. : 2.) * (double)work->v_dim;
}

static double attention_flops(const ptc_kernel_work_t *work) {
  double widest;
  const double pairs = visible_keys(work, &widest) * (double)at_least_one(work->heads) *
                       (double)at_least_one(work->batch);
  return pairs * pair_flops(work);
}

// Of one head, by the FLOPs that the caller states (a part of the rows may see more or fewer keys than the shape says).
static double stated_pairs(const ptc_kernel_work_t *work, double *out_most) {
  const double pairs = visible_keys(work, out_most);
  const double heads = (double)(at_least_one(work->heads) * at_least_one(work->batch));
  return work->flops > 0 ? work->flops / (heads * pair_flops(work)) : pairs;
}

static double attention_bytes(const ptc_kernel_work_t *work) {
  if (work->bytes > 0) return work->bytes;
  const double element = operand_bytes(work->prec), batch = (double)at_least_one(work->batch);
  const double heads = (double)at_least_one(work->heads), kv = (double)at_least_one(work->kv_heads);
  const double dims = (double)(work->qk_dim + work->v_dim);
  const double once =
      element * batch * dims * (heads * (double)work->rows + kv * (double)work->cols);
  return work->kind == PTC_KW_ATTENTION_GRAD ? 2.5 * once : once;
}

// Of the longest tile: what the end of the kernel, where not all SMs have work, costs; and how much longer a tile takes
// that has its SM for itself, since two of them hide one another's softmax.
static const double attention_tail = .8, attention_grad_tail = .4, attention_alone = 1.4;

// Each tile of queries walks over its keys, |attention_half| keys' time is lost at its ends, and the diagonal tile of a
// causal mask is computed whole. The backward kernel's tiles are keys.
static double attention_gpu(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  const bool grad = work->kind == PTC_KW_ATTENTION_GRAD;
  const double *effs = grad ? device->attention_grad_eff : device->attention_eff;
  // The backward kernels treat both head dims as the larger one.
  const double wide = (double)(work->qk_dim > work->v_dim ? work->qk_dim : work->v_dim);
  const double dims = grad ? 2 * wide : (double)(work->qk_dim + work->v_dim);
  const double eff = by_head_dim(effs, wide);
  const double peak = least(peak_of(device, work->prec), 2 * peak_of(device, PTC_PREC_BF16));
  const int64_t tile = grad ? 128 : query_tile(device);
  const double heads = (double)(at_least_one(work->heads) * at_least_one(work->batch));
  double widest;
  const double pairs = stated_pairs(work, &widest);
  const double tiles = (double)ceil_div(work->rows, tile);
  const double lost = device->attention_half + (work->causal ? (double)tile / 2 : 0);
  // In key times of one tile.
  const double all = heads * (pairs / (double)tile + tiles * lost);
  const double longest = widest + lost;
  const double per_key = (double)tile * (grad ? 5. : 2.) * dims / (peak * eff / device->sms);
  const double tail = grad ? attention_grad_tail : attention_tail;
  const double alone = grad ? 1 : attention_alone;
  const double seconds = per_key * most(alone * longest, all / device->sms + tail * longest);
  return most(seconds, memory_seconds(device, attention_bytes(work)));
}

// Scores go through memory: two batched products (five backward) of the whole square, and the passes over it: scale,
// mask and softmax in one kernel, dropout in another.
static double attention_unfused(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  const bool grad = work->kind == PTC_KW_ATTENTION_GRAD;
  const int64_t heads = at_least_one(work->heads) * at_least_one(work->batch);
  ptc_kernel_work_t one = {.kind = PTC_KW_GEMM, .prec = work->prec, .batch = heads};
  one.m = work->rows, one.n = work->cols, one.k = work->qk_dim;
  double seconds = (grad ? 2 : 1) * gemm_gpu(device, &one, heads);
  one.n = work->v_dim, one.k = work->cols;
  seconds += (grad ? 2 : 1) * gemm_gpu(device, &one, heads);
  const double scores =
      operand_bytes(work->prec) * (double)heads * (double)work->rows * (double)work->cols;
  return seconds + memory_seconds(device, scores * (grad ? 5.5 : 4.5));
}

// --- CPUs

// The product's kernel: rows and columns in registers.
enum { CPU_ROWS = 6, CPU_COLS = 16 };
// Multiply-adds' time for each exp in a vector loop.
static const double costly_flops = 85;
// Part of the operands' streaming that does not hide behind the multiply-adds: packing.
static const double packing = .5;
// What the loops of one core move for each FLOP of its peak while their data lies in the last cache.
static const double cached_bytes_per_flop = .15;
// Backward attention computes less of the tiles at the diagonal in vain.
static const double grad_lost = .25;

static double streamed_cpu(const ptc_device_model_t *device, double bytes) {
  const double cached = peak_of(device, PTC_PREC_F32) * cached_bytes_per_flop;
  const double memory = device->memory_rate * device->memory_eff;
  return bytes / (bytes <= device->l2_bytes ? cached : least(cached, memory));
}

static double costly_seconds(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  return costly_flops * work->costly / peak_of(device, PTC_PREC_F32);
}

static double gemm_cpu(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  const double batch = (double)at_least_one(work->batch);
  const double m = (double)(ceil_div(work->m, CPU_ROWS) * CPU_ROWS);
  const double n = (double)(ceil_div(work->n, CPU_COLS) * CPU_COLS);
  const double flops = 2 * batch * m * n * (double)work->k;
  const double packed = 4 * batch * ((double)work->m + (double)work->n) * (double)work->k;
  const double compute = flops / (peak_of(device, PTC_PREC_F32) * device->gemm_eff);
  const double moved = streamed_cpu(device, most(work->bytes, packed + 4 * batch * m * n));
  return most(compute + device->gemm_tile_s + packing * streamed_cpu(device, packed), moved) +
         costly_seconds(device, work);
}

static double attention_cpu(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  const bool grad = work->kind == PTC_KW_ATTENTION_GRAD;
  const double eff = by_head_dim(grad ? device->attention_grad_eff : device->attention_eff,
                                 (double)(work->qk_dim + work->v_dim) / 2);
  const double heads = (double)(at_least_one(work->heads) * at_least_one(work->batch));
  double widest;
  // Tiles at the diagonal are computed whole.
  double lost = work->causal ? (double)work->rows * device->attention_half : 0;
  if (grad) lost *= grad_lost;
  const double pairs = heads * (stated_pairs(work, &widest) + lost);
  const double flops = pairs * pair_flops(work);
  const double compute = flops / (peak_of(device, PTC_PREC_F32) * eff);
  return most(compute, streamed_cpu(device, attention_bytes(work)));
}

// --- all

// Operations, then bytes, each at the device's rate; of no device in particular.
static double plain_seconds(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  const bool attention = work->kind == PTC_KW_ATTENTION || work->kind == PTC_KW_ATTENTION_GRAD;
  const double bytes = attention ? attention_bytes(work) : work->bytes;
  return ptc_kernel_flops(work) / peak_of(device, work->prec) + streamed(device, bytes);
}

double ptc_kernel_flops(const ptc_kernel_work_t *work) {
  if (work->flops > 0) return work->flops;
  switch (work->kind) {
    case PTC_KW_GEMM:
    case PTC_KW_GROUPED_GEMM:
      return 2. * (double)at_least_one(work->batch) * (double)work->m * (double)work->n *
             (double)work->k;
    case PTC_KW_ATTENTION:
    case PTC_KW_ATTENTION_GRAD: return attention_flops(work);
    case PTC_KW_MEMORY: return 0;
  }
  return 0;
}

double ptc_kernel_seconds(const ptc_device_model_t *device, const ptc_kernel_work_t *work,
                          const ptc_kernel_options_t *options) {
  static const ptc_kernel_options_t fused = {.launch_s = -1};
  if (!options) options = &fused;
  const double launch = options->launch_s < 0 ? device->launch_s : options->launch_s;
  if (device->arch == PTC_ARCH_ANY) return launch + plain_seconds(device, work);
  const bool cpu = device->arch == 0;
  double launches = 1;
  switch (work->kind) {
    case PTC_KW_GEMM:
    case PTC_KW_GROUPED_GEMM:
      if (work->m <= 0 || work->n <= 0 || work->k <= 0) return 0;
      if (cpu) return launch + gemm_cpu(device, work);
      if (work->kind == PTC_KW_GROUPED_GEMM) return launch + grouped_gpu(device, work);
      return launch + gemm_gpu(device, work, at_least_one(work->batch));
    case PTC_KW_ATTENTION:
    case PTC_KW_ATTENTION_GRAD:
      if (work->rows <= 0 || work->cols <= 0) return 0;
      if (cpu) return launch + attention_cpu(device, work);
      if (options->unfused_attention) return 4 * launch + attention_unfused(device, work);
      return launch + attention_gpu(device, work) /
                          (options->attention_eff > 0 ? options->attention_eff : 1);
    case PTC_KW_MEMORY: break;
  }
  double bytes = work->bytes;
  if (options->unfused) {
    launches = work->ops > 0 ? work->ops : 1;
    if (work->unfused_bytes > 0) bytes = work->unfused_bytes;
  }
  if (bytes <= 0) return 0;
  if (cpu) return launches * launch + streamed_cpu(device, bytes) + costly_seconds(device, work);
  return launches * launch + streamed(device, bytes + launches * device->memory_half_bytes);
}

// --- floors: what is left of a kernel's time grows at least with its work

// The best rate of the kernel's products; a settled device is the slower one.
static double gemm_floor(const ptc_device_model_t *device, const ptc_kernel_work_t *work,
                         int64_t batch) {
  double eff = device->gemm_eff;
  if (device->gemm_settle_s > 0) eff = most(eff, device->gemm_burst_eff);
  if (operand_bytes(runs_as(device, work->prec)) < 2) eff *= narrow_eff;
  const double results = (double)batch * (double)work->m * (double)work->n;
  const double seconds = 2 * results * (double)work->k / (peak_of(device, work->prec) * eff);
  const double bytes = work->bytes * (double)batch / (double)at_least_one(work->batch);
  const double accumulated =
      work->accumulates_f32 ? streamed(device, accumulate_bytes * results) : 0;
  return most(seconds, streamed(device, bytes)) + accumulated;
}

static double attention_floor(const ptc_device_model_t *device, const ptc_kernel_work_t *work,
                              bool unfused) {
  const bool grad = work->kind == PTC_KW_ATTENTION_GRAD;
  const double heads = (double)(at_least_one(work->heads) * at_least_one(work->batch));
  if (unfused) {
    const double scores = heads * (double)work->rows * (double)work->cols;
    const double flops = (grad ? 4. : 2.) * scores * (double)(work->qk_dim + work->v_dim);
    return flops / (peak_of(device, work->prec) * most(device->gemm_eff, device->gemm_burst_eff)) +
           streamed(device, operand_bytes(work->prec) * scores * (grad ? 5.5 : 4.5));
  }
  const double *effs = grad ? device->attention_grad_eff : device->attention_eff;
  const double eff = most(effs[0], most(effs[1], effs[2]));
  const double peak = least(peak_of(device, work->prec), 2 * peak_of(device, PTC_PREC_BF16));
  double widest;
  const double flops = heads * stated_pairs(work, &widest) * pair_flops(work);
  return flops / (peak * eff);
}

static double cpu_floor(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  const double peak = peak_of(device, PTC_PREC_F32);
  const double streaming = work->bytes / (peak * cached_bytes_per_flop);
  switch (work->kind) {
    case PTC_KW_GEMM:
    case PTC_KW_GROUPED_GEMM: {
      const double flops = 2. * (double)at_least_one(work->batch) * (double)work->m *
                           (double)work->n * (double)work->k;
      return flops / (peak * device->gemm_eff) + costly_seconds(device, work);
    }
    case PTC_KW_ATTENTION:
    case PTC_KW_ATTENTION_GRAD: {
      const double *effs =
          work->kind == PTC_KW_ATTENTION ? device->attention_eff : device->attention_grad_eff;
      const double eff = most(effs[0], most(effs[1], effs[2]));
      return ptc_kernel_flops(work) / (peak * eff);
    }
    case PTC_KW_MEMORY: break;
  }
  return streaming + costly_seconds(device, work);
}

double ptc_kernel_floor(const ptc_device_model_t *device, const ptc_kernel_work_t *work,
                        const ptc_kernel_options_t *options) {
  if (device->arch == PTC_ARCH_ANY) return plain_seconds(device, work);
  if (device->arch == 0) return cpu_floor(device, work);
  switch (work->kind) {
    case PTC_KW_GEMM: return gemm_floor(device, work, at_least_one(work->batch));
    case PTC_KW_GROUPED_GEMM:
      return (double)at_least_one(work->batch) * most(gemm_floor(device, work, 1), group_launch_s);
    case PTC_KW_ATTENTION:
    case PTC_KW_ATTENTION_GRAD: {
      const double seconds = attention_floor(device, work, options && options->unfused_attention);
      return seconds / (options && options->attention_eff > 0 ? options->attention_eff : 1);
    }
    case PTC_KW_MEMORY: break;
  }
  return ptc_kernel_seconds(device, work, options);
}
