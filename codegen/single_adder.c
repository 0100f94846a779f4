#include "codegen/single_adder.h"

#include <inttypes.h>

static int32_t loop_named(ptc_adder_t *a, const char *name) {
  for (int32_t i = 0; i < a->num_loops; ++i)
    if (a->loops[i].name == name) return i;
  a->loops[a->num_loops] = (ptc_adder_loop_t){.name = name, .extent = 1};
  return a->num_loops++;
}

// Loops of the operand's dims; |is_free|: whether the result has the dim as such.
static void add_operand(ptc_adder_t *a, bool (*is_free)(const ptc_op_t *op, const char *name)) {
  const ptc_c_single_t *s = a->s;
  const ptc_type_t *y = ptc_single_in(s, 0), *x = ptc_single_out(s, 0);
  const ptc_kparam_t *from = ptc_single_param(s, false, 0), *to = ptc_single_param(s, true, 0);
  for (int32_t d = 0; d < y->num_dims; ++d) {
    const int32_t i = loop_named(a, y->dims[d].name);
    a->loops[i].extent = from->extents[d];
    a->loops[i].from = ptc_single_stride(from, d);
    const int32_t at =
        is_free(s->op, a->loops[i].name) ? ptc_type_find_dim(x, a->loops[i].name) : -1;
    if (at >= 0) a->loops[i].to = ptc_single_stride(to, at);
    a->summed[i] = at < 0;
  }
}

static void add_row(ptc_adder_t *a, const char *name, const ptc_str_t *index_text) {
  const ptc_kparam_t *to = ptc_single_param(a->s, true, 0);
  const int32_t at = ptc_type_find_dim(ptc_single_out(a->s, 0), name);
  a->row_extent[a->num_rows] = to->extents[at];
  a->row_stride[a->num_rows] = ptc_single_stride(to, at);
  a->index_text[a->num_rows++] = ptc_arena_strdup(a->s->arena, index_text->data);
}

static bool is_free_of_scatter(const ptc_op_t *op, const char *name) {
  return ptc_op_dims_contain(op, "result", name) && !ptc_op_dims_contain(op, "dims", name);
}

static void init_scatter(ptc_adder_t *a, bool *moves) {
  const ptc_c_single_t *s = a->s;
  add_operand(a, is_free_of_scatter);
  const ptc_attr_t *dims = ptc_op_attr(s->op, "dims");
  for (int32_t k = 0; k < dims->count; ++k) {
    const ptc_type_t *index = ptc_single_in(s, k + 1);
    ptc_str_t text = {0};
    ptc_str_printf(&text, "(int64_t)%s[0", ptc_single_name(s, false, k + 1));
    for (int32_t d = 0; d < index->num_dims; ++d) {
      const int32_t i = loop_named(a, index->dims[d].name);
      moves[i] = true;
      ptc_str_printf(&text, " + i%d * %" PRId64, i,
                     ptc_single_stride(ptc_single_param(s, false, k + 1), d));
    }
    ptc_str_append(&text, "]");
    add_row(a, dims->u.dims[k], &text);
    ptc_str_deinit(&text);
  }
}

static bool is_free_of_window(const ptc_op_t *op, const char *name) {
  return !ptc_op_dims_contain(op, "terms", name) || ptc_op_dims_contain(op, "keep", name);
}

static void init_window(ptc_adder_t *a, bool *moves) {
  const ptc_op_t *op = a->s->op;
  add_operand(a, is_free_of_window);
  const ptc_attr_t *terms = ptc_op_attr(op, "terms"), *coeffs = ptc_op_attr(op, "coeffs");
  ptc_str_t text = {0};
  ptc_str_printf(&text, "%" PRId64, ptc_op_int(op, "offset"));
  for (int32_t t = 0; t < terms->count; ++t) {
    const int32_t i = loop_named(a, terms->u.dims[t]);
    moves[i] = true;
    ptc_str_printf(&text, " + i%d * INT64_C(%" PRId64 ")", i, coeffs->u.ints[t]);
  }
  add_row(a, ptc_op_string(op, "dim"), &text);
  ptc_str_deinit(&text);
}

void ptc_adder_init(const ptc_c_single_t *s, ptc_adder_t *out_adder) {
  ptc_adder_t *a = out_adder;
  *a = (ptc_adder_t){.s = s};
  bool moves[PTC_ADDER_MAX_LOOPS] = {false};
  if (s->op->opcode == PTC_OP_SCATTER_ADD)
    init_scatter(a, moves);
  else
    init_window(a, moves);
  for (int32_t i = 0; i < a->num_loops; ++i) {
    a->batch[i] = !a->summed[i] && moves[i];
    a->free[i] = !a->summed[i] && !moves[i];
  }
}

int64_t ptc_adder_points(const ptc_adder_t *adder, const bool *take) {
  int64_t n = 1;
  for (int32_t i = 0; i < adder->num_loops; ++i)
    if (take[i]) n *= adder->loops[i].extent;
  return n;
}

void ptc_adder_decompose(const ptc_adder_t *adder, const bool *take, const char *at, int32_t indent,
                         ptc_str_t *out) {
  int64_t below = 1;
  for (int32_t i = adder->num_loops - 1; i >= 0; --i) {
    if (!take[i]) continue;
    const int64_t extent = adder->loops[i].extent;
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "const int64_t i%d = %s / %" PRId64 " %% %" PRId64 ";\n", i, at,
                   below ? below : 1, extent ? extent : 1);
    below *= extent;
  }
}

const char *ptc_adder_offset(const ptc_adder_t *adder, const bool *take, bool in_result) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "");
  for (int32_t i = 0; i < adder->num_loops; ++i) {
    const int64_t stride = in_result ? adder->loops[i].to : adder->loops[i].from;
    if (take[i] && stride) ptc_str_printf(&text, " + i%d * %" PRId64, i, stride);
  }
  const char *kept = ptc_arena_strdup(adder->s->arena, text.data);
  ptc_str_deinit(&text);
  return kept;
}
