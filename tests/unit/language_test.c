// Proves: every example of frontend/LANGUAGE.md does what the text around it says. A block
// ```ptm is a whole file; ```ptm body stands in the frame that the reference shows first. It must
// compile, verify, and run on the interpreter; one that is marked `error: ID` must give that
// diagnostic and no other.
#include <stdlib.h>

#include "frontend/driver/compile.h"
#include "ir/base/str.h"
#include "ir/interp.h"
#include "ir/verify.h"
#include "passes/check_semantics.h"
#include "tests/support/unit.h"

static const char reference[] = PTC_SOURCE_DIR "/frontend/LANGUAGE.md";

typedef struct block_s {
  const char *text;
  size_t len;
  int line;  // of its first line
  bool is_body;
  char error[64];  // "" if it must compile
} block_t;

// The next fenced block at or after |*at|; false at the end. |info| is what follows the fence.
static bool next_block(const char **at, int *line, block_t *out, char *info, size_t info_size) {
  const char *fence = strstr(*at, "\n```");
  if (!fence) return false;
  for (const char *p = *at; p <= fence; p++) *line += *p == '\n';
  const char *head = fence + 4, *begin = strchr(head, '\n') + 1, *end = strstr(begin, "\n```");
  CU_ASSERT_PTR_NOT_NULL_FATAL(end);
  snprintf(info, info_size, "%.*s", (int)(begin - 1 - head), head);
  *out = (block_t){.text = begin, .len = (size_t)(end + 1 - begin), .line = *line + 1};
  for (const char *p = fence + 1; p < end + 1; p++) *line += *p == '\n';
  *at = end + 4;
  return true;
}

// The model in which the bodies stand: the reference's first block, "..." in place of the body.
static void put_in_frame(const block_t *frame, const block_t *block, ptc_str_t *out) {
  const char *hole = memmem(frame->text, frame->len, "  ...", 5);
  CU_ASSERT_PTR_NOT_NULL_FATAL(hole);
  size_t before = (size_t)(hole - frame->text), line = strcspn(hole, "\n");
  ptc_str_append_n(out, frame->text, before);
  ptc_str_append_n(out, block->text, block->len);
  ptc_str_append_n(out, hole + line, frame->len - before - line);
}

static void run_func(ptc_interp_t *interp, const ptc_module_t *module, const char *func,
                     const char *row) {
  if (!ptc_module_find_func(module, func)) return;
  UNIT_CHECK(ptc_interp_run(interp, func) == PTC_OK, row);
}

static void check_module(ptc_module_t *module, const char *row) {
  UNIT_CHECK(ptc_module_verify(module) == PTC_OK, row);
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_EXACT);
  ptc_semantics_fill(interp, module, 1);
  run_func(interp, module, "init", row);
  run_func(interp, module, "train", row);
  run_func(interp, module, "eval", row);
  ptc_interp_destroy(interp);
}

static void check_block(const block_t *frame, const block_t *block) {
  char row[128];
  snprintf(row, sizeof(row), "LANGUAGE.md:%d", block->line);
  ptc_str_t text = {0};
  if (block->is_body)
    put_in_frame(frame, block, &text);
  else
    ptc_str_append_n(&text, block->text, block->len);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  ptc_status_t status = ptc_compile_text(&diag, row, text.data, text.len, NULL, &module);
  if (block->error[0]) {
    UNIT_CHECK(status == PTC_INVALID_INPUT, row);
    UNIT_CHECK(diag.num_errors > 0, row);
    for (int64_t i = 0; i < diag.num_items; i++)
      if (diag.items[i].severity == PTC_ERROR)
        UNIT_CHECK(strcmp(diag.items[i].id, block->error) == 0, row);
  } else {
    UNIT_CHECK(status == PTC_OK, row);
    if (module) check_module(module, row);
    ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
}

static void test_examples(void) {
  char *text, info[128];
  size_t len;
  CU_ASSERT_EQUAL_FATAL(ptc_read_file(reference, &text, &len), PTC_OK);
  const char *at = text;
  int line = 1, examples = 0, refused = 0;
  block_t frame, block;
  CU_ASSERT_FATAL(next_block(&at, &line, &frame, info, sizeof(info)));
  while (next_block(&at, &line, &block, info, sizeof(info))) {
    if (strncmp(info, "ptm", 3) != 0) continue;
    block.is_body = strstr(info, "body") != NULL;
    const char *error = strstr(info, "error: ");
    if (error) snprintf(block.error, sizeof(block.error), "%s", error + 7);
    check_block(&frame, &block);
    examples++;
    refused += error != NULL;
  }
  printf(" %d examples, %d of them refused ", examples, refused);
  CU_ASSERT(examples >= 30 && refused >= 8);
  free(text);
}

// The operand of most dims gives the order, whichever side it stands on.
static void test_output_order(void) {
  static const char text[] =
      "model m(width = 3, seq = 2) {\n"
      "  dim d = width, b = batch, s = seq\n  param w[d] ~ ones\n"
      "  input t[b, s] : int from text\n  x = f32(t)\n"
      "  y = w[d] * x[b, s]\n  z = exp(w) + y\n  u[s, d, b] = y\n"
      "  loss = mean[b, s, d](u)\n  output y, z, u\n}\n"
      "train {\n  batch = 2\n  optimizer = sgd(lr = 1)\n}\n";
  static const char *const orders[][4] = {
      {"y", "b", "s", "d"}, {"z", "b", "s", "d"}, {"u", "s", "d", "b"}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  CU_ASSERT_EQUAL(ptc_compile_text(&diag, "order.ptm", text, sizeof(text) - 1, NULL, &module),
                  PTC_OK);
  ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  const ptc_func_t *eval = module ? ptc_module_find_func(module, "eval") : NULL;
  CU_ASSERT_PTR_NOT_NULL(eval);
  for (size_t i = 0; eval && i < sizeof(orders) / sizeof(orders[0]); i++)
    for (int32_t r = 0; r < eval->num_results; r++) {
      if (strcmp(eval->results[r].name, orders[i][0]) != 0) continue;
      const ptc_type_t *type = eval->body->last->operands[r]->type;
      CU_ASSERT_EQUAL(type->num_dims, 3);
      for (int32_t d = 0; d < type->num_dims; d++)
        UNIT_CHECK(strcmp(type->dims[d].name, orders[i][1 + d]) == 0, orders[i][0]);
    }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"examples", test_examples},
                                    {"order of outputs", test_output_order}};
UNIT_MAIN("language", tests)
