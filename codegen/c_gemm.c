// GEMM as C: packed panels, a register-blocked micro-kernel, prologues evaluated while packing and the epilogue
// on rows of sums that are still in cache.
//
// A tile of the compute phase packs its strip of B (some columns, a block of k) into scratch, where it stays in
// L2 while the rows of A stream past it. A is read in place, packed by the tile, or packed by a phase before;
// then the work may be cut into chunks, each packed and computed in turn. Sums run over at most 256 k in order,
// and these sums are added in order: fixed by the shape alone.
// Blocking: Goto, van de Geijn, Anatomy of high-performance matrix multiplication (TOMS 34, 2008).
#include <inttypes.h>

#include "codegen/c_gemm_impl.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The terms of a sum before it is added to others. Rounding errors of terms of one sign grow with the root of
// their number: a block of 768 in one sum strays by up to 14 eps of the sum (root mean square 3.5), in parts of
// 384 by 7 (1.8), of 256 by 4 (1.1), of 128 by 3 (0.6). No length is better than 5 for sums as short as itself, so
// parts below 256 bound no more of them, and 128 take 5 % more time in a training step; 256 take none.
enum { MAX_SUM = 256 };

// The size of even parts of |size|, none larger than |most|.
static int64_t even_parts(int64_t size, int64_t most) {
  return size > 0 ? round_up(ceil_div(size, ceil_div(size, most)), 8) : 1;
}

static void define(ptc_str_t *out, const char *name, int64_t value, const char *about) {
  ptc_str_printf(out, "#define %s INT64_C(%" PRId64 ")", name, value);
  if (*about) ptc_str_printf(out, "  // %s", about);
  ptc_str_append(out, "\n");
}

static int64_t stride_of(const gemm_t *gemm, const gemm_role_t *role,
                         const ptc_c_affine_t *address) {
  int64_t stride;
  gemm_role_stride(gemm->kernel, role, address, &stride);
  return stride;
}

static ptc_c_affine_t output_address(const gemm_t *gemm) {
  const ptc_kstore_t *store = &gemm->kernel->stores[0];
  return ptc_c_address(gemm->kernel, store->param, store->index);
}

// Floats between packed rows of A (or 1 / MR of a panel).
static int64_t a_pitch(const gemm_t *gemm) {
  if (gemm->a.along_k) return gemm->a_row;
  return gemm_panel_pitch(gemm->a_mode == GEMM_A_OWN ? gemm->kc : gemm->k_chunk);
}

static void print_constants(const gemm_t *gemm, ptc_str_t *out) {
  const ptc_c_affine_t address = output_address(gemm);
  define(out, "BATCH", gemm->batch.extent, "products of an M x K and a K x N matrix");
  define(out, "M", gemm->m.extent, "");
  define(out, "N", gemm->n.extent, "");
  define(out, "K", gemm->k.extent, "");
  define(out, "DEPTH", gemm->kc, "of a block of k");
  define(out, "SUM_DEPTH", even_parts(gemm->kc, MAX_SUM), "of a sum in registers");
  define(out, "BATCH_TILE", gemm->bt, "");
  define(out, "M_TILE", gemm->mt, "");
  define(out, "N_TILE", gemm->nt, "");
  define(out, "BATCH_CHUNK", gemm->batch_chunk, "");
  define(out, "M_CHUNK", gemm->m_chunk, "");
  define(out, "K_CHUNK", gemm->k_chunk, "");
  define(out, "M_TILES", ceil_div(gemm->m_chunk, gemm->mt), "of a chunk");
  define(out, "N_TILES", ceil_div(gemm->n.extent, gemm->nt), "");
  define(out, "M_CHUNKS", ceil_div(gemm->m.extent, gemm->m_chunk), "");
  define(out, "K_CHUNKS", ceil_div(gemm->k.extent, gemm->k_chunk), "");
  const bool in_rows = gemm->a_mode == GEMM_A_DIRECT || gemm->a.along_k;
  if (gemm->a_mode != GEMM_A_DIRECT) define(out, "A_PITCH", a_pitch(gemm), "of packed rows");
  if (gemm->a_mode == GEMM_A_DIRECT)
    define(out, "A_ROW", stride_of(gemm, &gemm->m, &gemm->a.address), "in place");
  else
    ptc_str_printf(out, "#define A_ROW %s\n", in_rows ? "A_PITCH" : "1");
  ptc_str_printf(out, "#define A_STEP %s\n", in_rows ? "1" : "MR");
  if (gemm->b_mode == GEMM_B_DIRECT)
    define(out, "B_STEP", stride_of(gemm, &gemm->k, &gemm->b.address), "in place");
  else
    ptc_str_append(out, "#define B_STEP NR\n");
  int64_t c_row = gemm->nt;
  if (gemm->c_mode == GEMM_C_DIRECT) c_row = stride_of(gemm, &gemm->m, &address);
  if (gemm->c_mode == GEMM_C_WORK) c_row = round_up(gemm->n.extent, GEMM_COLS);
  define(out, "C_ROW", c_row, gemm->c_mode == GEMM_C_DIRECT ? "in place" : "");
  ptc_str_append(out, "\n");
}

static const char row_panel[] =
    "// c (+)= |rows| rows of A times a strip of B, |columns| wide.\n"
    "ALWAYS_INLINE void row_panel(const int rows, const float *a, const float *b, const float "
    "*edge,\n"
    "                             int64_t columns, int64_t depth, float *c, bool add) {\n"
    "  int64_t j = 0;\n"
    "  for (; j + NR <= columns; j += NR)\n"
    "    micro_parts(rows, 2, a, b + j * B_PANEL, B_STEP, depth, c + j, C_ROW, add);\n"
    "  if (N % NR == 0 || j == columns) return;\n"
    "  const int vecs = N % NR <= VL ? 1 : 2;\n"
    "  if (!C_IN_PLACE) {\n"
    "    micro_parts(rows, vecs, a, edge, NR, depth, c + j, C_ROW, add);\n"
    "    return;\n"
    "  }\n"
    "  float sum[MR * NR];\n"
    "  micro_parts(rows, vecs, a, edge, NR, depth, sum, NR, false);\n"
    "  for (int r = 0; r < rows; ++r)\n"
    "    for (int64_t q = 0; q < columns - j; ++q)\n"
    "      c[r * C_ROW + j + q] = add ? c[r * C_ROW + j + q] + sum[r * NR + q] : sum[r * NR + q];\n"
    "}\n"
    "\n";

static void print_row_panel(const gemm_t *gemm, ptc_str_t *out) {
  ptc_str_printf(out, "#define B_PANEL %s\n", gemm->b_mode == GEMM_B_DIRECT ? "1" : "depth");
  ptc_str_printf(out, "#define C_IN_PLACE %d\n\n", gemm->c_mode == GEMM_C_DIRECT);
  gemm_print_micro(out);
  ptc_str_append(out, row_panel);
}

// The first float of batch |b| of what |address| names, as text.
static const char *batch_start(const gemm_t *gemm, int32_t param, const ptc_c_affine_t *address) {
  return ptc_arena_printf(gemm->arena, "(float *)call->params[%" PRId32 "] + %" PRId64 " + %s",
                          param, address->base, gemm_offset_text(gemm, &gemm->batch, address, "b"));
}

// Where packed A of rows from |i| and k from |k0| stands.
static const char *packed_a_text(const gemm_t *gemm) {
  const int64_t rows = round_up(gemm->m_chunk, GEMM_ROWS);
  if (gemm->a.along_k)
    return ptc_arena_printf(gemm->arena,
                            "packed_a + (((b - bq) * %" PRId64 " + (k0 - kq) / DEPTH) * %" PRId64
                            " + i - iq) * A_PITCH",
                            ceil_div(gemm->k_chunk, gemm->kc), rows);
  return ptc_arena_printf(
      gemm->arena, "packed_a + ((b - bq) * %" PRId64 " + i - iq) * A_PITCH + (k0 - kq) * MR", rows);
}

// Where the strip of packed B from column |j0| on and k from |k0| stands.
static const char *packed_b_text(const gemm_t *gemm) {
  return ptc_arena_printf(gemm->arena,
                          "packed_b + (((b - bq) * %" PRId64 " + (k0 - kq) / DEPTH) * %" PRId64
                          " + j0) * DEPTH",
                          ceil_div(gemm->k_chunk, gemm->kc), round_up(gemm->n.extent, GEMM_COLS));
}

// Chunks in order: rows go on while B stays packed; but sums in the workspace are those of a chunk's rows, so
// these see every k before the next.
static void print_chunk_start(const gemm_t *gemm, ptc_str_t *out) {
  ptc_str_append(out, gemm->c_mode == GEMM_C_DIRECT
                          ? "  const int64_t kq = chunk / M_CHUNKS % K_CHUNKS * K_CHUNK;\n"
                            "  const int64_t iq = chunk % M_CHUNKS * M_CHUNK;\n"
                          : "  const int64_t kq = chunk % K_CHUNKS * K_CHUNK;\n"
                            "  const int64_t iq = chunk / K_CHUNKS % M_CHUNKS * M_CHUNK;\n");
  ptc_str_append(out,
                 "  const int64_t bq = chunk / K_CHUNKS / M_CHUNKS * BATCH_CHUNK;\n"
                 "  const int64_t k_end = least(kq + K_CHUNK, K);\n");
}

static bool has_pack_phase(const gemm_t *gemm) {
  return gemm->pack_a_tiles + gemm->pack_b_tiles > 0;
}

static void print_pack_a_tile(const gemm_t *gemm, ptc_str_t *out) {
  const int64_t row_blocks = ceil_div(gemm->m_chunk, gemm->pack_rows);
  const int64_t pieces = ceil_div(gemm->k_chunk, gemm->pack_depth);
  ptc_str_printf(out,
                 "  float *const packed_a = call->params[%" PRId32
                 "];\n"
                 "  const int64_t i = iq + tile %% %" PRId64 " * %" PRId64
                 ";\n"
                 "  const int64_t i_end = least(i + %" PRId64
                 ", least(iq + M_CHUNK, M));\n"
                 "  const int64_t k = kq + tile / %" PRId64 " %% %" PRId64 " * %" PRId64
                 ";\n"
                 "  const int64_t piece_end = least(k + %" PRId64
                 ", k_end);\n"
                 "  const int64_t b = bq + tile / %" PRId64
                 ";\n"
                 "  if (b >= BATCH || i >= i_end) return;\n"
                 "  for (int64_t k0 = k; k0 < piece_end; k0 += DEPTH)\n"
                 "    pack_a(call, b, i, i_end, k0, least(DEPTH, piece_end - k0), A_PITCH,\n"
                 "           %s);\n",
                 gemm->kernel->num_params, row_blocks, gemm->pack_rows, gemm->pack_rows, row_blocks,
                 pieces, gemm->pack_depth, gemm->pack_depth, row_blocks * pieces,
                 packed_a_text(gemm));
}

// B does not depend on the rows: it stays packed while they go on.
static void print_pack_b_tile(const gemm_t *gemm, ptc_str_t *out) {
  const bool rows_go_on = gemm->c_mode == GEMM_C_DIRECT || gemm->k_chunk >= gemm->k.extent;
  if (rows_go_on && gemm->m_chunk < gemm->m.extent)
    ptc_str_append(out, "    if (iq > 0) return;\n");
  ptc_str_printf(out,
                 "    float *const packed_b = (float *)call->params[%" PRId32 "] + %" PRId64
                 ";\n"
                 "    const int64_t j0 = tile %% N_TILES * N_TILE;\n"
                 "    const int64_t k0 = kq + tile / N_TILES %% %" PRId64
                 " * DEPTH;\n"
                 "    const int64_t b = bq + tile / N_TILES / %" PRId64
                 ";\n"
                 "    if (b >= BATCH || k0 >= k_end) return;\n"
                 "    pack_b(call, b, j0, least(j0 + N_TILE, N), k0, least(DEPTH, k_end - k0),\n"
                 "           %s);\n",
                 gemm->kernel->num_params, gemm->apack_floats, ceil_div(gemm->k_chunk, gemm->kc),
                 ceil_div(gemm->k_chunk, gemm->kc), packed_b_text(gemm));
}

static void print_pack_phase(const gemm_t *gemm, ptc_str_t *out) {
  if (!has_pack_phase(gemm)) return;
  ptc_str_append(
      out,
      "static void pack_phase(const ptc_kernel_call_t *call, int64_t chunk, int64_t tile) {\n");
  print_chunk_start(gemm, out);
  if (gemm->pack_b_tiles) {
    ptc_str_printf(out, "  if (tile < %" PRId64 ") {\n", gemm->pack_b_tiles);
    print_pack_b_tile(gemm, out);
    ptc_str_append(out, "    return;\n  }\n");
  }
  if (gemm->pack_a_tiles) {
    if (gemm->pack_b_tiles) ptc_str_printf(out, "  tile -= %" PRId64 ";\n", gemm->pack_b_tiles);
    print_pack_a_tile(gemm, out);
  }
  ptc_str_append(out, "}\n\n");
}

// --- the compute phase
static void print_strip_of_b(const gemm_t *gemm, ptc_str_t *out) {
  if (gemm->b_mode == GEMM_B_DIRECT) {
    ptc_str_printf(out,
                   "      const float *const strip = %s + k0 * B_STEP + j0;\n"
                   "      // Columns that fill no panel are packed.\n"
                   "      const int64_t j_edge = j1 - (j1 - j0) %% NR;\n"
                   "      if (j_edge < j1) pack_b(call, b, j_edge, j1, k0, depth, packed_b);\n"
                   "      const float *const edge = packed_b;\n",
                   batch_start(gemm, gemm->b.param, &gemm->b.address));
    return;
  }
  if (gemm->b_mode == GEMM_B_OWN)
    ptc_str_append(out,
                   "      pack_b(call, b, j0, j1, k0, depth, packed_b);\n"
                   "      const float *const strip = packed_b;\n");
  else
    ptc_str_printf(out, "      const float *const strip = %s;\n", packed_b_text(gemm));
  ptc_str_append(out, "      const float *const edge = strip + (j1 - j0) / NR * NR * depth;\n");
}

static void print_rows_of_a(const gemm_t *gemm, ptc_str_t *out) {
  switch (gemm->a_mode) {
    case GEMM_A_DIRECT:
      ptc_str_printf(out, "        const float *const a = %s + i * A_ROW + k0;\n",
                     batch_start(gemm, gemm->a.param, &gemm->a.address));
      ptc_str_append(out,
                     "        // The next rows begin where no hardware prefetch goes.\n"
                     "        for (int r = 0; r < MR && i + 2 * MR <= i1; ++r)\n"
                     "          for (int q = 0; q < 64; q += 16)\n"
                     "            __builtin_prefetch(a + (MR + r) * A_ROW + q, 0, 2);\n");
      break;
    case GEMM_A_SHARED:
      ptc_str_printf(out, "        const float *const a = %s;\n", packed_a_text(gemm));
      break;
    case GEMM_A_OWN:
      ptc_str_printf(out,
                     "        const int64_t group = (i - i0) %% %d;\n"
                     "        if (group == 0)\n"
                     "          pack_a(call, b, i, least(i + %d, i1), k0, depth, A_PITCH, own_a);\n"
                     "        const float *const a = own_a + group * A_PITCH;\n",
                     GEMM_OWN_ROWS, GEMM_OWN_ROWS);
      break;
  }
}

static void print_rows_of_c(const gemm_t *gemm, ptc_str_t *out) {
  const ptc_c_affine_t address = output_address(gemm);
  switch (gemm->c_mode) {
    case GEMM_C_DIRECT:
      ptc_str_printf(out, "        float *const c = %s + i * C_ROW + j0;\n",
                     batch_start(gemm, gemm->kernel->stores[0].param, &address));
      break;
    case GEMM_C_ROWS:
      ptc_str_printf(out, "        float *const c = sums + (i - i0) %% %d * C_ROW;\n",
                     GEMM_EPILOGUE_ROWS);
      break;
    case GEMM_C_SCRATCH:
      ptc_str_append(out, "        float *const c = sums + (i - i0) * C_ROW;\n");
      break;
    case GEMM_C_WORK:
      ptc_str_append(
          out, "        float *const c = sums + ((b - bq) * M_CHUNK + i - iq) * C_ROW + j0;\n");
      break;
  }
}

static void print_memory(const gemm_t *gemm, ptc_str_t *out) {
  if (gemm->apack_floats)
    ptc_str_printf(out, "  const float *const packed_a = call->params[%" PRId32 "];\n",
                   gemm->kernel->num_params);
  if (gemm->b_mode == GEMM_B_SHARED)
    ptc_str_printf(
        out, "  const float *const packed_b = (float *)call->params[%" PRId32 "] + %" PRId64 ";\n",
        gemm->kernel->num_params, gemm->apack_floats);
  else
    ptc_str_append(out, "  float *const packed_b = call->scratch;\n");
  if (gemm->c_mode == GEMM_C_WORK)
    ptc_str_printf(out, "  float *const sums = (float *)call->params[%" PRId32 "] + %" PRId64 ";\n",
                   gemm->kernel->num_params, gemm->apack_floats + gemm->bwork_floats);
  else if (gemm->c_mode != GEMM_C_DIRECT)
    ptc_str_printf(out, "  float *const sums = (float *)call->scratch + %" PRId64 ";\n",
                   gemm->bpack_floats);
  if (gemm->a_mode == GEMM_A_OWN)
    ptc_str_printf(out, "  float *const own_a = (float *)call->scratch + %" PRId64 ";\n",
                   gemm->bpack_floats + gemm->cbuf_floats);
}

static void print_compute(const gemm_t *gemm, ptc_str_t *out) {
  ptc_str_append(
      out, "static void compute(const ptc_kernel_call_t *call, int64_t chunk, int64_t tile) {\n");
  print_chunk_start(gemm, out);
  ptc_str_append(out,
                 "  const int64_t i0 = iq + tile / N_TILES % M_TILES * M_TILE;\n"
                 "  const int64_t i1 = least(i0 + M_TILE, least(iq + M_CHUNK, M));\n"
                 "  const int64_t j0 = tile % N_TILES * N_TILE;\n"
                 "  const int64_t j1 = least(j0 + N_TILE, N);\n"
                 "  const int64_t b0 = bq + tile / N_TILES / M_TILES * BATCH_TILE;\n"
                 "  const int64_t b1 = least(b0 + BATCH_TILE, least(bq + BATCH_CHUNK, BATCH));\n"
                 "  if (i0 >= i1) return;\n");
  print_memory(gemm, out);
  ptc_str_append(out,
                 "  for (int64_t b = b0; b < b1; ++b)\n"
                 "    for (int64_t k0 = kq; k0 < k_end; k0 += DEPTH) {\n"
                 "      const int64_t depth = least(DEPTH, k_end - k0);\n");
  print_strip_of_b(gemm, out);
  ptc_str_append(out, "      for (int64_t i = i0; i < i1; i += MR) {\n");
  print_rows_of_a(gemm, out);
  print_rows_of_c(gemm, out);
  ptc_str_append(out,
                 "        if (i1 - i >= MR)\n"
                 "          row_panel(MR, a, strip, edge, j1 - j0, depth, c, k0 > 0);\n"
                 "        else if (M % MR)\n"
                 "          row_panel(M % MR, a, strip, edge, j1 - j0, depth, c, k0 > 0);\n");
  if (gemm->c_mode != GEMM_C_DIRECT)
    ptc_str_printf(out,
                   "        // The stores of a group of rows, once their sums are whole.\n"
                   "        const int64_t begun = (i - i0) %% %d, done = least(i + MR, i1);\n"
                   "        if (k0 + depth == K && (done == i1 || begun + MR == %d))\n"
                   "          epilogue(call, b, i - begun, done, j0, j1, c - begun * C_ROW);\n",
                   GEMM_EPILOGUE_ROWS, GEMM_EPILOGUE_ROWS);
  ptc_str_append(out, "      }\n    }\n}\n\n");
}

static void set_shape(const gemm_t *gemm, ptc_kernel_shape_t *shape) {
  const bool packs = has_pack_phase(gemm);
  int64_t *tiles = PTC_ARENA_ARRAY(gemm->arena, int64_t, 2);
  tiles[0] = packs ? gemm->pack_a_tiles + gemm->pack_b_tiles : gemm->compute_tiles;
  tiles[1] = gemm->compute_tiles;
  ptc_phase_run_t *run = PTC_ARENA_NEW(gemm->arena, ptc_phase_run_t);
  *run = (ptc_phase_run_t){gemm->num_chunks, packs ? 2 : 1, tiles};
  const int64_t scratch = gemm->bpack_floats + gemm->cbuf_floats + gemm->aown_floats;
  *shape = (ptc_kernel_shape_t){1, run,
                                4 * (gemm->apack_floats + gemm->bwork_floats + gemm->cwork_floats),
                                4 * round_up(scratch, 16)};
}

ptc_status_t ptc_c_gemm(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                        const ptc_c_target_t *target, ptc_str_t *out,
                        ptc_kernel_shape_t *out_shape) {
  gemm_t gemm;
  const ptc_status_t status = gemm_plan(diag, arena, kernel, target, &gemm);
  if (status != PTC_OK) return status;
  ptc_c_comment(out, kernel);
  ptc_c_prelude(out, kernel);
  print_constants(&gemm, out);
  gemm_print_vectors(out);
  print_row_panel(&gemm, out);
  gemm_print_pack_a(&gemm, out);
  gemm_print_pack_b(&gemm, out);
  gemm_print_epilogue(&gemm, out);
  print_pack_phase(&gemm, out);
  print_compute(&gemm, out);
  ptc_str_printf(out,
                 "void %s(const ptc_kernel_call_t *call, int64_t phase, int64_t tile);\n"
                 "void %s(const ptc_kernel_call_t *call, int64_t phase, int64_t tile) {\n",
                 kernel->name, kernel->name);
  if (has_pack_phase(&gemm))
    ptc_str_append(out,
                   "  if (phase % 2 == 0)\n"
                   "    pack_phase(call, phase / 2, tile);\n"
                   "  else\n"
                   "    compute(call, phase / 2, tile);\n}\n");
  else
    ptc_str_append(out, "  compute(call, phase, tile);\n}\n");
  set_shape(&gemm, out_shape);
  return PTC_OK;
}
