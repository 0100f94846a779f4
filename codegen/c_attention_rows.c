// Printing how rows, keys and their tensors are reached: types, constants, moves to and from f32 arrays.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codegen/c_attention_impl.h"

void ptc_attention_printf(ptc_attention_c_t *self, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ptc_str_append(self->out, ptc_arena_vprintf(self->arena, format, args));
  va_end(args);
}

const char *ptc_attention_float(ptc_arena_t *arena, double value) {
  const char *digits = ptc_arena_printf(arena, "%.9g", (double)(float)value);
  return ptc_arena_printf(arena, "%s%sf", digits, strpbrk(digits, ".en") ? "" : ".0");
}

static const char *name_of(const ptc_attention_c_t *self, int32_t dim) {
  return ptc_c_index_name(self->arena, self->kernel, dim);
}

static void print_constants(ptc_attention_c_t *self, int64_t panels) {
  ptc_attention_printf(self,
                       "enum {\n"
                       "  ROWS = %" PRId64
                       ",  // of one set of keys and values\n"
                       "  KEYS = %" PRId64
                       ",\n"
                       "  DOT = %" PRId64
                       ",\n"
                       "  OWN = %" PRId64
                       ",  // width of a value\n"
                       "  DOT_LD = %" PRId64
                       ",\n"
                       "  OWN_LD = %" PRId64
                       ",\n"
                       "  LONGER_LD = %" PRId64
                       ",\n"
                       "  PANEL = %d,  // rows side by side\n"
                       "  PANELS = %" PRId64
                       ",  // of a block of rows\n"
                       "  BLOCK = %d,  // keys of a block\n"
                       "  SUB = %d,    // keys of a sub-block, the grain of skipping\n"
                       "};\n",
                       self->num_rows, self->num_keys, self->dot, self->num_own, self->dot_ld,
                       self->own_ld, self->dot_ld > self->own_ld ? self->dot_ld : self->own_ld,
                       PTC_ATTENTION_PANEL, panels, PTC_ATTENTION_BLOCK, PTC_ATTENTION_SUB);
  ptc_attention_printf(self, "#define SCALE %s\n", ptc_attention_float(self->arena, self->scale));
  if (self->softcap > 0)
    ptc_attention_printf(self, "#define CAP %s\n", ptc_attention_float(self->arena, self->softcap));
  ptc_attention_printf(self, "\n");
}

void ptc_attention_print_types(ptc_attention_c_t *self, int64_t panels) {
  print_constants(self, panels);
  const ptc_kernel_t *kernel = self->kernel;
  ptc_attention_printf(self,
                       "// A set of keys and values.\ntypedef struct outer_s {\n  int64_t set");
  for (int32_t i = 0; i < self->outer.count; ++i)
    ptc_attention_printf(self, ", %s", name_of(self, self->outer.dims[i]));
  ptc_attention_printf(self,
                       ";\n} outer_t;\n\n"
                       "// Rows of a panel; beyond |count| the last one is repeated.\n"
                       "typedef struct rows_s {\n  int32_t count");
  for (int32_t i = 0; i < self->rows.count; ++i)
    ptc_attention_printf(self, ", %s[PANEL]", name_of(self, self->rows.dims[i]));
  ptc_attention_printf(self,
                       ";\n} rows_t;\n\n"
                       "static void rows_at(rows_t *rows, int64_t first) {\n"
                       "  rows->count = ROWS - first < PANEL ? (int32_t)(ROWS - first) : PANEL;\n");
  if (self->rows.count)
    ptc_attention_printf(self,
                         "  for (int i = 0; i < PANEL; i++) {\n"
                         "    int64_t row = i < rows->count ? first + i : ROWS - 1;\n");
  for (int32_t i = self->rows.count - 1; i >= 0; --i) {
    const int32_t dim = self->rows.dims[i];
    ptc_attention_printf(self, "    rows->%s[i] = (int32_t)(row %% %" PRId64 ");\n",
                         name_of(self, dim), kernel->dims[dim].extent);
    if (i > 0) ptc_attention_printf(self, "    row /= %" PRId64 ";\n", kernel->dims[dim].extent);
  }
  ptc_attention_printf(self, self->rows.count ? "  }\n}\n\n" : "}\n\n");
  ptc_attention_printf(self,
                       "static outer_t outer_at(int64_t set) {\n  outer_t at = {.set = set};\n");
  for (int32_t i = self->outer.count - 1; i >= 0; --i) {
    const int32_t dim = self->outer.dims[i];
    ptc_attention_printf(self, "  at.%s = set %% %" PRId64 ";\n  set /= %" PRId64 ";\n",
                         name_of(self, dim), kernel->dims[dim].extent, kernel->dims[dim].extent);
  }
  ptc_attention_printf(self, "  return at;\n}\n\n");
}

void ptc_attention_print_outer(ptc_attention_c_t *self, uint32_t mask, int32_t indent) {
  for (int32_t i = 0; i < self->outer.count; ++i) {
    const int32_t dim = self->outer.dims[i];
    if (!(mask >> dim & 1)) continue;
    ptc_attention_printf(self, "%*sconst int64_t %s = at->%s;\n", indent, "", name_of(self, dim),
                         name_of(self, dim));
  }
}

static uint32_t moves_along(const ptc_attention_tensor_t *tensor) {
  uint32_t mask = 0;
  for (int32_t d = 0; d < PTC_KERNEL_MAX_DIMS; ++d)
    if (ptc_attention_has(tensor, d)) mask |= UINT32_C(1) << d;
  return mask;
}

// `const T *p = p_x + ...;`: the element of |tensor| at index 0 of the dims |inner|.
static void print_base(ptc_attention_c_t *self, const ptc_attention_tensor_t *tensor,
                       const ptc_dim_set_t *inner, bool store, int32_t indent) {
  ptc_c_affine_t form = tensor->address;
  for (int32_t i = 0; i < inner->count; ++i) form.coef[inner->dims[i]] = 0;
  ptc_c_scope_t scope;
  ptc_c_scope_init(&scope, self->arena, self->kernel);
  ptc_attention_printf(self, "%*s%s%s *p = %s + (%s);\n", indent, "", store ? "" : "const ",
                       ptc_c_storage_type(tensor->dtype),
                       ptc_c_param_name(self->arena, self->kernel, tensor->param),
                       ptc_c_affine_text(&scope, &form));
}

// Loops over |inner| that move one element per turn between p and x.
static void print_inner(ptc_attention_c_t *self, const ptc_attention_tensor_t *tensor,
                        const ptc_dim_set_t *inner, bool store, int32_t indent) {
  ptc_str_t place = {0}, column = {0};
  ptc_str_append(&place, "");
  int64_t width = ptc_dim_set_points(self->kernel, inner);
  for (int32_t i = 0; i < inner->count; ++i) {
    const int32_t dim = inner->dims[i];
    const int64_t extent = self->kernel->dims[dim].extent;
    width = extent ? width / extent : 0;
    ptc_attention_printf(self, "%*sfor (int64_t c%d = 0; c%d < %" PRId64 "; c%d++)\n",
                         indent + 2 * i, "", i, i, extent, i);
    ptc_str_printf(&place, "%sc%d * %" PRId64, i ? " + " : "", i, tensor->address.coef[dim]);
    ptc_str_printf(&column, "%sc%d * %" PRId64, i ? " + " : "", i, width);
  }
  if (!inner->count) {
    ptc_str_append(&place, "0");
    ptc_str_append(&column, "0");
  }
  const char *element = ptc_arena_printf(self->arena, "p[%s]", place.data);
  const char *number = ptc_arena_printf(self->arena, "x[%s]", column.data);
  const int32_t deep = indent + 2 * inner->count;
  if (store)
    ptc_attention_printf(self, "%*s%s = %s;\n", deep, "", element,
                         ptc_c_to_storage(self->arena, tensor->dtype, number));
  else
    ptc_attention_printf(self, "%*s%s = %s;\n", deep, "", number,
                         ptc_c_from_storage(self->arena, tensor->dtype, element));
  ptc_str_deinit(&place);
  ptc_str_deinit(&column);
}

static bool along_dot(const ptc_attention_c_t *self, const ptc_attention_tensor_t *tensor) {
  return tensor == &self->q || tensor == &self->key || tensor == &self->dq || tensor == &self->dkey;
}

static ptc_dim_set_t inner_of(const ptc_attention_c_t *self, const ptc_attention_tensor_t *tensor) {
  if (!along_dot(self, tensor)) return self->own;
  return (ptc_dim_set_t){.count = 1, .dims = {self->at->dot}};
}

static void print_head(ptc_attention_c_t *self, const char *name, const char *args, bool store) {
  ptc_attention_printf(
      self, "static void %s(const ptc_kernel_call_t *call, const outer_t *at, %s, %sfloat *x) {\n",
      name, args, store ? "const " : "");
}

static void print_param(ptc_attention_c_t *self, const ptc_attention_tensor_t *tensor, bool store) {
  ptc_attention_printf(self, "  %s%s *%s = call->params[%d];\n", store ? "" : "const ",
                       ptc_c_storage_type(tensor->dtype),
                       ptc_c_param_name(self->arena, self->kernel, tensor->param), tensor->param);
}

static void print_row_indices(ptc_attention_c_t *self, uint32_t mask, int32_t indent) {
  for (int32_t i = 0; i < self->rows.count; ++i) {
    const int32_t dim = self->rows.dims[i];
    if (mask >> dim & 1)
      ptc_attention_printf(self, "%*sconst int64_t %s = rows->%s[i];\n", indent, "",
                           name_of(self, dim), name_of(self, dim));
  }
}

void ptc_attention_print_rows(ptc_attention_c_t *self, const char *name,
                              const ptc_attention_tensor_t *tensor, bool store) {
  const ptc_dim_set_t inner = inner_of(self, tensor);
  const bool dot = along_dot(self, tensor);
  const char *ld = dot ? "DOT_LD" : "OWN_LD", *width = dot ? "DOT" : "OWN";
  const uint32_t mask = moves_along(tensor);
  print_head(self, name, "const rows_t *rows", store);
  print_param(self, tensor, store);
  ptc_attention_print_outer(self, mask, 2);
  ptc_attention_printf(self, "  for (int i = 0; i < rows->count; i++, x += %s) {\n", ld);
  print_row_indices(self, mask, 4);
  print_base(self, tensor, &inner, store, 4);
  print_inner(self, tensor, &inner, store, 4);
  if (!store)
    ptc_attention_printf(self, "    for (int64_t c = %s; c < %s; c++) x[c] = 0.0f;\n", width, ld);
  ptc_attention_printf(self, "  }\n");
  if (!store)
    ptc_attention_printf(
        self, "  for (int64_t c = 0; c < (PANEL - rows->count) * %s; c++) x[c] = 0.0f;\n", ld);
  ptc_attention_printf(self, "}\n\n");
}

void ptc_attention_print_keys(ptc_attention_c_t *self, const char *name,
                              const ptc_attention_tensor_t *tensor, bool store) {
  const ptc_dim_set_t inner = inner_of(self, tensor);
  const bool dot = along_dot(self, tensor);
  const char *ld = dot ? "DOT_LD" : "OWN_LD", *width = dot ? "DOT" : "OWN";
  print_head(self, name, "int64_t start, int64_t keys", store);
  print_param(self, tensor, store);
  ptc_attention_print_outer(self, moves_along(tensor), 2);
  const char *t = name_of(self, self->at->attend);
  ptc_attention_printf(self, "  for (int64_t %s = start; %s < start + keys; %s++, x += %s) {\n", t,
                       t, t, ld);
  print_base(self, tensor, &inner, store, 4);
  print_inner(self, tensor, &inner, store, 4);
  if (!store)
    ptc_attention_printf(self, "    for (int64_t c = %s; c < %s; c++) x[c] = 0.0f;\n", width, ld);
  ptc_attention_printf(self, "  }\n}\n\n");
}

void ptc_attention_print_scalars(ptc_attention_c_t *self, const char *name,
                                 const ptc_attention_tensor_t *tensor, bool store) {
  const ptc_dim_set_t none = {0};
  const uint32_t mask = moves_along(tensor);
  print_head(self, name, "const rows_t *rows", store);
  print_param(self, tensor, store);
  ptc_attention_print_outer(self, mask, 2);
  ptc_attention_printf(self, "  for (int i = 0; i < rows->count; i++, x++) {\n");
  print_row_indices(self, mask, 4);
  print_base(self, tensor, &none, store, 4);
  print_inner(self, tensor, &none, store, 4);
  ptc_attention_printf(self, "  }\n}\n\n");
}

int64_t ptc_attention_rows_bytes(const ptc_attention_c_t *self) {
  return 64 + (4 * PTC_ATTENTION_PANEL + 24) * (int64_t)(self->rows.count + 1);
}

void ptc_attention_print_entry(ptc_attention_c_t *self) {
  const char *name = self->kernel->name;
  ptc_attention_printf(self,
                       "void %s(const ptc_kernel_call_t *call, int64_t phase, int64_t tile);\n"
                       "void %s(const ptc_kernel_call_t *call, int64_t phase, int64_t tile) {\n",
                       name, name);
}

void ptc_attention_add_phase(ptc_attention_c_t *self, ptc_kernel_shape_t *shape, int64_t tiles) {
  enum { MOST_PHASES = 4 };
  if (!shape->runs) {
    ptc_phase_run_t *run = PTC_ARENA_NEW(self->arena, ptc_phase_run_t);
    run->count = 1;
    run->tiles = PTC_ARENA_ARRAY(self->arena, int64_t, MOST_PHASES);
    shape->runs = run;
    shape->num_runs = 1;
  }
  ptc_phase_run_t *run = (ptc_phase_run_t *)shape->runs;
  ((int64_t *)run->tiles)[run->num_phases++] = tiles;
}
