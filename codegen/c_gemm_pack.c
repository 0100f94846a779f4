// Printed packing of a GEMM's operands as f32. B: panels of NR columns, [panel][k][NR]. A: rows along k, [row][k],
// where its elements are neighbours along k, else panels of MR rows, [panel][k][MR].
#include <inttypes.h>

#include "codegen/c_gemm_impl.h"

// Rows of A that one call packs.
static int64_t packed_rows(const gemm_t *gemm) {
  return gemm->a_mode == GEMM_A_OWN ? GEMM_OWN_ROWS : gemm->pack_rows;
}

// --- evaluating a run of elements of an operand
// Prints `eval_a(call, b, fixed, first, last, d)`: d[0 ..] = the operand's elements first .. last - 1 along one
// role, at |fixed| of the other.
static void print_eval(const gemm_t *gemm, const gemm_operand_t *op, ptc_str_t *out) {
  const gemm_role_t *along = op->along_k ? &gemm->k : op->rows;
  const gemm_role_t *across = op->along_k ? op->rows : &gemm->k;
  ptc_str_printf(out,
                 "// d[x - first] = the element of %s at %s = x, %s = fixed.\n"
                 "APART void eval_%s(const ptc_kernel_call_t *call, int64_t b, int64_t fixed,\n"
                 "                   int64_t first, int64_t last, float *restrict d) {\n",
                 op->name, along->name, across->name, op->name);
  gemm_print_entry(gemm, out);
  gemm_print_indices(gemm, &gemm->batch, "b", false, 2, out);
  gemm_print_indices(gemm, across, "fixed", false, 2, out);
  ptc_c_scope_t scope;
  ptc_c_scope_init(&scope, gemm->arena, gemm->kernel);
  // At most a block of k, a strip of B, or the rows of A that are packed at a time.
  int64_t max_run = gemm->kc;
  if (!op->along_k) max_run = op == &gemm->b ? gemm->nt : packed_rows(gemm);
  gemm_open_loop(gemm, &scope, along, &op->expr, 1, max_run, 2, out);
  ptc_c_eval(&scope, op->expr, 6, out);
  ptc_str_printf(out, "      to[x] = %s;\n", scope.value_text[op->expr]);
  gemm_close_loop(2, out);
  gemm_print_exit(gemm, out);
}

// Prints `s`, the start of a plain operand's matrix of batch b.
static void print_base(const gemm_t *gemm, const gemm_operand_t *op, ptc_str_t *out) {
  const char *offset = gemm_offset_text(gemm, &gemm->batch, &op->address, "b");
  ptc_str_printf(out, "  const float *restrict const s = (const float *)call->params[%" PRId32 "]",
                 op->param);
  if (op->address.base) ptc_str_printf(out, " + %" PRId64, op->address.base);
  ptc_str_printf(out, " + %s;\n", offset);
}

// --- A
static const char pack_a_head[] =
    "(const ptc_kernel_call_t *call, int64_t b, int64_t i0, int64_t i1, int64_t k0,\n"
    "                   int64_t depth, int64_t pitch, float *restrict d) {\n";

static void print_pack_a_plain(const gemm_t *gemm, ptc_str_t *out) {
  print_base(gemm, &gemm->a, out);
  const char *offset = gemm_offset_text(gemm, &gemm->k, &gemm->a.address, "(k0 + p)");
  ptc_str_printf(out,
                 "  const int64_t i_edge = i1 - (i1 - i0) %% MR;\n"
                 "  for (int64_t p = 0; p < depth; ++p) {\n"
                 "    const float *const column = s + %s;\n"
                 "    float *panel = d + p * MR;\n"
                 "    for (int64_t i = i0; i < i_edge; i += MR, panel += MR * pitch) {\n"
                 "      __builtin_prefetch(panel + 8 * MR, 1);\n"
                 "      __builtin_memcpy(panel, column + i, MR * sizeof(float));\n"
                 "    }\n"
                 "    for (int64_t i = i_edge; i < i1; ++i) *panel++ = column[i];\n"
                 "  }\n"
                 "}\n\n",
                 offset);
}

static void print_pack_a_panels(const gemm_t *gemm, ptc_str_t *out) {
  ptc_str_printf(out,
                 "  float stage[%" PRId64
                 "] = {0};\n"
                 "  for (int64_t p = 0; p < depth; ++p) {\n"
                 "    eval_a(call, b, k0 + p, i0, i1, stage);\n"
                 "    for (int64_t i = 0; i < i1 - i0; i += MR)\n"
                 "      __builtin_memcpy(d + i * pitch + p * MR, stage + i, MR * sizeof(float));\n"
                 "  }\n"
                 "}\n\n",
                 packed_rows(gemm));
}

void gemm_print_pack_a(const gemm_t *gemm, ptc_str_t *out) {
  if (gemm->a_mode == GEMM_A_DIRECT) return;
  const bool plain = gemm->a.unit && !gemm->a.along_k;
  if (!plain) print_eval(gemm, &gemm->a, out);
  ptc_str_printf(out,
                 "// Packs rows i0 .. i1 - 1 of A from k0 on; |pitch| floats per row.\n"
                 "APART void pack_a%s",
                 pack_a_head);
  if (plain) {
    print_pack_a_plain(gemm, out);
  } else if (gemm->a.along_k) {
    ptc_str_append(out,
                   "  for (int64_t i = i0; i < i1; ++i)\n"
                   "    eval_a(call, b, i, k0, k0 + depth, d + (i - i0) * pitch);\n"
                   "}\n\n");
  } else {
    print_pack_a_panels(gemm, out);
  }
}

// --- B
// Rows of neighbours along n are copied into the panels.
static void print_pack_b_rows(const gemm_t *gemm, ptc_str_t *out) {
  if (gemm->b.unit) {
    print_base(gemm, &gemm->b, out);
    const char *offset = gemm_offset_text(gemm, &gemm->k, &gemm->b.address, "(k0 + p)");
    ptc_str_printf(out,
                   "  for (int64_t p = 0; p < depth; ++p) {\n"
                   "    const float *const row = s + %s;\n"
                   "    // Rows far apart: no hardware prefetches across them.\n"
                   "    const float *const ahead = s + %s;\n"
                   "    int64_t j = j0;\n"
                   "    for (; j + NR <= j1; j += NR) {\n"
                   "      __builtin_prefetch(ahead + j);\n"
                   "      __builtin_memcpy(d + (j - j0) * depth + p * NR, row + j, NR * "
                   "sizeof(float));\n"
                   "    }\n"
                   "    for (int64_t q = 0; j < j1 && q < NR; ++q)\n"
                   "      d[(j - j0) * depth + p * NR + q] = j + q < j1 ? row[j + q] : 0;\n"
                   "  }\n"
                   "}\n\n",
                   offset,
                   gemm_offset_text(gemm, &gemm->k, &gemm->b.address, "least(k0 + p + 12, K - 1)"));
    return;
  }
  ptc_str_printf(out,
                 "  float stage[%" PRId64
                 "] = {0};\n"
                 "  for (int64_t p = 0; p < depth; ++p) {\n"
                 "    eval_b(call, b, k0 + p, j0, j1, stage);\n"
                 "    for (int64_t j = 0; j < j1 - j0; j += NR)\n"
                 "      __builtin_memcpy(d + j * depth + p * NR, stage + j, NR * sizeof(float));\n"
                 "  }\n"
                 "}\n\n",
                 gemm->nt);
}

// Rows of neighbours along k are transposed. Columns past the last repeat it: they are never stored.
static void print_pack_b_transposed(const gemm_t *gemm, ptc_str_t *out) {
  if (gemm->b.unit) {
    print_base(gemm, &gemm->b, out);
    ptc_str_printf(out,
                   "  for (int64_t j = j0; j < j1; j += NR, d += NR * depth) {\n"
                   "    const float *row[NR];\n"
                   "    for (int q = 0; q < NR; ++q) {\n"
                   "      const int64_t n = least(j + q, j1 - 1);\n"
                   "      row[q] = s + %s + k0;\n"
                   "    }\n"
                   "    transpose_rows(row, depth, d);\n"
                   "  }\n"
                   "}\n\n",
                   gemm_offset_text(gemm, &gemm->n, &gemm->b.address, "n"));
    return;
  }
  ptc_str_append(
      out,
      "  enum { PIECE = 128 };\n"
      "  float stage[NR][PIECE];\n"
      "  const float *row[NR];\n"
      "  for (int q = 0; q < NR; ++q) row[q] = stage[q];\n"
      "  for (int64_t j = j0; j < j1; j += NR, d += NR * depth)\n"
      "    for (int64_t p = 0; p < depth; p += PIECE) {\n"
      "      const int64_t piece = least(PIECE, depth - p);\n"
      "      for (int q = 0; q < NR; ++q)\n"
      "        eval_b(call, b, least(j + q, j1 - 1), k0 + p, k0 + p + piece, stage[q]);\n"
      "      transpose_rows(row, piece, d + p * NR);\n"
      "    }\n"
      "}\n\n");
}

void gemm_print_pack_b(const gemm_t *gemm, ptc_str_t *out) {
  if (!gemm->b.unit) print_eval(gemm, &gemm->b, out);
  ptc_str_append(
      out,
      "// Packs columns j0 .. j1 - 1 of B from k0 on.\n"
      "APART void pack_b(const ptc_kernel_call_t *call, int64_t b, int64_t j0, int64_t j1,\n"
      "                   int64_t k0, int64_t depth, float *restrict d) {\n");
  if (gemm->b.along_k)
    print_pack_b_transposed(gemm, out);
  else
    print_pack_b_rows(gemm, out);
}
