// The gradient of blocked attention as C: P is computed again from q, key and lse, block by block.
//   dval = P^T dout    dP = dout val^T    dz = P (keep dP - D), D = sum(dout out)
//   ds = dz * slope * scale    dq = ds key    dkey = ds^T q
//
// One tile is one point of the outer dims that q, key and val all have, and every CHUNKS-th block of rows: it
// walks blocks of rows, then blocks of keys, so that dq of a block of rows is complete at once while dkey and
// dval of all keys add up in memory of the tile. With several chunks these are partial sums, which a second
// phase adds in order. No tile writes what another writes, so nothing depends on the order of tiles.
#include <inttypes.h>

#include "codegen/c_attention_impl.h"

enum { GRAD_PANELS = 4, ENOUGH_TILES = 32, MOST_CHUNKS = 8 };

typedef struct grad_s {
  ptc_attention_c_t c;
  // Outer dims: of all three; the others that q has; that q lacks.
  ptc_dim_set_t shared, of_q, not_q;
  int64_t num_shared, panels, row_blocks, chunks;
  int64_t key_sets, val_sets;  // per shared point
  int64_t sum_floats;          // dkey and dval of one tile
  ptc_dim_set_t bias_outer, bias_inner,
      bias_rows;  // outer dims that dbias has and lacks; its row dims
  bool bias_attend;
} grad_t;

static const char *name_of(const grad_t *self, int32_t dim) {
  return ptc_c_index_name(self->c.arena, self->c.kernel, dim);
}

static int64_t extent_of(const grad_t *self, int32_t dim) {
  return self->c.kernel->dims[dim].extent;
}

static int64_t sets_of(const grad_t *self, const ptc_attention_tensor_t *tensor) {
  int64_t sets = 1;
  for (int32_t i = 0; i < self->of_q.count; ++i)
    if (ptc_attention_has(tensor, self->of_q.dims[i])) sets *= extent_of(self, self->of_q.dims[i]);
  for (int32_t i = 0; i < self->not_q.count; ++i)
    if (ptc_attention_has(tensor, self->not_q.dims[i]))
      sets *= extent_of(self, self->not_q.dims[i]);
  return sets;
}

static void split_outer(grad_t *self) {
  const ptc_attention_c_t *c = &self->c;
  for (int32_t i = 0; i < c->outer.count; ++i) {
    const int32_t dim = c->outer.dims[i];
    const bool q = ptc_attention_has(&c->q, dim);
    const bool all = q && ptc_attention_has(&c->key, dim) && ptc_attention_has(&c->val, dim);
    ptc_dim_set_t *set = all ? &self->shared : q ? &self->of_q : &self->not_q;
    set->dims[set->count++] = dim;
  }
  self->num_shared = ptc_dim_set_points(c->kernel, &self->shared);
  const int64_t panels = (c->num_rows + PTC_ATTENTION_PANEL - 1) / PTC_ATTENTION_PANEL;
  self->panels = panels < GRAD_PANELS ? (panels ? panels : 1) : GRAD_PANELS;
  self->row_blocks = (panels + self->panels - 1) / self->panels;
  int64_t chunks = self->num_shared ? (ENOUGH_TILES + self->num_shared - 1) / self->num_shared : 1;
  if (chunks > MOST_CHUNKS) chunks = MOST_CHUNKS;
  if (chunks > self->row_blocks) chunks = self->row_blocks ? self->row_blocks : 1;
  self->chunks = chunks;
  self->key_sets = sets_of(self, &c->key);
  self->val_sets = sets_of(self, &c->val);
  self->sum_floats = c->num_keys * (self->key_sets * c->dot_ld + self->val_sets * c->own_ld);
}

static void split_bias(grad_t *self) {
  const ptc_attention_c_t *c = &self->c;
  if (c->dbias.param < 0) return;
  for (int32_t i = 0; i < c->outer.count; ++i) {
    const int32_t dim = c->outer.dims[i];
    ptc_dim_set_t *set = ptc_attention_has(&c->dbias, dim) ? &self->bias_outer : &self->bias_inner;
    set->dims[set->count++] = dim;
  }
  for (int32_t i = 0; i < c->rows.count; ++i)
    if (ptc_attention_has(&c->dbias, c->rows.dims[i]))
      self->bias_rows.dims[self->bias_rows.count++] = c->rows.dims[i];
  self->bias_attend = ptc_attention_has(&c->dbias, c->at->attend);
}

// Sets the members of |at| for the dims of |set| from the number |from|, row-major.
static void print_decode(grad_t *self, const ptc_dim_set_t *set, const char *from, int32_t indent) {
  int64_t stride = 1;
  for (int32_t i = set->count - 1; i >= 0; --i) {
    const int32_t dim = set->dims[i];
    ptc_attention_printf(&self->c, "%*sat.%s = %s / %" PRId64 " %% %" PRId64 ";\n", indent, "",
                         name_of(self, dim), from, stride, extent_of(self, dim));
    stride *= extent_of(self, dim);
  }
}

// Loop heads over the dims of |set| that |only| has (NULL: all).
static int32_t print_loops(grad_t *self, const ptc_dim_set_t *set,
                           const ptc_attention_tensor_t *only, int32_t indent) {
  for (int32_t i = 0; i < set->count; ++i) {
    const int32_t dim = set->dims[i];
    if (only && !ptc_attention_has(only, dim)) continue;
    const char *name = name_of(self, dim);
    ptc_attention_printf(&self->c, "%*sfor (at.%s = 0; at.%s < %" PRId64 "; at.%s++)\n", indent, "",
                         name, name, extent_of(self, dim), name);
    indent += 2;
  }
  return indent;
}

// The number, row-major, of the set of keys (or values) of one shared point that |at| is in.
static const char *set_number(grad_t *self, const ptc_attention_tensor_t *tensor) {
  const char *text = "0";
  const ptc_dim_set_t *sets[] = {&self->of_q, &self->not_q};
  for (int s = 0; s < 2; ++s)
    for (int32_t i = 0; i < sets[s]->count; ++i) {
      const int32_t dim = sets[s]->dims[i];
      if (ptc_attention_has(tensor, dim))
        text = ptc_arena_printf(self->c.arena, "(%s * %" PRId64 " + at.%s)", text,
                                extent_of(self, dim), name_of(self, dim));
    }
  return text;
}

static void print_tile(grad_t *self) {
  ptc_attention_c_t *c = &self->c;
  ptc_attention_printf(
      c,
      "enum { KEY_SETS = %" PRId64 ", VAL_SETS = %" PRId64 ", CHUNKS = %" PRId64
      " };\n\n"
      "// Tile |tile| of phase 0; dkey and dval of its keys add up in |dkey| and |dval|.\n"
      "static bool gradient_tile(const ptc_kernel_call_t *call, int64_t tile, float "
      "*dkey, float *dval, bool careful) {\n"
      "  scratch_t *w = call->scratch;\n"
      "  const int64_t chunk = tile %% CHUNKS, point = tile / CHUNKS;\n"
      "  outer_t at = {.set = point};\n",
      self->key_sets, self->val_sets, self->chunks);
  print_decode(self, &self->shared, "point", 2);
  ptc_attention_printf(c,
                       "  memset(dkey, 0, sizeof(float) * KEY_SETS * KEYS * DOT_LD);\n"
                       "  memset(dval, 0, sizeof(float) * VAL_SETS * KEYS * OWN_LD);\n"
                       "  for (int64_t start = chunk * PANELS * PANEL; start < ROWS; start += "
                       "CHUNKS * PANELS * PANEL) {\n"
                       "    int panels;\n"
                       "    begin_rows(w, start, &panels);\n");
  const int32_t indent = print_loops(self, &self->of_q, NULL, 4);
  ptc_attention_printf(c,
                       "%*s{\n"
                       "%*s  bool with_q = true;\n"
                       "%*s  for (int n = 0; n < panels; n++) memset(w->panels[n].dq, 0, sizeof "
                       "w->panels[n].dq);\n",
                       indent, "", indent, "", indent, "");
  const int32_t deep = print_loops(self, &self->not_q, NULL, indent + 2);
  ptc_attention_printf(
      c,
      "%*s{\n"
      "%*s  float *key_sum = dkey + (int64_t)%s * KEYS * DOT_LD;\n"
      "%*s  float *val_sum = dval + (int64_t)%s * KEYS * OWN_LD;\n"
      "%*s  load_rows(call, &at, w, panels, with_q);\n"
      "%*s  with_q = false;\n"
      "%*s  for (int64_t t = 0; t < KEYS; t += BLOCK)\n"
      "%*s    block_gradient(call, &at, w, panels, t, KEYS - t < BLOCK ? KEYS - t : "
      "BLOCK,\n"
      "%*s                   key_sum + t * DOT_LD, val_sum + t * OWN_LD, careful);\n"
      "%*s}\n",
      deep, "", deep, "", set_number(self, &c->key), deep, "", set_number(self, &c->val), deep, "",
      deep, "", deep, "", deep, "", deep, "", deep, "");
  ptc_attention_printf(c,
                       "%*s  if (!finish_rows(call, &at, w, panels, careful)) return false;\n"
                       "%*s}\n"
                       "  }\n"
                       "  return careful || (all_finite(dkey, KEY_SETS * KEYS * DOT_LD) &&\n"
                       "                     all_finite(dval, VAL_SETS * KEYS * OWN_LD));\n"
                       "}\n\n",
                       indent, "", indent, "");
}

// Stores the sums |x| of the keys start..start+keys-1 of every set of one shared point.
static void print_store_sums(grad_t *self, const char *name, const char *store,
                             const ptc_attention_tensor_t *tensor, const char *ld) {
  ptc_attention_c_t *c = &self->c;
  ptc_attention_printf(
      c,
      "static void %s(const ptc_kernel_call_t *call, int64_t point, int64_t start, "
      "int64_t keys, const float *x, int64_t distance) {\n"
      "  outer_t at = {.set = point};\n",
      name);
  print_decode(self, &self->shared, "point", 2);
  int32_t indent = print_loops(self, &self->of_q, tensor, 2);
  indent = print_loops(self, &self->not_q, tensor, indent);
  ptc_attention_printf(c,
                       "%*s%s(call, &at, start, keys, x + (int64_t)%s * distance * %s);\n"
                       "}\n\n",
                       indent, "", store, set_number(self, tensor), ld);
}

// Phase 1: partial sums of the chunks, added in order.
static const char add_chunks_text[] =
    "// Adds what the chunks of |point| have for the keys from |start| on, in order.\n"
    "static void add_chunks(const ptc_kernel_call_t *call, int64_t point, int64_t start, int64_t "
    "keys) {\n"
    "  const float *all = (const float *)call->params[PARAMS] + point * CHUNKS * SUM_FLOATS;\n"
    "  float *dkey = call->scratch, *dval = dkey + KEY_SETS * BLOCK * DOT_LD;\n"
    "  for (int64_t set = 0; set < KEY_SETS + VAL_SETS; set++) {\n"
    "    const bool of_key = set < KEY_SETS;\n"
    "    const int64_t ld = of_key ? DOT_LD : OWN_LD, number = of_key ? set : set - KEY_SETS;\n"
    "    const float *from = all + (of_key ? 0 : KEY_SETS * KEYS * DOT_LD) + (number * KEYS + "
    "start) * ld;\n"
    "    float *to = (of_key ? dkey : dval) + number * BLOCK * ld;\n"
    "    for (int64_t i = 0; i < keys * ld; i++) {\n"
    "      float sum = from[i];\n"
    "      for (int64_t chunk = 1; chunk < CHUNKS; chunk++) sum += from[chunk * SUM_FLOATS + i];\n"
    "      to[i] = sum;\n"
    "    }\n"
    "  }\n"
    "  store_keys(call, point, start, keys, dkey, BLOCK);\n"
    "  store_vals(call, point, start, keys, dval, BLOCK);\n"
    "}\n\n";

// Phase of the bias: a tile owns the elements of one point of its outer dims and one block of keys.
static void print_bias(grad_t *self) {
  ptc_attention_c_t *c = &self->c;
  const int64_t rows = ptc_dim_set_points(c->kernel, &self->bias_rows);
  const char *row = "0";
  for (int32_t i = 0; i < self->bias_rows.count; ++i) {
    const int32_t dim = self->bias_rows.dims[i];
    row = ptc_arena_printf(c->arena, "(%s * %" PRId64 " + rows->%s[i])", row, extent_of(self, dim),
                           name_of(self, dim));
  }
  ptc_attention_printf(
      c,
      "enum { BIAS_ROWS = %" PRId64
      ", BIAS_KEYS = %s };\n\n"
      "static void add_bias_gradient(const rows_t *rows, const float *dz, int64_t first, int64_t "
      "last, "
      "double *sum) {\n"
      "  for (int i = 0; i < rows->count; i++) {\n"
      "    double *to = sum + (int64_t)%s * BIAS_KEYS;\n"
      "    for (int64_t t = first; t < last; t++) to[%s] += dz[(t - first) * PANEL + i];\n"
      "  }\n"
      "}\n\n",
      rows, self->bias_attend ? "BLOCK" : "1", row, self->bias_attend ? "t" : "0");
  ptc_attention_printf(c,
                       "static void bias_block(const ptc_kernel_call_t *call, const outer_t *at, "
                       "scratch_t *w, int panels,\n"
                       "                       int64_t start, int64_t keys, double *sum) {\n"
                       "  load_key(call, at, start, keys, w->key);\n"
                       "  load_val(call, at, start, keys, w->val);\n"
                       "  for (int n = 0; n < panels; n++) {\n"
                       "    int64_t first = 0, last = keys;\n"
                       "    const void *mixed = NULL;\n");
  if (c->at->mask != PTC_KX_NONE)
    ptc_attention_printf(c,
                         "    kinds_t kinds;\n"
                         "    sub_kinds(call, at, &w->panels[n].range, start, keys, &kinds);\n"
                         "    first = kinds.first;\n"
                         "    last = kinds.last;\n"
                         "    if (!last) continue;\n"
                         "    mixed = &kinds;\n");
  ptc_attention_printf(
      c,
      "    panel_gradient(call, at, w, n, start, first, last, mixed, w->dz);\n"
      "    add_bias_gradient(&w->rows[n], w->dz, first, last, sum);\n"
      "  }\n"
      "}\n\n"
      "static void bias_tile(const ptc_kernel_call_t *call, int64_t tile) {\n"
      "  scratch_t *w = call->scratch;\n"
      "  double *sum = (double *)(w + 1);\n"
      "  const int64_t blocks = BIAS_KEYS == 1 ? 1 : (KEYS + BLOCK - 1) / BLOCK;\n"
      "  const int64_t point = tile / blocks, block = tile %% blocks * BLOCK;\n"
      "  const int64_t end = BIAS_KEYS == 1 || KEYS - block < BLOCK ? KEYS : block + "
      "BLOCK;\n"
      "  outer_t at = {.set = point};\n"
      "  memset(sum, 0, sizeof(double) * BIAS_ROWS * BIAS_KEYS);\n");
  print_decode(self, &self->bias_outer, "point", 2);
  ptc_attention_printf(c,
                       "  for (int64_t start = 0; start < ROWS; start += PANELS * PANEL) {\n"
                       "    int panels;\n"
                       "    begin_rows(w, start, &panels);\n");
  const int32_t indent = print_loops(self, &self->bias_inner, NULL, 4);
  ptc_attention_printf(
      c,
      "%*s{\n"
      "%*s  load_rows(call, &at, w, panels, true);\n"
      "%*s  for (int64_t t = block; t < end; t += BLOCK)\n"
      "%*s    bias_block(call, &at, w, panels, t, end - t < BLOCK ? end - t : BLOCK, "
      "sum);\n"
      "%*s}\n"
      "  }\n",
      indent, "", indent, "", indent, "", indent, "", indent, "");
  // The stores: at.* of the outer dims, index variables of rows and keys.
  const char *type = ptc_c_storage_type(c->dbias.dtype);
  ptc_attention_printf(c, "  %s *p = call->params[%d];\n", type, c->dbias.param);
  for (int32_t i = 0; i < self->bias_outer.count; ++i)
    ptc_attention_printf(c, "  p += at.%s * %" PRId64 ";\n",
                         name_of(self, self->bias_outer.dims[i]),
                         c->dbias.address.coef[self->bias_outer.dims[i]]);
  ptc_attention_printf(c,
                       "  for (int64_t row = 0; row < BIAS_ROWS; row++) {\n"
                       "    int64_t left = row, place = 0;\n");
  for (int32_t i = self->bias_rows.count - 1; i >= 0; --i) {
    const int32_t dim = self->bias_rows.dims[i];
    ptc_attention_printf(
        c, "    place += left %% %" PRId64 " * %" PRId64 ";\n    left /= %" PRId64 ";\n",
        extent_of(self, dim), c->dbias.address.coef[dim], extent_of(self, dim));
  }
  ptc_attention_printf(
      c,
      "    for (int64_t t = 0; t < (BIAS_KEYS == 1 ? 1 : end - block); t++)\n"
      "      p[place + (block + t) * %" PRId64
      "] = %s;\n"
      "  }\n"
      "}\n\n",
      self->bias_attend ? c->dbias.address.coef[c->at->attend] : 0,
      ptc_c_to_storage(c->arena, c->dbias.dtype, "(float)sum[row * BIAS_KEYS + t]"));
}

static void print_source(grad_t *self) {
  ptc_attention_c_t *c = &self->c;
  ptc_c_comment(c->out, c->kernel);
  ptc_c_prelude(c->out, c->kernel);
  ptc_attention_print_types(c, self->panels);
  ptc_attention_text(c, ptc_attention_vectors);
  if (c->softcap > 0) {
    ptc_attention_text(c, ptc_attention_cap);
    ptc_attention_text(c, ptc_attention_cap_slope);
  }
  ptc_attention_text(c, ptc_attention_panels);
  ptc_attention_text(c, ptc_attention_key_sums);
  ptc_attention_print_rows(c, "load_q", &c->q, false);
  ptc_attention_print_keys(c, "load_key", &c->key, false);
  ptc_attention_print_keys(c, "load_val", &c->val, false);
  ptc_attention_print_rows(c, "load_out", &c->out_tensor, false);
  ptc_attention_print_rows(c, "load_dout", &c->dout, false);
  ptc_attention_print_scalars(c, "load_lse", &c->lse, false);
  ptc_attention_print_rows(c, "store_dq", &c->dq, true);
  ptc_attention_print_keys(c, "store_dkey", &c->dkey, true);
  ptc_attention_print_keys(c, "store_dval", &c->dval, true);
  ptc_attention_print_scores(c);
  ptc_attention_text(c, ptc_attention_backward);
  print_tile(self);
  print_store_sums(self, "store_keys", "store_dkey", &c->dkey, "DOT_LD");
  print_store_sums(self, "store_vals", "store_dval", &c->dval, "OWN_LD");
  if (self->chunks > 1) {
    ptc_attention_printf(c, "enum { PARAMS = %d };\n#define SUM_FLOATS INT64_C(%" PRId64 ")\n\n",
                         c->kernel->num_params, self->sum_floats);
    ptc_attention_printf(c, "%s", add_chunks_text);
  }
  if (c->dbias.param >= 0) print_bias(self);
}

static int64_t scratch_struct_bytes(const grad_t *self) {
  const ptc_attention_c_t *c = &self->c;
  const int64_t panel = PTC_ATTENTION_PANEL, block = PTC_ATTENTION_BLOCK;
  const int64_t floats = block * (c->dot_ld + c->own_ld) +
                         self->panels * panel * (c->dot_ld + c->own_ld) + panel * c->own_ld +
                         2 * self->panels * block * panel + 4 * block * panel + panel +
                         self->panels * panel * (2 * c->dot_ld + c->own_ld + 3);
  return (4 * floats + self->panels * ptc_attention_rows_bytes(c) + 256 + 63) / 64 * 64;
}

// Phase numbers: 0 the tiles, then the sum over chunks if there are several, then the bias.
static void print_entry(grad_t *self, ptc_kernel_shape_t *shape, int64_t struct_bytes) {
  ptc_attention_c_t *c = &self->c;
  const int64_t key_blocks = (c->num_keys + PTC_ATTENTION_BLOCK - 1) / PTC_ATTENTION_BLOCK;
  int phase = 1;
  ptc_attention_print_entry(c);
  ptc_attention_printf(c,
                       "  _Static_assert(sizeof(scratch_t) <= %" PRId64
                       ", \"scratch\");\n"
                       "  if (phase == 0) {\n",
                       struct_bytes);
  if (self->chunks > 1)
    ptc_attention_printf(c,
                         "    float *dkey = (float *)call->params[PARAMS] + tile * SUM_FLOATS;\n");
  else
    ptc_attention_printf(c, "    float *dkey = (float *)((char *)call->scratch + %" PRId64 ");\n",
                         struct_bytes);
  ptc_attention_printf(
      c,
      "    float *dval = dkey + (int64_t)KEY_SETS * KEYS * DOT_LD;\n"
      "    if (!gradient_tile(call, tile, dkey, dval, false)) gradient_tile(call, tile, "
      "dkey, dval, true);\n");
  if (self->chunks == 1)
    ptc_attention_printf(c,
                         "    store_keys(call, tile, 0, KEYS, dkey, KEYS);\n"
                         "    store_vals(call, tile, 0, KEYS, dval, KEYS);\n");
  ptc_attention_printf(c, "    return;\n  }\n");
  ptc_attention_add_phase(c, shape, self->num_shared * self->chunks);
  if (self->chunks > 1) {
    ptc_attention_printf(c,
                         "  if (phase == %d) {\n"
                         "    const int64_t start = tile %% %" PRId64
                         " * BLOCK;\n"
                         "    add_chunks(call, tile / %" PRId64
                         ", start, KEYS - start < BLOCK ? KEYS - start : BLOCK);\n"
                         "    return;\n  }\n",
                         phase++, key_blocks, key_blocks);
    ptc_attention_add_phase(c, shape, self->num_shared * key_blocks);
  }
  if (c->dbias.param >= 0) {
    ptc_attention_printf(c, "  if (phase == %d) bias_tile(call, tile);\n", phase);
    ptc_attention_add_phase(
        c, shape,
        ptc_dim_set_points(c->kernel, &self->bias_outer) * (self->bias_attend ? key_blocks : 1));
  }
  ptc_attention_printf(c, "}\n");
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

ptc_status_t ptc_c_attention_grad(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                                  const ptc_c_target_t *target, ptc_str_t *out,
                                  ptc_kernel_shape_t *out_shape) {
  (void)target;
  grad_t self = {0};
  PTC_TRY(ptc_attention_roles(&self.c, diag, arena, kernel, out));
  split_outer(&self);
  split_bias(&self);
  print_source(&self);
  const int64_t bytes = scratch_struct_bytes(&self);
  int64_t behind = self.chunks > 1 ? 0 : 4 * self.sum_floats;
  if (self.c.dbias.param >= 0)
    behind = larger(behind, 8 * ptc_dim_set_points(self.c.kernel, &self.bias_rows) *
                                (self.bias_attend ? PTC_ATTENTION_BLOCK : 1));
  const int64_t sums =
      4 * PTC_ATTENTION_BLOCK * (self.key_sets * self.c.dot_ld + self.val_sets * self.c.own_ld);
  out_shape->scratch_bytes = larger(bytes + behind, self.chunks > 1 ? sums : 0);
  out_shape->workspace_bytes =
      self.chunks > 1 ? 4 * self.sum_floats * self.num_shared * self.chunks : 0;
  print_entry(&self, out_shape, bytes);
  return PTC_OK;
}
