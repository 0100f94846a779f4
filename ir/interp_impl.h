// Private to ir/interp*.c: one function per name in the op table's interp column, and loops over
// named dims.
#ifndef PTC_IR_INTERP_IMPL_H_
#define PTC_IR_INTERP_IMPL_H_

#include "ir/interp.h"
#include "ir/op.h"

// One op to execute on one device (an op with a body: once, for all of them). The results are allocated and zero; the caller rounds them to their dtypes
// afterwards, so an op computes in double and rounds once.
typedef struct ptc_call_s {
  ptc_interp_t *interp;
  ptc_module_t *module;
  const int64_t *coords;  // this device's coordinate on each mesh axis
  const ptc_op_t *op;
  const ptc_tensor_t *const *in;
  ptc_tensor_t *const *out;
  // The same op on every device, by number; this one is all[device].
  const struct ptc_call_s *all;
  int32_t num_devices, device;
} ptc_call_t;

typedef ptc_status_t (*ptc_interp_fn_t)(const ptc_call_t *call);

#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, interp, \
               ...)                                                                               \
  ptc_status_t ptc_interp_##interp(const ptc_call_t *call);
#include "ir/ops.def"
#undef PTC_OP

// The types of operands and results as the program has them (global extents, sharding).
static inline const ptc_type_t *ptc_call_in(const ptc_call_t *call, int32_t index) {
  return call->op->operands[index]->type;
}
static inline const ptc_type_t *ptc_call_out(const ptc_call_t *call, int32_t index) {
  return call->op->results[index]->type;
}
// Element 0 of operand |index|: the value of a scalar.
static inline double ptc_call_scalar(const ptc_call_t *call, int32_t index) {
  return call->in[index]->data[0];
}

// --- extents on this device. Valid local indices of a dim come first; what follows them is
// padding, which no op reads (NaN in floats, so that it would show).
int64_t ptc_call_valid_extent(const ptc_call_t *call, const ptc_dim_t *dim);
int64_t ptc_call_local_extent(const ptc_call_t *call, const ptc_dim_t *dim);
int64_t ptc_call_shard(const ptc_call_t *call, const ptc_dim_t *dim);
int64_t ptc_call_global_index(const ptc_call_t *call, const ptc_dim_t *dim, int64_t local);
// The local index of |global| on this device, or -1 if another device holds it.
int64_t ptc_call_local_index(const ptc_call_t *call, const ptc_dim_t *dim, int64_t global);
// Distance of neighbours along the dim called |name|, 0 if the value does not have it.
int64_t ptc_call_stride(const ptc_call_t *call, const ptc_type_t *type, const char *name);

// --- loop nests over named dims, with the offset of the current element in each tensor.
enum { PTC_NEST_DIMS = 48, PTC_NEST_TENSORS = 20 };

typedef struct ptc_nest_s {
  const ptc_call_t *call;
  int32_t num_dims, num_tensors;
  ptc_dim_t dims[PTC_NEST_DIMS];  // outermost first
  int64_t extent[PTC_NEST_DIMS];  // valid extents
  int64_t index[PTC_NEST_DIMS];
  int64_t stride[PTC_NEST_TENSORS][PTC_NEST_DIMS];
  int64_t offset[PTC_NEST_TENSORS];
} ptc_nest_t;

void ptc_nest_init(ptc_nest_t *nest, const ptc_call_t *call);
// Dims first, then tensors. Appends the dims of |type| that the nest lacks.
void ptc_nest_add_dims(ptc_nest_t *nest, const ptc_type_t *type);
void ptc_nest_add_dim(ptc_nest_t *nest, const ptc_dim_t *dim);
// Removes the named dims, if there. |names| may be NULL.
void ptc_nest_drop(ptc_nest_t *nest, const ptc_attr_t *names);
void ptc_nest_drop_name(ptc_nest_t *nest, const char *name);
int32_t ptc_nest_find(const ptc_nest_t *nest, const char *name);  // -1 if absent
// Steps through |type| by the dims that it shares with the nest, except those of |skip| (may be
// NULL). Returns the number of the tensor.
int32_t ptc_nest_add_tensor(ptc_nest_t *nest, const ptc_type_t *type, const ptc_attr_t *skip);
int32_t ptc_nest_add_tensor_but(ptc_nest_t *nest, const ptc_type_t *type, const char *skip);
// Joins neighbouring loops that every tensor walks evenly. The index is no longer meaningful.
void ptc_nest_collapse(ptc_nest_t *nest);
// for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)). No dims: one turn.
bool ptc_nest_begin(ptc_nest_t *nest);
bool ptc_nest_next(ptc_nest_t *nest);

// The offsets in |type| of all elements of a row: row-major over the dims of |over| that |dims_of|
// has, in the order of |over|. malloc'ed.
int64_t *ptc_row_offsets(const ptc_call_t *call, const ptc_type_t *dims_of, const ptc_attr_t *over,
                         const ptc_type_t *type, int64_t *out_count);
// An attribute that lists the dim of a DIM attribute alone.
ptc_attr_t ptc_dims_of_dim(const char *const *dim);

// Numbers the elements of a nest row-major in the global extents of some dims.
typedef struct ptc_numbering_s {
  int32_t count;
  int32_t loop[PTC_NEST_DIMS];  // which loop of the nest
  int64_t shard[PTC_NEST_DIMS];
  uint64_t stride[PTC_NEST_DIMS];  // 0: the loop does not count
} ptc_numbering_t;
// |dims|: outermost first; those that the nest lacks count as index 0.
ptc_numbering_t ptc_numbering_init(const ptc_nest_t *nest, const ptc_dim_t *dims, int32_t num_dims);
uint64_t ptc_numbering_get(const ptc_numbering_t *numbering, const ptc_nest_t *nest);

// --- random numbers
typedef struct ptc_stream_s {
  uint64_t seed;
  uint32_t step, path_hash;
} ptc_stream_t;
// Of an op with operands seed, step, turns at |first| and the attribute "path".
ptc_stream_t ptc_call_stream(const ptc_call_t *call, int32_t first);
// Uniform in [0, 1), a multiple of 2^-24.
double ptc_stream_uniform(const ptc_stream_t *stream, uint64_t element);
// The standard normal distribution, and the inverse of its distribution function, 0 < p < 1.
double ptc_normal_cdf(double x);
double ptc_normal_quantile(double p);

// --- shared arithmetic
double ptc_sigmoid(double x);
// sum of a[i * stride_a] * b[i * stride_b]
double ptc_dot(const double *a, int64_t stride_a, const double *b, int64_t stride_b, int64_t count);
// Whether |a| precedes |b| in descending order; NaN counts as largest.
bool ptc_exceeds(double a, double b);

// --- the driver, for transfers: the table and the number of this stage; NULL if there are no others.
ptc_mail_t *ptc_interp_mail(const ptc_interp_t *interp, int64_t *out_stage);

// --- the driver, for regions and collectives
// Executes the body of |op| once, on all devices: binds argument i on device d to args[i * devices + d] (not owned)
// and copies what it yields to yields[i * devices + d].
ptc_status_t ptc_interp_body(ptc_interp_t *interp, const ptc_op_t *op, ptc_tensor_t *const *args,
                             ptc_tensor_t *const *yields);
// A device's coordinates, one per mesh axis; a region over a mesh axis changes one.
int64_t *ptc_interp_coords(ptc_interp_t *interp, int32_t device);
// The device at |coords|; those on axes of time do not matter.
int32_t ptc_interp_device_at(const ptc_interp_t *interp, const int64_t *coords);
bool ptc_interp_is_time(const ptc_interp_t *interp, const char *axis);  // interned
ptc_module_t *ptc_interp_module(const ptc_interp_t *interp);
const ptc_func_t *ptc_interp_last_func(const ptc_interp_t *interp);  // NULL before a run
ptc_interp_mode_t ptc_interp_mode(const ptc_interp_t *interp);
// |type| with local extents and without axes.
const ptc_type_t *ptc_interp_local_type(ptc_interp_t *interp, const ptc_type_t *type);
// A place for a copy of a whole tensor, by any key; freed with the interpreter, its data too.
ptc_tensor_t *ptc_interp_copy_of(ptc_interp_t *interp, const void *key);
// Sets the padding of a value of |type| on a device: NaN in floats, else 0.
void ptc_interp_mark_padding(ptc_interp_t *interp, const ptc_type_t *type, int32_t device,
                             ptc_tensor_t *tensor);

#endif  // PTC_IR_INTERP_IMPL_H_
