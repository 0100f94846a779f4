// square_sum and limbs_value: kernels of one op. What they do to limbs is text of c_limbs.c.
#include <inttypes.h>

#include "codegen/c_single.h"
#include "ir/limbs.h"

// 64 blocks and more in a tile; with several tiles a second phase adds their limbs.
void ptc_single_square_sum(ptc_c_single_t *s) {
  const ptc_kparam_t *x = ptc_single_param(s, false, 0);
  const ptc_dtype_t dtype = ptc_single_in(s, 0)->dtype;
  const char *from = ptc_single_name(s, false, 0), *to = ptc_single_name(s, true, 0);
  int64_t total = 1;
  for (int32_t d = 0; d < x->num_dims; ++d) total *= x->extents[d];
  int64_t per_tile = 32768;
  while (per_tile < (total + 1023) / 1024) per_tile *= 2;
  s->tiles = total > per_tile ? (total + per_tile - 1) / per_tile : 1;
  const bool many = s->tiles > 1;
  if (many) {
    s->last_tiles = 1;
    s->workspace_bytes = s->tiles * PTC_LIMBS * 8;
    ptc_single_line(s, 2, "int64_t *const workspace = call->params[%d];", s->kernel->num_params);
    ptc_single_line(s, 2, "if (phase == 1) {");
    ptc_single_line(s, 4, "memset(%s, 0, %d);", to, PTC_LIMBS * 8);
    ptc_single_line(s, 4, "for (int64_t t = 0; t < %" PRId64 "; ++t)", s->tiles);
    ptc_single_line(s, 6, "for (int k = 0; k < %d; ++k) %s[k] += workspace[t * %d + k];", PTC_LIMBS,
                    to, PTC_LIMBS);
    ptc_single_line(s, 4, "ptc_limbs_normalize(%s);", to);
    ptc_single_line(s, 4, "return;");
    ptc_single_line(s, 2, "}");
    ptc_single_line(s, 2, "int64_t *const limbs = workspace + tile * %d;", PTC_LIMBS);
  } else {
    ptc_single_line(s, 2, "int64_t *const limbs = %s;", to);
  }
  ptc_single_line(s, 2, "const int64_t first = tile * %" PRId64 ";", per_tile);
  ptc_single_line(s, 2,
                  "const int64_t last = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64
                  " : %" PRId64 ";",
                  per_tile, total, per_tile, total);
  ptc_single_line(s, 2, "double squares[PTC_BLOCK];");
  if (dtype != PTC_F64) ptc_single_line(s, 2, "float few[PTC_BLOCK];");
  if (dtype != PTC_F64) ptc_single_line(s, 2, "int top = 0;");
  ptc_single_line(s, 2, "memset(limbs, 0, %d);", PTC_LIMBS * 8);
  ptc_single_line(s, 2, "for (int64_t at = first; at < last; at += PTC_BLOCK) {");
  ptc_single_line(s, 4, "const int64_t n = last - at < PTC_BLOCK ? last - at : PTC_BLOCK;");
  if (dtype == PTC_F64) {
    ptc_single_line(s, 4, "for (int64_t i = 0; i < n; ++i) squares[i] = %s[at + i] * %s[at + i];",
                    from, from);
  } else {
    const char *element = ptc_arena_printf(s->arena, "%s[at + i]", from);
    ptc_single_line(s, 4, "const float *x = %s;",
                    dtype == PTC_F32 ? ptc_arena_printf(s->arena, "%s + at", from) : "few");
    ptc_single_line(s, 4, "if (x == few || n < PTC_BLOCK) {");
    ptc_single_line(s, 6, "for (int64_t i = 0; i < n; ++i) few[i] = %s;",
                    ptc_c_from_storage(s->arena, dtype, element));
    ptc_single_line(s, 6, "for (int64_t i = n; i < PTC_BLOCK; ++i) few[i] = 0;");
    ptc_single_line(s, 6, "x = few;");
    ptc_single_line(s, 4, "}");
    ptc_single_line(s, 4, "if (ptc_squares_block(x, limbs, &top)) continue;");
    ptc_single_line(s, 4, "for (int64_t i = 0; i < n; ++i) squares[i] = (double)x[i] * x[i];");
  }
  ptc_single_line(s, 4, "ptc_squares_any(squares, n, limbs);");
  ptc_single_line(s, 2, "}");
  if (!many) ptc_single_line(s, 2, "ptc_limbs_normalize(limbs);");
}

void ptc_single_limbs_value(ptc_c_single_t *s) {
  s->tiles = 1;
  ptc_single_line(s, 2, "%s[0] = ptc_limbs_value(%s);", ptc_single_name(s, true, 0),
                  ptc_single_name(s, false, 0));
}
