// einsum: the sum of products of two operands, as a batched matrix product. The operands are packed
// as [batch, row, inner] and [batch, inner, column], the product is unpacked into the result.
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"

double ptc_dot(const double *a, int64_t stride_a, const double *b, int64_t stride_b,
               int64_t count) {
  double sum[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (int64_t j = 0; j < 4; j++) sum[j] += a[(i + j) * stride_a] * b[(i + j) * stride_b];
  for (; i < count; i++) sum[0] += a[i * stride_a] * b[i * stride_b];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Dims by where they occur. A dim of one operand alone that the result lacks is summed in packing.
typedef struct classes_s {
  ptc_nest_t batch, rows, columns, inner;
} classes_t;

static int64_t nest_size(const ptc_nest_t *nest) {
  int64_t size = 1;
  for (int32_t i = 0; i < nest->num_dims; i++) size *= nest->extent[i];
  return size;
}

static void classify(const ptc_call_t *call, const ptc_type_t *a, const ptc_type_t *b,
                     classes_t *classes) {
  const ptc_type_t *result = ptc_call_out(call, 0);
  ptc_nest_init(&classes->batch, call);
  ptc_nest_init(&classes->rows, call);
  ptc_nest_init(&classes->columns, call);
  ptc_nest_init(&classes->inner, call);
  for (int32_t i = 0; i < result->num_dims; i++) {
    const ptc_dim_t *dim = &result->dims[i];
    bool in_a = ptc_type_has_dim(a, dim->name), in_b = ptc_type_has_dim(b, dim->name);
    ptc_nest_add_dim(in_a && in_b ? &classes->batch
                     : in_a       ? &classes->rows
                                  : &classes->columns,
                     dim);
  }
  for (int32_t i = 0; i < a->num_dims; i++) {
    const ptc_dim_t *dim = &a->dims[i];
    if (!ptc_type_has_dim(result, dim->name) && ptc_type_has_dim(b, dim->name))
      ptc_nest_add_dim(&classes->inner, dim);
  }
}

// The elements of |type| in the order of the loops of |outer|, |middle|, |last|, summed over its
// other dims.
static double *pack(const ptc_call_t *call, const ptc_type_t *type, const double *data,
                    const ptc_nest_t *outer, const ptc_nest_t *middle, const ptc_nest_t *last) {
  const ptc_nest_t *groups[] = {outer, middle, last};
  ptc_nest_t nest, rest;
  ptc_nest_init(&nest, call);
  ptc_nest_init(&rest, call);
  for (int32_t g = 0; g < 3; g++)
    for (int32_t i = 0; i < groups[g]->num_dims; i++)
      if (ptc_type_has_dim(type, groups[g]->dims[i].name))
        ptc_nest_add_dim(&nest, &groups[g]->dims[i]);
  for (int32_t i = 0; i < type->num_dims; i++)
    if (ptc_nest_find(&nest, type->dims[i].name) < 0) ptc_nest_add_dim(&rest, &type->dims[i]);
  ptc_nest_add_tensor(&nest, type, NULL);
  ptc_nest_add_tensor(&rest, type, NULL);
  int64_t size = nest_size(&nest), at = 0;
  double *packed = ptc_xmalloc((size_t)(size + 1) * sizeof(*packed));
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    double sum = 0;
    if (!rest.num_dims)
      sum = data[nest.offset[0]];
    else
      for (bool inner = ptc_nest_begin(&rest); inner; inner = ptc_nest_next(&rest))
        sum += data[nest.offset[0] + rest.offset[0]];
    packed[at++] = sum;
  }
  return packed;
}

// c[columns] = sum over inner of a[inner] * b[inner, columns]
static void row_product(const double *restrict a, const double *restrict b, double *restrict c,
                        int64_t inner, int64_t columns) {
  int64_t i = 0;
  for (; i + 4 <= inner; i += 4) {
    const double a0 = a[i], a1 = a[i + 1], a2 = a[i + 2], a3 = a[i + 3];
    const double *b0 = b + i * columns, *b1 = b0 + columns, *b2 = b1 + columns, *b3 = b2 + columns;
    for (int64_t j = 0; j < columns; j++)
      c[j] += a0 * b0[j] + a1 * b1[j] + (a2 * b2[j] + a3 * b3[j]);
  }
  for (; i < inner; i++)
    for (int64_t j = 0; j < columns; j++) c[j] += a[i] * b[i * columns + j];
}

ptc_status_t ptc_interp_einsum(const ptc_call_t *call) {
  const ptc_type_t *result = ptc_call_out(call, 0);
  classes_t classes;
  classify(call, ptc_call_in(call, 0), ptc_call_in(call, 1), &classes);
  // The longer side becomes the columns, where the loop is fast.
  bool swap = nest_size(&classes.rows) > nest_size(&classes.columns);
  int32_t left = swap ? 1 : 0;
  if (swap) classify(call, ptc_call_in(call, 1), ptc_call_in(call, 0), &classes);
  double *a = pack(call, ptc_call_in(call, left), call->in[left]->data, &classes.batch,
                   &classes.rows, &classes.inner);
  double *b = pack(call, ptc_call_in(call, 1 - left), call->in[1 - left]->data, &classes.batch,
                   &classes.inner, &classes.columns);
  int64_t batch = nest_size(&classes.batch), rows = nest_size(&classes.rows);
  int64_t columns = nest_size(&classes.columns), inner = nest_size(&classes.inner);
  double *c = ptc_xmalloc((size_t)(columns + 1) * sizeof(*c));

  ptc_nest_t out, line;
  ptc_nest_init(&out, call);
  for (int32_t i = 0; i < classes.batch.num_dims; i++)
    ptc_nest_add_dim(&out, &classes.batch.dims[i]);
  for (int32_t i = 0; i < classes.rows.num_dims; i++) ptc_nest_add_dim(&out, &classes.rows.dims[i]);
  ptc_nest_add_tensor(&out, result, NULL);
  line = classes.columns;
  ptc_nest_add_tensor(&line, result, NULL);
  ptc_nest_collapse(&line);
  for (int64_t n = 0, more = ptc_nest_begin(&out); more && n < batch * rows;
       n++, more = ptc_nest_next(&out)) {
    memset(c, 0, (size_t)(columns + 1) * sizeof(*c));
    const double *block = b + n / rows * inner * columns;
    if (columns == 1)
      c[0] = ptc_dot(a + n * inner, 1, block, 1, inner);
    else
      row_product(a + n * inner, block, c, inner, columns);
    const double *from = c;
    for (bool next = ptc_nest_begin(&line); next; next = ptc_nest_next(&line))
      call->out[0]->data[out.offset[0] + line.offset[0]] = *from++;
  }
  free(a);
  free(b);
  free(c);
  return PTC_OK;
}
