// choose-layout: which dims of parameters lie on tp, for `partition`.
//
// Chosen before anything is computed again, and as if ZeRO were off: so the parameters lie the same way, and sums are
// taken in the same order, whatever the two are.
#include "ir/text.h"
#include "passes/parallel.h"
#include "passes/partition.h"
#include "passes/pass.h"

ptc_status_t ptc_pass_choose_layout(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(module, &parallel));
  if (parallel.size[PTC_AXIS_TP] == 1) return PTC_OK;
  // Inference changes types.
  ptc_str_t text = {0}, layout = {0};
  ptc_module_print(module, false, &text);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *copy = NULL;
  ptc_status_t status = ptc_module_parse(&diag, "copy.ptir", text.data, text.len, &copy);
  if (status == PTC_OK) {
    ptc_attrs_set_int(copy, &copy->config, "zero", 0);
    status = ptc_partition_layout(copy, &ctx->scratch, &layout);
  }
  // What cannot be split is said by `partition`, with its place in the text.
  if (status == PTC_OK) ptc_attrs_set_string(module, &module->config, "layout", layout.data);
  ptc_module_destroy(copy);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
  ptc_str_deinit(&layout);
  return PTC_OK;
}
