// attention and its gradient, one row of scores at a time.
//   u = scale * sum_dot q * key      z = softcap(u) + bias      P = softmax_attend(z)
//   out = sum_attend (P * keep / (1 - p)) * val
#include <math.h>
#include <stdlib.h>

#include "ir/interp_impl.h"

// How a tensor moves along the row: per attended position, and per element of the dotted dim or
// (val, out and their gradients) of val's own dims.
typedef struct along_s {
  int32_t tensor;  // in the nest; -1 if the op does not have it
  int64_t attend;
  double *base;
} along_t;

typedef struct attention_s {
  const ptc_call_t *call;
  ptc_attention_operands_t at;
  ptc_nest_t nest;  // rows: dims of the scores without |attend|
  along_t q, key, val, mask, bias, lse, out, dout, dq, dkey, dval, dbias;
  const char *dot, *attend;
  int64_t positions, width, q_dot, key_dot, dq_dot, dkey_dot;
  // Of val's own dims: offsets in val, out, dout, dval.
  int64_t own, *own_val, *own_out, *own_dout, *own_dval;
  double scale, softcap, p;
  ptc_numbering_t numbering;
  uint64_t attend_number;  // distance in element numbers of neighbouring attended positions
  ptc_stream_t stream;
  double *u, *prob, *keep;  // of one row; keep includes 1 / (1 - p)
} attention_t;

static along_t along(attention_t *self, const ptc_type_t *type, double *data) {
  along_t result = {.tensor = self->nest.num_tensors, .base = data};
  ptc_nest_add_tensor(&self->nest, type, NULL);
  result.attend = ptc_call_stride(self->call, type, self->attend);
  return result;
}

static along_t along_in(attention_t *self, int32_t index) {
  if (index < 0) return (along_t){.tensor = -1};
  return along(self, ptc_call_in(self->call, index), self->call->in[index]->data);
}

static along_t along_out(attention_t *self, int32_t index) {
  if (index < 0) return (along_t){.tensor = -1};
  return along(self, ptc_call_out(self->call, index), self->call->out[index]->data);
}

static double *row_of(const attention_t *self, const along_t *tensor) {
  return tensor->base + self->nest.offset[tensor->tensor];
}

// Dims of val that the scores lack.
static ptc_attr_t own_dims(const attention_t *self, const char **names) {
  const ptc_type_t *val = ptc_call_in(self->call, self->at.val);
  ptc_attr_t list = {.kind = PTC_ATTR_DIMS, .u.dims = names};
  for (int32_t i = 0; i < val->num_dims; i++) {
    const char *name = val->dims[i].name;
    if (name != self->attend && ptc_nest_find(&self->nest, name) < 0) names[list.count++] = name;
  }
  return list;
}

// Numbers of scores: row-major over q's dims without |dot|, then key's that q lacks.
static void init_dropout(attention_t *self, const ptc_type_t *q, const ptc_type_t *key) {
  ptc_dim_t dims[2 * PTC_MAX_DIMS];
  int32_t num_dims = 0;
  for (int32_t i = 0; i < q->num_dims; i++)
    if (q->dims[i].name != self->dot) dims[num_dims++] = q->dims[i];
  for (int32_t i = 0; i < key->num_dims; i++)
    if (key->dims[i].name != self->dot && !ptc_type_has_dim(q, key->dims[i].name))
      dims[num_dims++] = key->dims[i];
  self->numbering = ptc_numbering_init(&self->nest, dims, num_dims);
  self->attend_number = 1;
  for (int32_t i = num_dims - 1; i >= 0 && dims[i].name != self->attend; i--)
    self->attend_number *= (uint64_t)dims[i].extent;
  if (self->at.seed >= 0) self->stream = ptc_call_stream(self->call, self->at.seed);
}

static void attention_init(attention_t *self, const ptc_call_t *call) {
  *self = (attention_t){.call = call, .at = ptc_attention_operands(call->op)};
  const ptc_op_t *op = call->op;
  const ptc_type_t *q = ptc_call_in(call, self->at.q), *key = ptc_call_in(call, self->at.key);
  const ptc_type_t *val = ptc_call_in(call, self->at.val);
  bool grad = self->at.dout >= 0;
  self->dot = ptc_op_string(op, "dot");
  self->attend = ptc_op_string(op, "attend");
  self->scale = ptc_op_float(op, "scale");
  self->softcap = ptc_op_float(op, "softcap");
  self->p = ptc_op_float(op, "p");
  ptc_nest_init(&self->nest, call);
  ptc_nest_add_dims(&self->nest, q);
  ptc_nest_add_dims(&self->nest, key);
  ptc_nest_drop_name(&self->nest, self->dot);
  ptc_nest_drop_name(&self->nest, self->attend);
  self->positions = key->dims[ptc_type_find_dim(key, self->attend)].extent;
  self->width = q->dims[ptc_type_find_dim(q, self->dot)].extent;
  self->q = along_in(self, self->at.q);
  self->key = along_in(self, self->at.key);
  self->val = along_in(self, self->at.val);
  self->mask = along_in(self, self->at.mask);
  self->bias = along_in(self, self->at.bias);
  self->lse = grad ? along_in(self, self->at.lse) : along_out(self, 1);
  self->out = grad ? along_in(self, self->at.out) : along_out(self, 0);
  self->dout = along_in(self, self->at.dout);
  self->dq = along_out(self, grad ? 0 : -1);
  self->dkey = along_out(self, grad ? 1 : -1);
  self->dval = along_out(self, grad ? 2 : -1);
  self->dbias = along_out(self, grad && self->at.bias >= 0 ? 3 : -1);
  self->q_dot = ptc_call_stride(call, q, self->dot);
  self->key_dot = ptc_call_stride(call, key, self->dot);
  const char *names[PTC_MAX_DIMS];
  ptc_attr_t own = own_dims(self, names);
  const ptc_type_t *out = grad ? ptc_call_in(call, self->at.out) : ptc_call_out(call, 0);
  self->own_val = ptc_row_offsets(call, val, &own, val, &self->own);
  self->own_out = ptc_row_offsets(call, val, &own, out, &self->own);
  if (grad) {
    self->dq_dot = ptc_call_stride(call, ptc_call_out(call, 0), self->dot);
    self->dkey_dot = ptc_call_stride(call, ptc_call_out(call, 1), self->dot);
    self->own_dout = ptc_row_offsets(call, val, &own, ptc_call_in(call, self->at.dout), &self->own);
    self->own_dval = ptc_row_offsets(call, val, &own, ptc_call_out(call, 2), &self->own);
  }
  init_dropout(self, q, key);
  size_t bytes = (size_t)(self->positions + 1) * sizeof(double);
  self->u = ptc_xmalloc(bytes);
  self->prob = ptc_xmalloc(bytes);
  self->keep = ptc_xmalloc(bytes);
}

static void attention_free(attention_t *self) {
  free(self->own_val);
  free(self->own_out);
  free(self->own_dout);
  free(self->own_dval);
  free(self->u);
  free(self->prob);
  free(self->keep);
}

// Fills u and keep; z goes to prob (minus infinity where masked).
static void score_row(attention_t *self) {
  const double *q = row_of(self, &self->q), *key = row_of(self, &self->key);
  uint64_t number = ptc_numbering_get(&self->numbering, &self->nest);
  for (int64_t t = 0; t < self->positions; t++) {
    self->keep[t] = 1;
    if (self->at.seed >= 0) {
      uint64_t element = number + (uint64_t)t * self->attend_number;
      self->keep[t] = ptc_stream_uniform(&self->stream, element) >= self->p ? 1 / (1 - self->p) : 0;
    }
    self->prob[t] = -INFINITY;
    if (self->mask.tensor >= 0 && row_of(self, &self->mask)[t * self->mask.attend] == 0) continue;
    double u = self->scale *
               ptc_dot(q, self->q_dot, key + t * self->key.attend, self->key_dot, self->width);
    self->u[t] = u;
    double z = self->softcap > 0 ? self->softcap * tanh(u / self->softcap) : u;
    if (self->bias.tensor >= 0) z += row_of(self, &self->bias)[t * self->bias.attend];
    self->prob[t] = z;
  }
}

ptc_status_t ptc_interp_attention(const ptc_call_t *call) {
  attention_t self;
  attention_init(&self, call);
  for (bool more = ptc_nest_begin(&self.nest); more; more = ptc_nest_next(&self.nest)) {
    score_row(&self);
    double max = -INFINITY, sum = 0, *out = row_of(&self, &self.out);
    const double *val = row_of(&self, &self.val);
    for (int64_t t = 0; t < self.positions; t++)
      if (ptc_exceeds(self.prob[t], max)) max = self.prob[t];
    *row_of(&self, &self.lse) = -INFINITY;
    if (max == -INFINITY) continue;  // nothing to attend to: P = 0
    for (int64_t t = 0; t < self.positions; t++) sum += self.prob[t] = exp(self.prob[t] - max);
    *row_of(&self, &self.lse) = max + log(sum);
    for (int64_t t = 0; t < self.positions; t++) {
      double weight = self.prob[t] / sum * self.keep[t];
      if (weight == 0) continue;
      for (int64_t w = 0; w < self.own; w++)
        out[self.own_out[w]] += weight * val[t * self.val.attend + self.own_val[w]];
    }
  }
  attention_free(&self);
  return PTC_OK;
}

// From P = exp(z - lse), with d = sum over val's own dims of dout * out (which is sum_attend P dP,
// also with dropout; Dao et al. 2022, arXiv:2205.14135, appendix B.4):
//   dP = keep * sum dout * val    dz = P * (dP - d)    du = dz * (1 - tanh^2(u / cap))
static void grad_row(attention_t *self) {
  const double *q = row_of(self, &self->q), *key = row_of(self, &self->key);
  const double *val = row_of(self, &self->val), *out = row_of(self, &self->out);
  const double *dout = row_of(self, &self->dout);
  double *dq = row_of(self, &self->dq), *dkey = row_of(self, &self->dkey);
  double *dval = row_of(self, &self->dval), lse = *row_of(self, &self->lse), d = 0;
  for (int64_t w = 0; w < self->own; w++) d += dout[self->own_dout[w]] * out[self->own_out[w]];
  for (int64_t t = 0; t < self->positions; t++) {
    double prob = exp(self->prob[t] - lse), keep = self->keep[t], dprob = 0;
    if (prob == 0) continue;
    for (int64_t w = 0; keep != 0 && w < self->own; w++) {
      double g = dout[self->own_dout[w]] * keep;
      dprob += g * val[t * self->val.attend + self->own_val[w]];
      dval[t * self->dval.attend + self->own_dval[w]] += g * prob;
    }
    double dz = prob * (dprob - d);
    if (self->dbias.tensor >= 0) row_of(self, &self->dbias)[t * self->dbias.attend] += dz;
    double slope = self->softcap > 0 ? tanh(self->u[t] / self->softcap) : 0;
    double du = dz * (1 - slope * slope) * self->scale;
    const double *key_t = key + t * self->key.attend;
    double *dkey_t = dkey + t * self->dkey.attend;
    for (int64_t k = 0; k < self->width; k++) {
      dq[k * self->dq_dot] += du * key_t[k * self->key_dot];
      dkey_t[k * self->dkey_dot] += du * q[k * self->q_dot];
    }
  }
}

ptc_status_t ptc_interp_attention_grad(const ptc_call_t *call) {
  attention_t self;
  attention_init(&self, call);
  for (bool more = ptc_nest_begin(&self.nest); more; more = ptc_nest_next(&self.nest)) {
    if (*row_of(&self, &self.lse) == -INFINITY) continue;
    score_row(&self);
    grad_row(&self);
  }
  attention_free(&self);
  return PTC_OK;
}
