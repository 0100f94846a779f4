// Reductions, scans, the order of elements. Sums run in double, in row-major order.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"
#include "ir/limbs.h"

bool ptc_exceeds(double a, double b) { return a > b || (isnan(a) && !isnan(b)); }

// The nest over the operand; tensor 0 is the operand, 1 the result.
static void reduce_nest(ptc_nest_t *nest, const ptc_call_t *call) {
  ptc_nest_init(nest, call);
  ptc_nest_add_dims(nest, ptc_call_in(call, 0));
  ptc_nest_add_tensor(nest, ptc_call_in(call, 0), NULL);
  ptc_nest_add_tensor(nest, ptc_call_out(call, 0), NULL);
}

ptc_status_t ptc_interp_reduce_sum(const ptc_call_t *call) {
  ptc_nest_t nest;
  reduce_nest(&nest, call);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest))
    call->out[0]->data[nest.offset[1]] += call->in[0]->data[nest.offset[0]];
  return PTC_OK;
}

// The maximum of nothing is minus infinity.
ptc_status_t ptc_interp_reduce_max(const ptc_call_t *call) {
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, ptc_call_out(call, 0));
  ptc_nest_add_tensor(&nest, ptc_call_out(call, 0), NULL);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest))
    call->out[0]->data[nest.offset[0]] = -INFINITY;
  reduce_nest(&nest, call);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    double x = call->in[0]->data[nest.offset[0]];
    double *max = &call->out[0]->data[nest.offset[1]];
    if (ptc_exceeds(x, *max)) *max = x;
  }
  return PTC_OK;
}

ptc_status_t ptc_interp_square_sum(const ptc_call_t *call) {
  int64_t limbs[PTC_LIMBS] = {0};
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, ptc_call_in(call, 0));
  ptc_nest_add_tensor(&nest, ptc_call_in(call, 0), NULL);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest))
    ptc_limbs_add_square(limbs, call->in[0]->data[nest.offset[0]]);
  ptc_limbs_normalize(limbs);
  for (int k = 0; k < PTC_LIMBS; k++) call->out[0]->data[k] = (double)limbs[k];
  return PTC_OK;
}

ptc_status_t ptc_interp_limbs_value(const ptc_call_t *call) {
  int64_t limbs[PTC_LIMBS];
  for (int k = 0; k < PTC_LIMBS; k++) limbs[k] = (int64_t)call->in[0]->data[k];
  call->out[0]->data[0] = ptc_limbs_value(limbs);
  return PTC_OK;
}

// Padding is zero, hence finite.
ptc_status_t ptc_interp_all_finite(const ptc_call_t *call) {
  int64_t count = call->in[0]->num_elements * call->in[0]->num_instances;
  bool finite = true;
  for (int64_t i = 0; i < count; i++) finite &= isfinite(call->in[0]->data[i]) != 0;
  call->out[0]->data[0] = finite;
  return PTC_OK;
}

// --- along one dim, for all positions of the others

typedef struct lines_s {
  ptc_nest_t nest;  // tensor 0 is the operand, 1 and 2 the results
  int64_t length, step[3];
} lines_t;

static void lines_init(lines_t *lines, const ptc_call_t *call) {
  const char *dim = ptc_op_string(call->op, "dim"), *into = ptc_op_string(call->op, "into");
  const ptc_type_t *x = ptc_call_in(call, 0);
  ptc_nest_t *nest = &lines->nest;
  ptc_nest_init(nest, call);
  ptc_nest_add_dims(nest, x);
  ptc_nest_drop_name(nest, dim);
  ptc_nest_add_tensor(nest, x, NULL);
  lines->length = x->dims[ptc_type_find_dim(x, dim)].extent;
  lines->step[0] = ptc_call_stride(call, x, dim);
  for (int32_t i = 0; i < call->op->num_results; i++) {
    ptc_nest_add_tensor(nest, ptc_call_out(call, i), NULL);
    lines->step[i + 1] = ptc_call_stride(call, ptc_call_out(call, i), into ? into : dim);
  }
}

ptc_status_t ptc_interp_argmax(const ptc_call_t *call) {
  lines_t lines;
  lines_init(&lines, call);
  ptc_nest_t *nest = &lines.nest;
  for (bool more = ptc_nest_begin(nest); more; more = ptc_nest_next(nest)) {
    const double *x = call->in[0]->data + nest->offset[0];
    int64_t best = 0;
    for (int64_t i = 1; i < lines.length; i++)
      if (ptc_exceeds(x[i * lines.step[0]], x[best * lines.step[0]])) best = i;
    call->out[0]->data[nest->offset[1]] = (double)best;
  }
  return PTC_OK;
}

ptc_status_t ptc_interp_cumsum(const ptc_call_t *call) {
  lines_t lines;
  lines_init(&lines, call);
  bool reverse = ptc_op_bool(call->op, "reverse");
  ptc_nest_t *nest = &lines.nest;
  for (bool more = ptc_nest_begin(nest); more; more = ptc_nest_next(nest)) {
    double sum = 0;
    for (int64_t i = 0; i < lines.length; i++) {
      int64_t at = reverse ? lines.length - 1 - i : i;
      sum += call->in[0]->data[nest->offset[0] + at * lines.step[0]];
      call->out[0]->data[nest->offset[1] + at * lines.step[1]] = sum;
    }
  }
  return PTC_OK;
}

// The running maximum or its index, the first on ties.
static ptc_status_t running_max(const ptc_call_t *call, bool index) {
  lines_t lines;
  lines_init(&lines, call);
  ptc_nest_t *nest = &lines.nest;
  for (bool more = ptc_nest_begin(nest); more; more = ptc_nest_next(nest)) {
    const double *x = call->in[0]->data + nest->offset[0];
    double *y = call->out[0]->data + nest->offset[1];
    int64_t best = 0;
    for (int64_t i = 0; i < lines.length; i++) {
      if (ptc_exceeds(x[i * lines.step[0]], x[best * lines.step[0]])) best = i;
      y[i * lines.step[1]] = index ? (double)best : x[best * lines.step[0]];
    }
  }
  return PTC_OK;
}

ptc_status_t ptc_interp_cummax(const ptc_call_t *call) { return running_max(call, false); }
ptc_status_t ptc_interp_cumargmax(const ptc_call_t *call) { return running_max(call, true); }

// By repeated selection: the number of picks is small.
ptc_status_t ptc_interp_topk(const ptc_call_t *call) {
  lines_t lines;
  lines_init(&lines, call);
  int64_t picks = ptc_op_int(call->op, "extent");
  bool *taken = ptc_xmalloc((size_t)lines.length + 1);
  ptc_nest_t *nest = &lines.nest;
  for (bool more = ptc_nest_begin(nest); more; more = ptc_nest_next(nest)) {
    const double *x = call->in[0]->data + nest->offset[0];
    memset(taken, 0, (size_t)lines.length + 1);
    for (int64_t p = 0; p < picks; p++) {
      int64_t best = -1;
      for (int64_t i = 0; i < lines.length; i++)
        if (!taken[i] && (best < 0 || ptc_exceeds(x[i * lines.step[0]], x[best * lines.step[0]])))
          best = i;
      if (best < 0) break;
      taken[best] = true;
      call->out[0]->data[nest->offset[1] + p * lines.step[1]] = x[best * lines.step[0]];
      call->out[1]->data[nest->offset[2] + p * lines.step[2]] = (double)best;
    }
  }
  free(taken);
  return PTC_OK;
}

// --- dispatch_slot

typedef struct keyed_s {
  double key;
  int64_t order;
} keyed_t;

static int by_key_and_order(const void *a, const void *b) {
  const keyed_t *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->order > y->order) - (x->order < y->order);
}

ptc_status_t ptc_interp_dispatch_slot(const ptc_call_t *call) {
  const ptc_attr_t *over = ptc_op_attr(call->op, "over");
  const ptc_type_t *type = ptc_call_in(call, 0), *result = ptc_call_out(call, 0);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, type);
  ptc_nest_drop(&nest, over);
  ptc_nest_add_tensor(&nest, type, NULL);
  ptc_nest_add_tensor(&nest, result, NULL);
  int64_t count;
  int64_t *from = ptc_row_offsets(call, type, over, type, &count);
  int64_t *to = ptc_row_offsets(call, type, over, result, &count);
  keyed_t *items = ptc_xmalloc((size_t)(count + 1) * sizeof(*items));
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    for (int64_t i = 0; i < count; i++)
      items[i] = (keyed_t){call->in[0]->data[nest.offset[0] + from[i]], i};
    qsort(items, (size_t)count, sizeof(*items), by_key_and_order);
    int64_t slot = 0;
    for (int64_t i = 0; i < count; i++) {
      slot = i > 0 && items[i].key == items[i - 1].key ? slot + 1 : 0;
      call->out[0]->data[nest.offset[1] + to[items[i].order]] = (double)slot;
    }
  }
  free(from);
  free(to);
  free(items);
  return PTC_OK;
}
