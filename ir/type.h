// The types of IR values: dtype, named dims, sharding. Plain data; also used by the runtime.
#ifndef PTC_IR_TYPE_H_
#define PTC_IR_TYPE_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/base/str.h"

//        id     text     bytes  (integers: no fraction; floats: significand bits incl. the hidden one)
#define PTC_DTYPES(X) \
  X(BOOL, "bool", 1)  \
  X(I32, "i32", 4)    \
  X(I64, "i64", 8) X(F16, "f16", 2) X(BF16, "bf16", 2) X(F32, "f32", 4) X(F64, "f64", 8)

typedef enum ptc_dtype_e {
#define PTC_DTYPE_ENUM(id, text, bytes) PTC_##id,
  PTC_DTYPES(PTC_DTYPE_ENUM)
#undef PTC_DTYPE_ENUM
      PTC_NUM_DTYPES
} ptc_dtype_t;

const char *ptc_dtype_name(ptc_dtype_t dtype);
int64_t ptc_dtype_bytes(ptc_dtype_t dtype);
bool ptc_dtype_is_float(ptc_dtype_t dtype);
bool ptc_dtype_is_int(ptc_dtype_t dtype);  // i32, i64; not bool
// False if |name| is no dtype.
bool ptc_dtype_parse(const char *name, ptc_dtype_t *out_dtype);
// |value| rounded to |dtype| (to nearest, ties to even; overflow to infinity in floats, saturating
// in integers, value != 0 for bool). i64 beyond 2^53 is not represented exactly.
double ptc_dtype_round(ptc_dtype_t dtype, double value);

// A mesh axis, or a part of one. Axis of size 8 = major 2 x 4: {"tp", pre 1, size 2} is the major
// part, {"tp", pre 2, size 4} the minor one (as in Shardy). size 0: the whole axis.
typedef struct ptc_axis_ref_s {
  const char *axis;  // interned
  int64_t pre, size;
} ptc_axis_ref_t;

typedef enum ptc_dist_e { PTC_DIST_BLOCK, PTC_DIST_ZIGZAG } ptc_dist_t;
typedef enum ptc_reduce_kind_e { PTC_REDUCE_SUM, PTC_REDUCE_MAX } ptc_reduce_kind_t;

// One dim of a value: a name, the global extent, and how it is laid over the mesh.
typedef struct ptc_dim_s {
  const char *name;            // interned; unique within the value
  int64_t extent;              // global, >= 0
  const ptc_axis_ref_t *axes;  // outermost first; the dim is sharded over their product
  int32_t num_axes;
  ptc_dist_t dist;
} ptc_dim_t;

// Immutable once built; shared freely. Lives in a module's arena.
typedef struct ptc_type_s {
  ptc_dtype_t dtype;
  int32_t num_dims, num_counts, num_partial;
  const ptc_dim_t *dims;
  // A bundle: counts[0] x counts[1] x ... instances, one per turn of the repeats it belongs to
  // (outermost first). A plain value has none.
  const int64_t *counts;
  // The axes over which the value is an unreduced partial result.
  const ptc_axis_ref_t *partial;
  ptc_reduce_kind_t partial_kind;
} ptc_type_t;

// A list of named axes, outermost first.
typedef struct ptc_mesh_axis_s {
  const char *name;  // interned
  int64_t size;      // >= 1
} ptc_mesh_axis_t;
typedef struct ptc_mesh_s {
  const ptc_mesh_axis_t *axes;
  int32_t num_axes;
} ptc_mesh_t;

enum { PTC_MAX_DIMS = 16, PTC_MAX_COUNTS = 8 };

// Products that would overflow int64 return -1.
int64_t ptc_type_num_elements(const ptc_type_t *type);   // of one instance, global
int64_t ptc_type_num_instances(const ptc_type_t *type);  // product of counts
int64_t ptc_type_num_bytes(const ptc_type_t *type);      // all instances, global
// Position of the dim called |name| (interned), or -1.
int32_t ptc_type_find_dim(const ptc_type_t *type, const char *name);
bool ptc_type_has_dim(const ptc_type_t *type, const char *name);
bool ptc_type_equal(const ptc_type_t *a, const ptc_type_t *b);
bool ptc_axis_ref_equal(ptc_axis_ref_t a, ptc_axis_ref_t b);

// Constructors; arguments are copied into |arena|, but for the arrays of axes that dims point to, which
// must live as long as the type (and names, which must be interned).
ptc_type_t *ptc_type_new(ptc_arena_t *arena, ptc_dtype_t dtype, const ptc_dim_t *dims,
                         int32_t num_dims);
ptc_type_t *ptc_type_scalar(ptc_arena_t *arena, ptc_dtype_t dtype);
ptc_type_t *ptc_type_with_dtype(ptc_arena_t *arena, const ptc_type_t *type, ptc_dtype_t dtype);
// |type| with one more leading count, or (count 0) without its leading count.
ptc_type_t *ptc_type_bundle(ptc_arena_t *arena, const ptc_type_t *type, int64_t count);
ptc_type_t *ptc_type_instance(ptc_arena_t *arena, const ptc_type_t *type);

// Sharding arithmetic: the one place that maps global to local (DESIGN.md section 3).
// Size of |ref| on |mesh|, 0 if the mesh has no such axis.
int64_t ptc_axis_ref_size(const ptc_mesh_t *mesh, ptc_axis_ref_t ref);
// Number of shards of |dim|: the product of its axes.
int64_t ptc_dim_num_shards(const ptc_mesh_t *mesh, const ptc_dim_t *dim);
// Storage extent of one shard: ceil(extent / shards).
int64_t ptc_dim_local_extent(const ptc_mesh_t *mesh, const ptc_dim_t *dim);
// |coords| has one coordinate per mesh axis. Which shard of |dim| this device holds.
int64_t ptc_dim_shard_index(const ptc_mesh_t *mesh, const ptc_dim_t *dim, const int64_t *coords);
// Global index of local index |i| on shard |shard|; >= extent where |i| is padding.
// block: shard * local + i. zigzag over n shards (2n chunks): shard r holds chunks r and 2n-1-r.
int64_t ptc_dim_global_index(const ptc_mesh_t *mesh, const ptc_dim_t *dim, int64_t shard,
                             int64_t i);

// `12 x f32[d=8, f=32 "tp", s=64 "cp" zigzag] partial "tp"`; a sub-axis prints as "tp":1:2
// (pre : size); a max-partial as `partial max "tp"`.
void ptc_type_print(ptc_str_t *out, const ptc_type_t *type);

#endif  // PTC_IR_TYPE_H_
