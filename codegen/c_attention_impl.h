// Private to codegen/c_attention*.c: what the printed source of an attention kernel is made of.
//
// The printed program works on panels: 16 rows of scores side by side (the vector lanes), by blocks of
// BLOCK attended keys. Nothing larger than a block of scores is ever stored. Loop dims by role:
//   attend, dot   the keys; the dim that q and key are multiplied along
//   rows          dims that neither key nor val has: they share key and val; flattened to ROWS
//   outer         the other dims of the scores: one set of keys and values per point
//   own           dims of val that the scores lack (dot among them if val has a dim of its name)
#ifndef PTC_CODEGEN_C_ATTENTION_IMPL_H_
#define PTC_CODEGEN_C_ATTENTION_IMPL_H_

#include "codegen/codegen.h"

enum {
  PTC_ATTENTION_PANEL = 16,  // rows of a panel
  PTC_ATTENTION_SUB = 6,     // keys of a sub-block, the grain of skipping; one register tile
  PTC_ATTENTION_BLOCK =
      96,  // keys of a block; part of the numerics: sums of blocks are added in order
};

typedef struct ptc_dim_set_s {
  int32_t count, dims[PTC_KERNEL_MAX_DIMS];
} ptc_dim_set_t;

// A tensor as its elements are walked: param -1 if the kernel does not have it.
typedef struct ptc_attention_tensor_s {
  int32_t param;
  ptc_dtype_t dtype;
  ptc_c_affine_t address;
} ptc_attention_tensor_t;

typedef struct ptc_attention_c_s {
  ptc_diag_t *diag;
  ptc_arena_t *arena;
  ptc_str_t *out;
  const ptc_kernel_t *kernel;  // a copy with the expression |random|
  const ptc_kattention_t *at;
  bool grad;
  ptc_dim_set_t outer, rows, own;
  uint32_t outer_mask, rows_mask;
  int64_t num_outer, num_rows, num_keys, dot, num_own;
  int64_t dot_ld, own_ld;  // rounded up to whole panels
  ptc_attention_tensor_t q, key, val, out_tensor, lse, dout, dq, dkey, dval, dbias;
  double scale, softcap, p;
  ptc_kx_t random;    // uniform number of a score, NONE without dropout
  const char *flags;  // of ptc_attention_text
} ptc_attention_c_t;

// --- roles (c_attention_roles.c)
// "codegen-unsupported" for dtypes and operands that the printers do not know.
ptc_status_t ptc_attention_roles(ptc_attention_c_t *self, ptc_diag_t *diag, ptc_arena_t *arena,
                                 const ptc_kernel_t *kernel, ptc_str_t *out);
int64_t ptc_dim_set_points(const ptc_kernel_t *kernel, const ptc_dim_set_t *set);
// Whether |tensor| moves along loop dim |dim|.
bool ptc_attention_has(const ptc_attention_tensor_t *tensor, int32_t dim);

// --- fixed text (c_attention_text.c). A line "@x text" is printed where |flags| has x.
extern const char *const ptc_attention_vectors[],
    *const ptc_attention_cap[], *const ptc_attention_cap_slope[],
                                    *const ptc_attention_panels[],
                                        *const ptc_attention_forward[],
                                            *const ptc_attention_key_sums[],
                                                *const ptc_attention_backward[];
void ptc_attention_text(ptc_attention_c_t *self, const char *const *text);
void ptc_attention_printf(ptc_attention_c_t *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// A float literal that reads back as (float)|value|.
const char *ptc_attention_float(ptc_arena_t *arena, double value);

// --- rows and keys (c_attention_rows.c)
// Types outer_t, rows_t; rows_at, outer_at; the constants. |panels|: panels of a block of rows.
void ptc_attention_print_types(ptc_attention_c_t *self, int64_t panels);
// static void NAME(call, at, rows, <const> float *x): 16 rows between |tensor| and x[row][column].
void ptc_attention_print_rows(ptc_attention_c_t *self, const char *name,
                              const ptc_attention_tensor_t *tensor, bool store);
// static void NAME(call, at, start, keys, <const> float *x): the same of attended positions.
void ptc_attention_print_keys(ptc_attention_c_t *self, const char *name,
                              const ptc_attention_tensor_t *tensor, bool store);
// static void NAME(call, at, rows, <const> float *x): one number per row.
void ptc_attention_print_scalars(ptc_attention_c_t *self, const char *name,
                                 const ptc_attention_tensor_t *tensor, bool store);
// `const int64_t i_b = at->i_b;` for the outer dims of |mask|.
void ptc_attention_print_outer(ptc_attention_c_t *self, uint32_t mask, int32_t indent);
// The head of the kernel's function, up to its brace.
void ptc_attention_print_entry(ptc_attention_c_t *self);
// Bytes of rows_t and range_t of a panel, at most.
int64_t ptc_attention_rows_bytes(const ptc_attention_c_t *self);
void ptc_attention_add_phase(ptc_attention_c_t *self, ptc_kernel_shape_t *shape, int64_t tiles);

// --- scores (c_attention_scores.c): block_kind, sub_kinds, mask_mixed, add_bias, draw_keep, each if the
// kernel has what it is for.
void ptc_attention_print_scores(ptc_attention_c_t *self);
// Prints declarations that bound the mask over the keys first..last-1 and the rows from range->low_NAME to
// range->high_NAME; the outer dims' indices are in scope. |out_low|, |out_high|: texts of doubles, 0 or 1.
void ptc_attention_mask_bounds(ptc_attention_c_t *self, const char **out_low,
                               const char **out_high);

#endif  // PTC_CODEGEN_C_ATTENTION_IMPL_H_
