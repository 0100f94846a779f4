// Blocked attention as C (Dao et al. 2022, arXiv:2205.14135): scores of a block of rows and keys, softmax
// kept up to date block by block, weighted values added up; no scores are stored.
//
// Layout: 16 rows of scores side by side in the vector lanes, so that softmax needs no sums across lanes and
// keys and values are read as they lie, one broadcast number at a time. Every product is one register tile of
// 6 x 16 numbers. A result depends on blocks of BLOCK keys in order, never on the block of rows it is in.
#include <inttypes.h>

#include "codegen/c_attention_impl.h"

void ptc_attention_text(ptc_attention_c_t *self, const char *const *text) {
  for (; *text; ++text) {
    for (const char *line = *text; *line;) {
      const char *end = line;
      while (*end && *end != '\n') ++end;
      if (*end) ++end;
      const bool conditional = line[0] == '@';
      bool wanted = !conditional;
      for (const char *flag = self->flags; conditional && *flag; ++flag) wanted |= *flag == line[1];
      if (wanted) {
        const char *from = conditional ? line + 2 : line;
        ptc_str_append_n(self->out, from, (size_t)(end - from));
      }
      line = end;
    }
  }
}

// Panels of a block of rows: as many as leave enough tiles for all cores.
static int64_t panels_of(const ptc_attention_c_t *self) {
  enum { MOST = 8, ENOUGH_TILES = 32 };
  int64_t panels = MOST;
  while (panels > 1) {
    const int64_t rows = panels * PTC_ATTENTION_PANEL;
    const int64_t blocks = (self->num_rows + rows - 1) / rows;
    if (blocks * self->num_outer >= ENOUGH_TILES && rows / 2 < self->num_rows) break;
    panels /= 2;
  }
  return panels;
}

ptc_status_t ptc_c_attention(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                             const ptc_c_target_t *target, ptc_str_t *out,
                             ptc_kernel_shape_t *out_shape) {
  (void)target;
  ptc_attention_c_t self;
  PTC_TRY(ptc_attention_roles(&self, diag, arena, kernel, out));
  const int64_t panels = panels_of(&self), rows = panels * PTC_ATTENTION_PANEL;
  const int64_t blocks = (self.num_rows + rows - 1) / rows;
  ptc_c_comment(out, kernel);
  ptc_c_prelude(out, self.kernel);
  ptc_attention_print_types(&self, panels);
  ptc_attention_text(&self, ptc_attention_vectors);
  if (self.softcap > 0) ptc_attention_text(&self, ptc_attention_cap);
  ptc_attention_text(&self, ptc_attention_panels);
  ptc_attention_print_rows(&self, "load_q", &self.q, false);
  ptc_attention_print_keys(&self, "load_key", &self.key, false);
  ptc_attention_print_keys(&self, "load_val", &self.val, false);
  ptc_attention_print_rows(&self, "store_out", &self.out_tensor, true);
  ptc_attention_print_scalars(&self, "store_lse", &self.lse, true);
  ptc_attention_print_scores(&self);
  ptc_attention_text(&self, ptc_attention_forward);
  const int64_t longer = self.dot_ld > self.own_ld ? self.dot_ld : self.own_ld;
  int64_t floats = PTC_ATTENTION_BLOCK * (self.dot_ld + self.own_ld + 2 * PTC_ATTENTION_PANEL) +
                   PTC_ATTENTION_PANEL * (longer + 1) +
                   panels * PTC_ATTENTION_PANEL * (self.dot_ld + self.own_ld + 3);
  out_shape->scratch_bytes = 4 * floats + panels * ptc_attention_rows_bytes(&self) + 256;
  ptc_attention_print_entry(&self);
  ptc_attention_printf(&self,
                       "  _Static_assert(sizeof(scratch_t) <= %" PRId64
                       ", \"scratch\");\n"
                       "  (void)phase;\n"
                       "  const outer_t at = outer_at(tile / %" PRId64
                       ");\n"
                       "  const int64_t start = tile %% %" PRId64
                       " * (PANELS * PANEL);\n"
                       "  if (!attend_rows(call, &at, start, false)) attend_rows(call, &at, start, "
                       "true);\n"
                       "}\n",
                       out_shape->scratch_bytes, blocks ? blocks : 1, blocks ? blocks : 1);
  ptc_attention_add_phase(&self, out_shape, blocks * self.num_outer);
  return PTC_OK;
}
