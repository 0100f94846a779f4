// Proves: costs of kernels meet published tables of matrix products and attention on other devices than those they were
// fitted on; they follow the shape (waves, splits, alignment, heads, causal masks, windows) and the options of a stack.
#include "passes/planner/kernel_cost.h"

#include <math.h>
#include <time.h>

#include "frontend/cluster.h"
#include "tests/support/unit.h"

static ptc_diag_t diag;
static ptc_arena_t arena;
static ptc_device_model_t **devices;
static int32_t num_devices;

static const ptc_device_model_t *named(const char *name) {
  if (!devices) {
    ptc_diag_init(&diag);
    ptc_arena_init(&arena);
    CU_ASSERT_FATAL(ptc_device_catalog(&diag, &arena, &devices, &num_devices) == PTC_OK);
  }
  for (int32_t i = 0; i < num_devices; i++)
    if (strcmp(devices[i]->name, name) == 0) return devices[i];
  CU_FAIL_FATAL("no such device");
  return NULL;
}

static double seconds(const ptc_device_model_t *device, const ptc_kernel_work_t *work) {
  return ptc_kernel_seconds(device, work, &(ptc_kernel_options_t){.launch_s = 0});
}

static ptc_kernel_work_t product(ptc_precision_t prec, int64_t m, int64_t n, int64_t k) {
  return (ptc_kernel_work_t){.kind = PTC_KW_GEMM, .prec = prec, .m = m, .n = n, .k = k};
}

static ptc_kernel_work_t attention(bool grad, int64_t batch, int64_t heads, int64_t rows,
                                   int64_t dim, bool causal) {
  return (ptc_kernel_work_t){.kind = grad ? PTC_KW_ATTENTION_GRAD : PTC_KW_ATTENTION,
                             .prec = PTC_PREC_BF16,
                             .batch = batch,
                             .heads = heads,
                             .kv_heads = heads,
                             .rows = rows,
                             .cols = rows,
                             .qk_dim = dim,
                             .v_dim = dim,
                             .causal = causal};
}

// --- tables

// cuBLASLt on random data, settled (Azure AI benchmarking guide): TFLOP/s of n x n x n, and two odd shapes.
static void test_products(void) {
  static const struct {
    const char *device;
    ptc_precision_t prec;
    int64_t m, n, k;
    double tflops;
  } rows[] = {
      {"a100_sxm_80g", PTC_PREC_F16, 1024, 1024, 1024, 119},
      {"a100_sxm_80g", PTC_PREC_F16, 2048, 2048, 2048, 222},
      {"a100_sxm_80g", PTC_PREC_F16, 4096, 4096, 4096, 228},
      {"a100_sxm_80g", PTC_PREC_F16, 8192, 8192, 8192, 254},
      {"a100_sxm_80g", PTC_PREC_F16, 16384, 16384, 16384, 256.5},
      {"a100_sxm_80g", PTC_PREC_F16, 802816, 192, 768, 158},
      {"a100_sxm_80g", PTC_PREC_F16, 1024, 2145, 1024, 133},
      {"h100_sxm", PTC_PREC_FP8, 1024, 1024, 1024, 274},
      {"h100_sxm", PTC_PREC_FP8, 2048, 2048, 2048, 1011},
      {"h100_sxm", PTC_PREC_FP8, 4096, 4096, 4096, 1217},
      {"h100_sxm", PTC_PREC_FP8, 8192, 8192, 8192, 1290},
      {"h100_sxm", PTC_PREC_FP8, 16384, 16384, 16384, 1377},
      {"h100_sxm", PTC_PREC_FP8, 802816, 192, 768, 664},
      {"h100_sxm", PTC_PREC_FP8, 1024, 2145, 1024, 411},
      {"h200", PTC_PREC_FP8, 1024, 1024, 1024, 291},
      {"h200", PTC_PREC_FP8, 2048, 2048, 2048, 1013},
      {"h200", PTC_PREC_FP8, 4096, 4096, 4096, 1249},
      {"h200", PTC_PREC_FP8, 8192, 8192, 8192, 1301},
      {"h200", PTC_PREC_FP8, 802816, 192, 768, 718},
      {"h200", PTC_PREC_BF16, 8192, 8192, 8192, 780},
  };
  double sum = 0;
  const int count = (int)(sizeof(rows) / sizeof(*rows));
  for (int i = 0; i < count; i++) {
    const ptc_kernel_work_t work = product(rows[i].prec, rows[i].m, rows[i].n, rows[i].k);
    // The library is called in a loop: launches count.
    const double time = ptc_kernel_seconds(named(rows[i].device), &work, NULL);
    const double tflops = ptc_kernel_flops(&work) / time * 1e-12;
    const double error = log(rows[i].tflops / tflops);
    char row[120];
    snprintf(row, sizeof(row), "%s %d x %d x %d: %.0f, measured %.0f", rows[i].device,
             (int)rows[i].m, (int)rows[i].n, (int)rows[i].k, tflops, rows[i].tflops);
    printf("%s (%+.1f %%)\n", row, 100 * error);
    UNIT_CHECK(fabs(error) < .35, row);
    sum += fabs(error);
  }
  printf("products: mean error %.1f %%\n", 100 * sum / count);
  CU_ASSERT(sum / count < .1);
}

// FlashAttention's own measurements, TFLOP/s at 512 to 16k rows; 16k tokens, 2048 = heads * dim. Both: forward and backward.
static void test_attention(void) {
  static const struct {
    const char *device;
    bool both;
    double eff;
    int64_t dim;
    bool causal;
    double tflops[6];
  } rows[] = {
      {"a100_sxm_80g", true, 1, 64, false, {132, 153, 162, 171, 175, 176}},
      {"a100_sxm_80g", true, 1, 128, false, {151, 173, 187, 196, 201, 203}},
      {"a100_sxm_80g", true, 1, 64, true, {88, 119, 140, 156, 165, 171}},
      {"a100_sxm_80g", true, 1, 128, true, {99, 133, 155, 173, 182, 189}},
      {"h100_sxm", false, 1, 64, false, {333, 392, 460, 476, 496, 497}},
      {"h100_sxm", false, 1, 64, true, {197, 265, 371, 420, 460, 473}},
      {"h100_sxm", false, 1, 128, false, {467, 565, 625, 638, 646, 648}},
      {"h100_sxm", false, 1, 128, true, {292, 423, 521, 579, 602, 616}},
      {"h100_sxm", false, 1, 256, false, {482, 630, 707, 736, 746, 756}},
      {"h100_sxm", false, 1, 256, true, {286, 427, 537, 612, 628, 642}},
      {"h100_sxm", false, .57, 128, false, {309, 350, 362, 368, 370, 370}},
      {"h100_sxm", false, .57, 128, true, {191, 260, 298, 319, 333, 335}},
      {"h100_sxm", true, .57, 128, false, {248, 294, 320, 326, 335, 338}},
      {"h100_sxm", true, .57, 128, true, {163, 221, 265, 294, 308, 328}},
  };
  double sum = 0;
  int count = 0;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    printf("%s d%d %s%s:", rows[i].device, (int)rows[i].dim, rows[i].both ? "both" : "forward",
           rows[i].causal ? " causal" : "");
    for (int k = 0; k < 6; k++) {
      const int64_t length = 512 << k;
      double time = 0;
      for (int grad = 0; grad <= (rows[i].both ? 1 : 0); grad++) {
        const ptc_kernel_work_t work = attention(grad, 16384 / length, 2048 / rows[i].dim, length,
                                                 rows[i].dim, rows[i].causal);
        time += ptc_kernel_seconds(
            named(rows[i].device), &work,
            &(ptc_kernel_options_t){.launch_s = 0, .attention_eff = rows[i].eff});
      }
      // Causal counts half.
      const double flops =
          (rows[i].both ? 3.5 : 1) * 4. * 16384 * (double)length * 2048 * (rows[i].causal ? .5 : 1);
      const double error = log(rows[i].tflops[k] * 1e12 * time / flops);
      char row[120];
      snprintf(row, sizeof(row), "%d %s d%d %d", (int)i, rows[i].device, (int)rows[i].dim,
               (int)length);
      printf(" %+.1f", 100 * error);
      UNIT_CHECK(fabs(error) < .3, row);
      sum += fabs(error);
      count++;
    }
    printf("\n");
  }
  printf("attention: mean error %.1f %%\n", 100 * sum / count);
  CU_ASSERT(sum / count < .08);
}

// --- shapes

static double rate(const ptc_device_model_t *device, ptc_kernel_work_t work) {
  return ptc_kernel_flops(&work) / seconds(device, &work);
}

static void test_product_shapes(void) {
  const ptc_device_model_t *a100 = named("a100_sxm_80g"), *h100 = named("h100_sxm");
  const ptc_precision_t half = PTC_PREC_BF16;
  // One tile more than the SMs hold costs a wave.
  const double full =
      seconds(a100, &(ptc_kernel_work_t){.prec = half, .m = 12 * 256, .n = 9 * 128, .k = 8192});
  const double over =
      seconds(a100, &(ptc_kernel_work_t){.prec = half, .m = 12 * 256, .n = 10 * 128, .k = 8192});
  CU_ASSERT(over > 1.25 * full);
  // A deep sum over few results is split.
  CU_ASSERT(rate(a100, product(half, 512, 512, 65536)) >
            8 * a100->peak[half] / 108 * a100->gemm_eff);
  // Deeper sums hide the ends of tiles.
  CU_ASSERT(rate(a100, product(half, 4096, 4096, 256)) <
            .8 * rate(a100, product(half, 4096, 4096, 4096)));
  // Alignment: a known MLP, 10922 against 10944 columns.
  const double odd = 1 / rate(h100, product(half, 16384, 2 * 10922, 4096)) * 2 +
                     1 / rate(h100, product(half, 16384, 4096, 10922));
  const double even = 1 / rate(h100, product(half, 16384, 2 * 10944, 4096)) * 2 +
                      1 / rate(h100, product(half, 16384, 4096, 10944));
  CU_ASSERT(odd / even > 1.3 && odd / even < 1.6);
  // fp8 is nearly twice as fast, tf32 half as fast; what the device lacks runs in the next wider type.
  CU_ASSERT(fabs(rate(h100, product(PTC_PREC_FP8, 8192, 8192, 8192)) /
                     rate(h100, product(half, 8192, 8192, 8192)) -
                 1.9) < .15);
  CU_ASSERT(rate(a100, product(PTC_PREC_FP8, 8192, 8192, 8192)) ==
            rate(a100, product(half, 8192, 8192, 8192)));
  CU_ASSERT(rate(named("v100_32g"), product(half, 8192, 8192, 8192)) > 70e12);
  // A thin product is bound by memory: its bytes at the streaming rate.
  const ptc_kernel_work_t thin = product(half, 1, 16384, 16384);
  CU_ASSERT(seconds(h100, &thin) > 2. * 16384 * 16384 / h100->memory_rate);
  CU_ASSERT(seconds(h100, &thin) < 2.6 * 16384 * 16384 / h100->memory_rate);
  // A weight gradient in f32 costs its accumulator.
  ptc_kernel_work_t wgrad = product(half, 4096, 4096, 2048);
  const double plain = seconds(a100, &wgrad);
  wgrad.accumulates_f32 = true;
  const double extra = (seconds(a100, &wgrad) - plain) * a100->memory_rate / (4. * 4096 * 4096);
  CU_ASSERT(extra > .7 && extra < 1.2);
  // No work, no time.
  CU_ASSERT(
      ptc_kernel_seconds(a100, &(ptc_kernel_work_t){.kind = PTC_KW_GEMM, .prec = half}, NULL) == 0);
}

static void test_grouped(void) {
  const ptc_device_model_t *b200 = named("b200");
  double before = 0;
  // 20480 rows over ever fewer experts.
  for (int64_t groups = 160; groups >= 5; groups /= 2) {
    ptc_kernel_work_t work = product(PTC_PREC_BF16, 20480 / groups, 3072, 5120);
    work.kind = PTC_KW_GROUPED_GEMM;
    work.batch = groups;
    const double now = rate(b200, work);
    CU_ASSERT(now > before * .98);
    before = now;
  }
  CU_ASSERT(before > .42 * b200->peak[PTC_PREC_BF16]);
}

static void test_attention_shapes(void) {
  const ptc_device_model_t *a100 = named("a100_sxm_80g"), *b200 = named("b200");
  // A causal mask halves a long row's time, not a short one's.
  const double ratio_long = rate(a100, attention(false, 1, 32, 32768, 128, true)) /
                            rate(a100, attention(false, 1, 32, 32768, 128, false));
  const double ratio_short = rate(a100, attention(false, 64, 32, 256, 128, true)) /
                             rate(a100, attention(false, 64, 32, 256, 128, false));
  CU_ASSERT(ratio_long > .95 && ratio_short < .8);
  // Few heads leave SMs idle: SimuMax's figures for 4096 rows, as fractions of the peak.
  static const struct {
    int64_t heads;
    double a100, b200;
  } rows[] = {{64, .594, .436}, {32, .559, .366}, {16, .494, .289}, {8, .393, .155}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    const ptc_kernel_work_t work = attention(false, 1, rows[i].heads, 4096, 128, true);
    const double one = rate(named("a100_pcie_80g"), work) / 312e12,
                 two = rate(b200, work) / 2250e12;
    char row[100];
    snprintf(row, sizeof(row), "%d heads: %.3f %.3f", (int)rows[i].heads, one, two);
    UNIT_CHECK(fabs(one / rows[i].a100 - 1) < .08 && fabs(two / rows[i].b200 - 1) < .25, row);
  }
  // A window bounds the keys; few keys and many queries are possible; queries' heads may share keys.
  ptc_kernel_work_t work = attention(false, 1, 32, 65536, 128, true);
  const double whole = seconds(a100, &work);
  work.window = 1024;
  const double windowed = seconds(a100, &work);
  CU_ASSERT(windowed < whole / 15 && windowed > whole / 64);
  CU_ASSERT(fabs(ptc_kernel_flops(&work) / (4. * 128 * 32 * (65536. * 1024 - 1024 * 1023 / 2)) -
                 1) < 1e-9);
  work = attention(false, 1, 32, 1024, 128, true);
  work.cols = 4096;
  CU_ASSERT(fabs(ptc_kernel_flops(&work) / (4. * 128 * 32 * (1024. * 3072 + 1024 * 1025 / 2)) - 1) <
            1e-9);
  // Unfused attention moves the scores.
  work = attention(false, 1, 32, 4096, 128, true);
  const double unfused = ptc_kernel_seconds(
      a100, &work, &(ptc_kernel_options_t){.unfused_attention = true, .launch_s = 0});
  CU_ASSERT(unfused > 4 * 2. * 32 * 4096 * 4096 / a100->memory_rate &&
            unfused > 3 * seconds(a100, &work));
}

static void test_memory(void) {
  const ptc_device_model_t *h100 = named("h100_sxm");
  ptc_kernel_work_t work = {.kind = PTC_KW_MEMORY, .bytes = 1e9, .ops = 5, .unfused_bytes = 3e9};
  const double fused = ptc_kernel_seconds(h100, &work, NULL);
  CU_ASSERT(fabs(fused / (1e9 / (.89 * 3.35e12) + h100->launch_s) - 1) < .01);
  const double unfused =
      ptc_kernel_seconds(h100, &work, &(ptc_kernel_options_t){.unfused = true, .launch_s = 6e-6});
  CU_ASSERT(fabs(unfused / (3e9 / (.89 * 3.35e12) + 5 * 6e-6) - 1) < .02);
  // Small ones do not fill the memory system: Calculon's table, .6 at 1 MB to .9 at 100 MB.
  work.bytes = 1e6;
  const double small = 1e6 / (ptc_kernel_seconds(h100, &work, NULL) - h100->launch_s) / 3.35e12;
  CU_ASSERT(small < .6 && small > .1);
  work.bytes = 0;
  CU_ASSERT(ptc_kernel_seconds(h100, &work, NULL) == 0);
}

// Called a million times in a search.
static void test_speed(void) {
  const ptc_device_model_t *h100 = named("h100_sxm");
  enum { TURNS = 20000 };
  double best = 1, sum = 0;
  for (int run = 0; run < 20; run++) {
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (int i = 0; i < TURNS; i++) {
      const ptc_kernel_work_t work = product(PTC_PREC_BF16, 1000 + i, 1024, 4096);
      sum += seconds(h100, &work);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    const double one =
        ((double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec)) / TURNS;
    if (one < best) best = one;
  }
  printf("%.0f ns a product ", best * 1e9);
  CU_ASSERT(sum > 0);
#ifndef __SANITIZE_ADDRESS__
  CU_ASSERT(best < 2e-6);
#endif
}

static const unit_test_t tests[] = {{"tables of products", test_products},
                                    {"tables of attention", test_attention},
                                    {"shapes of products", test_product_shapes},
                                    {"grouped products", test_grouped},
                                    {"shapes of attention", test_attention_shapes},
                                    {"memory-bound kernels", test_memory},
                                    {"speed", test_speed}};
UNIT_MAIN("kernel_cost", tests)
