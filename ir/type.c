#include "ir/type.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  int64_t bytes;
} dtypes[] = {
#define ROW(id, text, bytes) {text, bytes},
    PTC_DTYPES(ROW)
#undef ROW
};

const char *ptc_dtype_name(ptc_dtype_t dtype) { return dtypes[dtype].name; }
int64_t ptc_dtype_bytes(ptc_dtype_t dtype) { return dtypes[dtype].bytes; }
bool ptc_dtype_is_float(ptc_dtype_t dtype) { return dtype >= PTC_F16; }
bool ptc_dtype_is_int(ptc_dtype_t dtype) { return dtype == PTC_I32 || dtype == PTC_I64; }

bool ptc_dtype_parse(const char *name, ptc_dtype_t *out_dtype) {
  for (int i = 0; i < PTC_NUM_DTYPES; i++) {
    if (strcmp(dtypes[i].name, name) != 0) continue;
    *out_dtype = (ptc_dtype_t)i;
    return true;
  }
  return false;
}

// Rounds to |bits| significand bits with least exponent |min_exp| (subnormals below) and largest
// finite value |max|. Works in double, which holds every candidate exactly.
static double round_to_format(double value, int bits, int min_exp, double max) {
  if (value == 0 || !isfinite(value)) return value;
  int exponent;
  frexp(value, &exponent);
  int scale = bits - (exponent < min_exp ? min_exp : exponent);
  double rounded = ldexp(nearbyint(ldexp(value, scale)), -scale);
  if (fabs(rounded) > max) return copysign(INFINITY, value);
  return rounded;
}

static double round_to_int(double value, double lo, double hi) {
  if (isnan(value)) return 0;
  value = trunc(value);
  return value < lo ? lo : value > hi ? hi : value;
}

double ptc_dtype_round(ptc_dtype_t dtype, double value) {
  switch (dtype) {
    case PTC_BOOL: return value != 0;
    case PTC_I32: return round_to_int(value, -2147483648.0, 2147483647.0);
    case PTC_I64: return round_to_int(value, -9223372036854775808.0, 9223372036854775807.0);
    case PTC_F16: return round_to_format(value, 11, -13, 65504.0);
    case PTC_BF16: return round_to_format(value, 8, -125, 0x1.fep127);
    case PTC_F32: return (double)(float)value;
    case PTC_F64:
    case PTC_NUM_DTYPES: break;
  }
  return value;
}

static int64_t checked_mul(int64_t a, int64_t b) {
  int64_t product;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

int64_t ptc_type_num_elements(const ptc_type_t *type) {
  int64_t n = 1;
  for (int32_t i = 0; i < type->num_dims; i++) n = checked_mul(n, type->dims[i].extent);
  return n;
}

int64_t ptc_type_num_instances(const ptc_type_t *type) {
  int64_t n = 1;
  for (int32_t i = 0; i < type->num_counts; i++) n = checked_mul(n, type->counts[i]);
  return n;
}

int64_t ptc_type_num_bytes(const ptc_type_t *type) {
  return checked_mul(checked_mul(ptc_type_num_elements(type), ptc_type_num_instances(type)),
                     ptc_dtype_bytes(type->dtype));
}

int32_t ptc_type_find_dim(const ptc_type_t *type, const char *name) {
  for (int32_t i = 0; i < type->num_dims; i++)
    if (type->dims[i].name == name) return i;
  return -1;
}

bool ptc_type_has_dim(const ptc_type_t *type, const char *name) {
  return ptc_type_find_dim(type, name) >= 0;
}

bool ptc_axis_ref_equal(ptc_axis_ref_t a, ptc_axis_ref_t b) {
  return a.axis == b.axis && a.pre == b.pre && a.size == b.size;
}

static bool axes_equal(const ptc_axis_ref_t *a, int32_t num_a, const ptc_axis_ref_t *b,
                       int32_t num_b) {
  if (num_a != num_b) return false;
  for (int32_t i = 0; i < num_a; i++)
    if (!ptc_axis_ref_equal(a[i], b[i])) return false;
  return true;
}

bool ptc_type_equal(const ptc_type_t *a, const ptc_type_t *b) {
  if (a == b) return true;
  if (a->dtype != b->dtype || a->num_dims != b->num_dims || a->num_counts != b->num_counts)
    return false;
  for (int32_t i = 0; i < a->num_counts; i++)
    if (a->counts[i] != b->counts[i]) return false;
  for (int32_t i = 0; i < a->num_dims; i++) {
    const ptc_dim_t *x = &a->dims[i], *y = &b->dims[i];
    if (x->name != y->name || x->extent != y->extent || x->dist != y->dist ||
        !axes_equal(x->axes, x->num_axes, y->axes, y->num_axes))
      return false;
  }
  return axes_equal(a->partial, a->num_partial, b->partial, b->num_partial) &&
         (a->num_partial == 0 || a->partial_kind == b->partial_kind);
}

static const void *copy_bytes(ptc_arena_t *arena, const void *data, size_t num_bytes) {
  if (!num_bytes) return NULL;
  return memcpy(ptc_arena_alloc(arena, num_bytes), data, num_bytes);
}

ptc_type_t *ptc_type_new(ptc_arena_t *arena, ptc_dtype_t dtype, const ptc_dim_t *dims,
                         int32_t num_dims) {
  ptc_type_t *type = PTC_ARENA_NEW(arena, ptc_type_t);
  type->dtype = dtype;
  type->num_dims = num_dims;
  type->dims = copy_bytes(arena, dims, (size_t)num_dims * sizeof(*dims));
  return type;
}

ptc_type_t *ptc_type_scalar(ptc_arena_t *arena, ptc_dtype_t dtype) {
  return ptc_type_new(arena, dtype, NULL, 0);
}

ptc_type_t *ptc_type_with_dtype(ptc_arena_t *arena, const ptc_type_t *type, ptc_dtype_t dtype) {
  ptc_type_t *copy = PTC_ARENA_NEW(arena, ptc_type_t);
  *copy = *type;
  copy->dtype = dtype;
  return copy;
}

ptc_type_t *ptc_type_bundle(ptc_arena_t *arena, const ptc_type_t *type, int64_t count) {
  ptc_type_t *copy = PTC_ARENA_NEW(arena, ptc_type_t);
  *copy = *type;
  int64_t *counts = PTC_ARENA_ARRAY(arena, int64_t, type->num_counts + 1);
  counts[0] = count;
  for (int32_t i = 0; i < type->num_counts; i++) counts[i + 1] = type->counts[i];
  copy->counts = counts;
  copy->num_counts = type->num_counts + 1;
  return copy;
}

ptc_type_t *ptc_type_instance(ptc_arena_t *arena, const ptc_type_t *type) {
  ptc_type_t *copy = PTC_ARENA_NEW(arena, ptc_type_t);
  *copy = *type;
  copy->counts++;
  copy->num_counts--;
  return copy;
}

static int64_t axis_size(const ptc_mesh_t *mesh, const char *axis) {
  for (int32_t i = 0; mesh && i < mesh->num_axes; i++)
    if (mesh->axes[i].name == axis) return mesh->axes[i].size;
  return 0;
}

int64_t ptc_axis_ref_size(const ptc_mesh_t *mesh, ptc_axis_ref_t ref) {
  int64_t whole = axis_size(mesh, ref.axis);
  return whole == 0 ? 0 : ref.size ? ref.size : whole;
}

int64_t ptc_dim_num_shards(const ptc_mesh_t *mesh, const ptc_dim_t *dim) {
  int64_t shards = 1;
  for (int32_t i = 0; i < dim->num_axes; i++)
    shards = checked_mul(shards, ptc_axis_ref_size(mesh, dim->axes[i]));
  return shards > 0 ? shards : 1;
}

int64_t ptc_dim_local_extent(const ptc_mesh_t *mesh, const ptc_dim_t *dim) {
  int64_t shards = ptc_dim_num_shards(mesh, dim);
  if (dim->dist == PTC_DIST_ZIGZAG) {
    int64_t chunk = (dim->extent + 2 * shards - 1) / (2 * shards);
    return 2 * chunk;
  }
  return (dim->extent + shards - 1) / shards;
}

int64_t ptc_dim_shard_index(const ptc_mesh_t *mesh, const ptc_dim_t *dim, const int64_t *coords) {
  int64_t shard = 0;
  for (int32_t i = 0; i < dim->num_axes; i++) {
    ptc_axis_ref_t ref = dim->axes[i];
    int64_t coord = 0, whole = 1;
    for (int32_t a = 0; a < mesh->num_axes; a++) {
      if (mesh->axes[a].name != ref.axis) continue;
      coord = coords[a];
      whole = mesh->axes[a].size;
    }
    int64_t size = ref.size ? ref.size : whole;
    // Major part of (pre, size, post): coord / post % size.
    int64_t post = ref.size ? whole / (ref.pre * ref.size) : 1;
    shard = shard * size + coord / (post > 0 ? post : 1) % size;
  }
  return shard;
}

int64_t ptc_dim_global_index(const ptc_mesh_t *mesh, const ptc_dim_t *dim, int64_t shard,
                             int64_t i) {
  int64_t local = ptc_dim_local_extent(mesh, dim);
  if (dim->dist != PTC_DIST_ZIGZAG) return shard * local + i;
  int64_t chunk = local / 2, shards = ptc_dim_num_shards(mesh, dim);
  return i < chunk ? shard * chunk + i : (2 * shards - 1 - shard) * chunk + (i - chunk);
}

static void print_axes(ptc_str_t *out, const ptc_axis_ref_t *axes, int32_t num_axes) {
  for (int32_t i = 0; i < num_axes; i++) {
    ptc_str_append(out, " ");
    ptc_str_append_quoted(out, axes[i].axis);
    if (axes[i].size) ptc_str_printf(out, ":%" PRId64 ":%" PRId64, axes[i].pre, axes[i].size);
  }
}

void ptc_type_print(ptc_str_t *out, const ptc_type_t *type) {
  for (int32_t i = 0; i < type->num_counts; i++)
    ptc_str_printf(out, "%" PRId64 " x ", type->counts[i]);
  ptc_str_append(out, ptc_dtype_name(type->dtype));
  ptc_str_append(out, "[");
  for (int32_t i = 0; i < type->num_dims; i++) {
    const ptc_dim_t *dim = &type->dims[i];
    if (i) ptc_str_append(out, ", ");
    ptc_str_append_name(out, dim->name);
    ptc_str_printf(out, "=%" PRId64, dim->extent);
    print_axes(out, dim->axes, dim->num_axes);
    if (dim->dist == PTC_DIST_ZIGZAG) ptc_str_append(out, " zigzag");
  }
  ptc_str_append(out, "]");
  if (type->num_partial) {
    ptc_str_append(out, type->partial_kind == PTC_REDUCE_MAX ? " partial max" : " partial");
    print_axes(out, type->partial, type->num_partial);
  }
}
