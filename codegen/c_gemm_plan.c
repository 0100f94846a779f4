// Block sizes, packing and workspace of a GEMM: from shapes and operands alone.
#include <inttypes.h>

#include "codegen/c_gemm_impl.h"

// The depth of a block of k. 6 rows of A (18 KiB) stay in L1, a strip of B of 64 columns (192 KiB) in L2.
enum { MAX_DEPTH = 768, STRIP_FLOATS = 49152, MAX_STRIP = 256 };
// Rows of a tile. Where its sums pass through several blocks of k they stay in L2, too, unless each tile
// packs B for itself.
enum { TILE_ROWS = 1024, TILE_ROWS_OF_BLOCKS = 256 };
// Packed A of one chunk, in floats: 5 MiB, so that it stays in L3 between the two phases.
enum { PACK_BUDGET = 5 << 18 };
// Packed B of one chunk: 16 MiB.
enum { PACK_B_BUDGET = 4 << 20 };
// A tile of the pack phase: floats, and the depth where A is packed as panels.
enum { PACK_TILE = 64 << 10, PACK_DEPTH = 128 };
// As many tiles as keep 16 threads busy, where each has enough to do.
enum { WANTED_TILES = 16 };
static const double min_tile_flops = 2e6, one_phase_flops = 2e7;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// --- addresses by role
bool gemm_role_stride(const ptc_kernel_t *kernel, const gemm_role_t *role,
                      const ptc_c_affine_t *address, int64_t *out_stride) {
  *out_stride = 0;
  if (!role->num_dims) return true;
  int64_t expect = address->coef[role->dims[role->num_dims - 1]];
  *out_stride = expect;
  for (int32_t i = role->num_dims - 1; i >= 0; --i) {
    if (address->coef[role->dims[i]] != expect) return false;
    expect *= kernel->dims[role->dims[i]].extent;
  }
  return true;
}

const char *gemm_offset_text(const gemm_t *gemm, const gemm_role_t *role,
                             const ptc_c_affine_t *address, const char *index) {
  int64_t stride;
  if (gemm_role_stride(gemm->kernel, role, address, &stride)) {
    if (stride == 0) return "0";
    if (stride == 1) return index;
    return ptc_arena_printf(gemm->arena, "%s * %" PRId64, index, stride);
  }
  const char *text = "";
  int64_t below = 1;
  for (int32_t i = role->num_dims - 1; i >= 0; --i) {
    const int64_t extent = gemm->kernel->dims[role->dims[i]].extent;
    const int64_t coef = address->coef[role->dims[i]];
    const char *place =
        below == 1 ? index : ptc_arena_printf(gemm->arena, "%s / %" PRId64, index, below);
    if (i > 0) place = ptc_arena_printf(gemm->arena, "%s %% %" PRId64, place, extent);
    if (coef)
      text =
          ptc_arena_printf(gemm->arena, "%s%s%s * %" PRId64, text, *text ? " + " : "", place, coef);
    below *= extent;
  }
  return *text ? ptc_arena_printf(gemm->arena, "(%s)", text) : "0";
}

// --- roles
// The dims of |mask|, outermost first: by falling stride in |address|, ties in the order of the loop dims.
static gemm_role_t make_role(const ptc_kernel_t *kernel, const char *name, uint32_t mask,
                             const ptc_c_affine_t *address) {
  gemm_role_t role = {.name = name, .extent = 1};
  for (int32_t d = 0; d < kernel->num_dims; ++d) {
    if (!(mask >> d & 1) || kernel->dims[d].extent == 1) continue;
    role.extent *= kernel->dims[d].extent;
    int32_t at = role.num_dims++;
    for (; at > 0 && address->coef[role.dims[at - 1]] < address->coef[d]; --at)
      role.dims[at] = role.dims[at - 1];
    role.dims[at] = d;
  }
  return role;
}

// --- operands
static int64_t num_elements(const ptc_kparam_t *param) {
  int64_t n = 1;
  for (int32_t i = 0; i < param->num_dims; ++i) n *= param->extents[i];
  return n;
}

// Marks in |seen| what |root| is computed from.
static bool *reach(const gemm_t *gemm, ptc_kx_t root) {
  const ptc_kernel_t *kernel = gemm->kernel;
  bool *seen = PTC_ARENA_ARRAY(gemm->arena, bool, kernel->num_exprs);
  seen[root] = true;
  for (ptc_kx_t i = root; i >= 0; --i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!seen[i]) continue;
    for (int32_t j = 0; j < e->num_args; ++j) seen[e->args[j]] = true;
    if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE) seen[e->guard] = true;
  }
  return seen;
}

// The address of the largest parameter that |root| loads: its layout decides.
static ptc_c_affine_t main_address(const gemm_t *gemm, ptc_kx_t root) {
  const ptc_kernel_t *kernel = gemm->kernel;
  const bool *seen = reach(gemm, root);
  const ptc_kexpr_t *best = NULL;
  for (ptc_kx_t i = 0; i <= root; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (seen[i] && e->kind == PTC_KX_LOAD &&
        (!best ||
         num_elements(&kernel->params[e->param]) > num_elements(&kernel->params[best->param])))
      best = e;
  }
  return best ? ptc_c_address(kernel, best->param, best->args) : (ptc_c_affine_t){0};
}

static bool is_plain(const ptc_kernel_t *kernel, ptc_kx_t expr) {
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  return e->kind == PTC_KX_LOAD && e->guard == PTC_KX_NONE && !e->checked &&
         kernel->params[e->param].dtype == PTC_F32 &&
         ptc_c_address(kernel, e->param, e->args).num_terms == 0;
}

static int64_t inner_coef(const gemm_role_t *role, const ptc_c_affine_t *address) {
  return role->num_dims ? address->coef[role->dims[role->num_dims - 1]] : 0;
}

static void describe_operand(const gemm_t *gemm, ptc_kx_t expr, const char *name,
                             const gemm_role_t *rows, gemm_operand_t *op) {
  const ptc_kernel_t *kernel = gemm->kernel;
  *op = (gemm_operand_t){.expr = expr, .name = name, .rows = rows};
  op->plain = is_plain(kernel, expr);
  op->address = main_address(gemm, expr);
  if (op->plain) op->param = kernel->exprs[expr].param;
  // Where neither is a neighbour, rows along k need no staging in A; of B a short k is the worse loop.
  op->along_k = inner_coef(&gemm->k, &op->address) == 1 || gemm->k.extent == 1;
  if (inner_coef(rows, &op->address) != 1 && rows->extent <= gemm->k.extent) op->along_k = true;
  const gemm_role_t *along = op->along_k ? &gemm->k : rows;
  int64_t stride;
  op->unit = op->plain && gemm_role_stride(kernel, along, &op->address, &stride) &&
             (stride == 1 || along->extent == 1);
}

// --- what cannot be printed
static ptc_status_t unsupported(ptc_diag_t *diag, const ptc_kernel_t *kernel, const char *what) {
  return ptc_error(diag, kernel->loc, PTC_INVALID_INPUT, "codegen-unsupported",
                   "kernel \"%s\" (%s): %s", kernel->name, kernel->about, what);
}

static bool holds_reduce(const gemm_t *gemm, ptc_kx_t root) {
  const bool *seen = reach(gemm, root);
  for (ptc_kx_t i = 0; i <= root; ++i)
    if (seen[i] && gemm->kernel->exprs[i].kind == PTC_KX_REDUCE) return true;
  return false;
}

static ptc_status_t check_operand(ptc_diag_t *diag, const gemm_t *gemm, ptc_kx_t expr) {
  const ptc_kernel_t *kernel = gemm->kernel;
  const ptc_dtype_t dtype = kernel->exprs[expr].dtype;
  if (dtype != PTC_F32 && dtype != PTC_BF16 && dtype != PTC_F16)
    return unsupported(diag, kernel,
                       "products of f64 or integers are not summed by a GEMM; use a nest");
  if (holds_reduce(gemm, expr))
    return unsupported(diag, kernel, "a reduction in an operand of a GEMM; make it a kernel");
  return PTC_OK;
}

static ptc_status_t check_store(ptc_diag_t *diag, const gemm_t *gemm, const ptc_kstore_t *store) {
  const ptc_kernel_t *kernel = gemm->kernel;
  const ptc_gemm_t *roles = &kernel->gemm;
  uint32_t varies = kernel->exprs[store->value].varies;
  for (int32_t i = 0; i < kernel->params[store->param].num_dims; ++i)
    varies |= kernel->exprs[store->index[i]].varies;
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    if (kernel->dims[d].extent > 1 && ((roles->batch | roles->m | roles->n) >> d & 1) &&
        !(varies >> d & 1))
      return unsupported(diag, kernel, "a store that does not vary over every dim of the sums");
  if (varies & roles->k) return unsupported(diag, kernel, "a store that varies over a summed dim");
  if (holds_reduce(gemm, store->value))
    return unsupported(diag, kernel, "a reduction in the epilogue of a GEMM; make it a kernel");
  return PTC_OK;
}

static ptc_status_t check(ptc_diag_t *diag, const gemm_t *gemm) {
  const ptc_kernel_t *kernel = gemm->kernel;
  ptc_status_t status = check_operand(diag, gemm, kernel->gemm.a);
  if (status == PTC_OK) status = check_operand(diag, gemm, kernel->gemm.b);
  if (status == PTC_OK && !kernel->num_stores)
    status = unsupported(diag, kernel, "a GEMM without a store");
  for (int32_t i = 0; i < kernel->num_stores && status == PTC_OK; ++i)
    status = check_store(diag, gemm, &kernel->stores[i]);
  return status;
}

// --- modes
// The output is the sum itself, a matrix with rows of contiguous n at one distance.
static bool stores_plain_sum(const gemm_t *gemm, const ptc_c_affine_t *out) {
  const ptc_kernel_t *kernel = gemm->kernel;
  const ptc_kstore_t *store = &kernel->stores[0];
  const ptc_kparam_t *param = &kernel->params[store->param];
  int64_t stride;
  return kernel->num_stores == 1 && kernel->exprs[store->value].kind == PTC_KX_HOLE &&
         param->dtype == PTC_F32 && param->mode == PTC_KPARAM_OUT && param->in_place < 0 &&
         !out->num_terms && gemm_role_stride(kernel, &gemm->m, out, &stride) &&
         gemm_role_stride(kernel, &gemm->n, out, &stride) && (stride == 1 || gemm->n.extent == 1);
}

// Reading B in place pays where it is used by one panel of rows, or is small enough for L1 and L2.
static bool reads_b_in_place(const gemm_t *gemm) {
  int64_t stride;
  if (!gemm->b.unit || gemm->b.along_k ||
      !gemm_role_stride(gemm->kernel, &gemm->k, &gemm->b.address, &stride))
    return false;
  return gemm->m.extent <= 6 || gemm->k.extent * stride <= (16 << 10);
}

// A block of k of all of B may be packed at once.
static bool fits_packed(const gemm_t *gemm) {
  return round_up(gemm->n.extent, GEMM_COLS) * gemm->kc <= PACK_B_BUDGET;
}

static void choose_modes(gemm_t *gemm) {
  int64_t stride;
  const double flops = 2.0 * (double)gemm->batch.extent * (double)gemm->m.extent *
                       (double)gemm->n.extent * (double)gemm->k.extent;
  const bool one_phase = flops < one_phase_flops;
  if (gemm->a.unit && gemm->a.along_k &&
      gemm_role_stride(gemm->kernel, &gemm->m, &gemm->a.address, &stride))
    gemm->a_mode = GEMM_A_DIRECT;
  else
    gemm->a_mode = one_phase || gemm->nt >= gemm->n.extent ? GEMM_A_OWN : GEMM_A_SHARED;
  if (reads_b_in_place(gemm))
    gemm->b_mode = GEMM_B_DIRECT;
  else
    gemm->b_mode =
        one_phase || gemm->mt >= gemm->m.extent || !fits_packed(gemm) ? GEMM_B_OWN : GEMM_B_SHARED;
}

// --- sizes
static int64_t num_tiles(const gemm_t *gemm) {
  return ceil_div(gemm->batch.extent, gemm->bt) * ceil_div(gemm->m.extent, gemm->mt) *
         ceil_div(gemm->n.extent, gemm->nt);
}

static double tile_flops(const gemm_t *gemm) {
  return 2.0 * (double)gemm->bt * (double)min64(gemm->mt, gemm->m.extent) *
         (double)min64(gemm->nt, gemm->n.extent) * (double)gemm->k.extent;
}

// |extent| in |count| even parts that are multiples of |unit|.
static int64_t even_part(int64_t extent, int64_t count, int64_t unit) {
  return round_up(ceil_div(extent, count), unit);
}

static void choose_tiles(gemm_t *gemm) {
  const int64_t m = gemm->m.extent, n = gemm->n.extent, k = gemm->k.extent;
  gemm->kc = even_part(k, ceil_div(k, MAX_DEPTH), 8);
  const int64_t strip =
      max64(GEMM_COLS, min64(MAX_STRIP, STRIP_FLOATS / gemm->kc / GEMM_COLS * GEMM_COLS));
  gemm->nt = even_part(n, ceil_div(n, strip), GEMM_COLS);
  const bool revisits = gemm->kc < k && fits_packed(gemm);
  const int64_t rows = revisits ? TILE_ROWS_OF_BLOCKS : TILE_ROWS;
  gemm->mt = even_part(m, max64(1, (m + rows / 2) / rows), GEMM_ROWS);
  gemm->bt = 1;
  while (num_tiles(gemm) < WANTED_TILES && tile_flops(gemm) > 2 * min_tile_flops) {
    if (gemm->mt > TILE_ROWS_OF_BLOCKS)
      gemm->mt = even_part(gemm->mt, 2, GEMM_ROWS);
    else if (gemm->nt > GEMM_COLS)
      gemm->nt = even_part(gemm->nt, 2, GEMM_COLS);
    else if (gemm->mt > 4 * GEMM_ROWS)
      gemm->mt = even_part(gemm->mt, 2, GEMM_ROWS);
    else
      break;
  }
  while (gemm->bt < gemm->batch.extent && tile_flops(gemm) < min_tile_flops / 4 &&
         num_tiles(gemm) > 2 * WANTED_TILES)
    gemm->bt *= 2;
}

// An odd number of vectors: a row is written to many panels, which must not share sets of L1.
int64_t gemm_panel_pitch(int64_t depth) { return (ceil_div(depth, 8) | 1) * 8; }

static int64_t packed_a(const gemm_t *gemm) {
  if (gemm->a_mode != GEMM_A_SHARED) return 0;
  const int64_t depth = gemm->a.along_k ? ceil_div(gemm->k_chunk, gemm->kc) * gemm->a_row
                                        : gemm_panel_pitch(gemm->k_chunk);
  return gemm->batch_chunk * round_up(gemm->m_chunk, GEMM_ROWS) * depth;
}

static int64_t packed_b(const gemm_t *gemm) {
  if (gemm->b_mode != GEMM_B_SHARED) return 0;
  return gemm->batch_chunk * round_up(gemm->n.extent, GEMM_COLS) *
         ceil_div(gemm->k_chunk, gemm->kc) * gemm->kc;
}

static bool too_large(const gemm_t *gemm) {
  return packed_a(gemm) > PACK_BUDGET || packed_b(gemm) > PACK_B_BUDGET;
}

// Cuts batches, rows down to two tiles, k, and rows again, until what is packed fits.
static void choose_chunks(gemm_t *gemm) {
  gemm->batch_chunk = gemm->batch.extent;
  gemm->m_chunk = gemm->m.extent;
  gemm->k_chunk = gemm->k.extent;
  gemm->a_row = round_up(gemm->kc, 16);
  // Rows at a multiple of 4 KiB would share few sets of L1.
  if (gemm->a_row % 256 == 0) gemm->a_row += 16;
  while (too_large(gemm) && gemm->batch_chunk > 1)
    gemm->batch_chunk = ceil_div(gemm->batch_chunk, 2);
  while (packed_a(gemm) > PACK_BUDGET && gemm->m_chunk > 2 * gemm->mt)
    gemm->m_chunk = round_up(ceil_div(gemm->m_chunk, 2), gemm->mt);
  while (too_large(gemm) && gemm->k_chunk > gemm->kc)
    gemm->k_chunk = round_up(ceil_div(gemm->k_chunk, 2), gemm->kc);
  while (packed_a(gemm) > PACK_BUDGET && gemm->m_chunk > gemm->mt)
    gemm->m_chunk = round_up(ceil_div(gemm->m_chunk, 2), gemm->mt);
  gemm->bt = min64(gemm->bt, gemm->batch_chunk);
  gemm->num_chunks = ceil_div(gemm->batch.extent, gemm->batch_chunk) *
                     ceil_div(gemm->m.extent, gemm->m_chunk) *
                     ceil_div(gemm->k.extent, gemm->k_chunk);
  gemm->compute_tiles = ceil_div(gemm->batch_chunk, gemm->bt) * ceil_div(gemm->m_chunk, gemm->mt) *
                        ceil_div(gemm->n.extent, gemm->nt);
  gemm->pack_depth = gemm->a.along_k ? gemm->k_chunk : min64(gemm->k_chunk, PACK_DEPTH);
  gemm->pack_rows =
      round_up(max64(1, min64(gemm->m_chunk, PACK_TILE / gemm->pack_depth)), GEMM_ROWS);
  if (gemm->a_mode == GEMM_A_SHARED)
    gemm->pack_a_tiles = gemm->batch_chunk * ceil_div(gemm->m_chunk, gemm->pack_rows) *
                         ceil_div(gemm->k_chunk, gemm->pack_depth);
  if (gemm->b_mode == GEMM_B_SHARED)
    gemm->pack_b_tiles =
        gemm->batch_chunk * ceil_div(gemm->n.extent, gemm->nt) * ceil_div(gemm->k_chunk, gemm->kc);
}

static void choose_memory(gemm_t *gemm) {
  const int64_t columns = round_up(gemm->n.extent, GEMM_COLS);
  gemm->apack_floats = round_up(packed_a(gemm), 16);
  gemm->bwork_floats = packed_b(gemm);
  if (gemm->c_mode == GEMM_C_WORK) gemm->cwork_floats = gemm->batch_chunk * gemm->m_chunk * columns;
  if (gemm->b_mode != GEMM_B_SHARED) gemm->bpack_floats = gemm->nt * gemm->kc;
  if (gemm->c_mode == GEMM_C_ROWS) gemm->cbuf_floats = GEMM_EPILOGUE_ROWS * gemm->nt;
  if (gemm->c_mode == GEMM_C_SCRATCH) gemm->cbuf_floats = gemm->mt * gemm->nt;
  if (gemm->a_mode == GEMM_A_OWN)
    gemm->aown_floats = GEMM_OWN_ROWS * max64(gemm->a_row, gemm_panel_pitch(gemm->kc));
}

ptc_status_t gemm_plan(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                       const ptc_c_target_t *target, gemm_t *out_gemm) {
  (void)target;  // blocks must not depend on it: they fix the order of sums
  *out_gemm = (gemm_t){.kernel = kernel, .arena = arena};
  gemm_t *gemm = out_gemm;
  const ptc_status_t status = check(diag, gemm);
  if (status != PTC_OK) return status;
  const ptc_kstore_t *store = &kernel->stores[0];
  const ptc_c_affine_t out = ptc_c_address(kernel, store->param, store->index);
  // Neighbours in the output must lie along n.
  ptc_gemm_t roles = kernel->gemm;
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    if ((roles.m >> d & 1) && kernel->dims[d].extent > 1 && out.coef[d] == 1)
      roles = (ptc_gemm_t){roles.batch, roles.n, roles.m, roles.k, roles.b, roles.a};
  const ptc_c_affine_t a_address = main_address(gemm, roles.a);
  gemm->batch = make_role(kernel, "b", roles.batch, &out);
  gemm->m = make_role(kernel, "i", roles.m, &out);
  gemm->n = make_role(kernel, "j", roles.n, &out);
  gemm->k = make_role(kernel, "k", roles.k, &a_address);
  describe_operand(gemm, roles.a, "a", &gemm->m, &gemm->a);
  describe_operand(gemm, roles.b, "b", &gemm->n, &gemm->b);
  choose_tiles(gemm);
  choose_modes(gemm);
  choose_chunks(gemm);
  if (stores_plain_sum(gemm, &out))
    gemm->c_mode = GEMM_C_DIRECT;
  else if (gemm->kc >= gemm->k.extent)
    gemm->c_mode = GEMM_C_ROWS;
  else
    gemm->c_mode = gemm->k_chunk >= gemm->k.extent ? GEMM_C_SCRATCH : GEMM_C_WORK;
  choose_memory(gemm);
  return PTC_OK;
}
