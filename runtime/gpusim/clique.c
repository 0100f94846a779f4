#include "runtime/gpusim/clique.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/combine.h"

static void *zeros(int64_t count, size_t bytes) {
  void *memory = calloc((size_t)(count > 0 ? count : 1), bytes);
  if (!memory) ptc_oom((size_t)count * bytes);
  return memory;
}

// --- types

static ptc_dtype_t dtype_of(int32_t type) {
  switch (type) {
    case PTC_NCCL_UINT8: return PTC_BOOL;
    case PTC_NCCL_INT32: return PTC_I32;
    case PTC_NCCL_INT64: return PTC_I64;
    case PTC_NCCL_FLOAT16: return PTC_F16;
    case PTC_NCCL_FLOAT32: return PTC_F32;
    case PTC_NCCL_FLOAT64: return PTC_F64;
    default: return PTC_BF16;
  }
}

static int64_t bytes_of(const sim_nccl_call_t *call) {
  return call->count * ptc_dtype_bytes(dtype_of(call->type));
}

static const char *type_name(int32_t type) {
  return type == PTC_NCCL_UINT8 ? "u8" : ptc_dtype_name(dtype_of(type));
}

// --- the clique

sim_clique_t *sim_clique_create(const ptc_nccl_id_t *id, int32_t size) {
  sim_clique_t *clique = zeros(1, sizeof *clique);
  clique->id = *id;
  clique->size = size;
  clique->members = zeros(size, sizeof *clique->members);
  return clique;
}

static void destroy_op(sim_nccl_op_t *op) {
  free(op->ins);
  free(op->outs);
  free(op);
}

void sim_clique_destroy(sim_clique_t *clique) {
  for (int64_t i = 0; i < clique->ops.len; ++i) destroy_op(clique->ops.data[i]);
  for (int64_t i = 0; i < clique->splits.len; ++i) {
    sim_split_t *split = clique->splits.data[i];
    free(split->colors);
    free(split->keys);
    free(split->parts);
    free(split->called);
    free(split);
  }
  for (int32_t r = 0; r < clique->size; ++r) {
    if (!clique->members[r]) continue;
    sim_comm_t *member = clique->members[r];
    for (int64_t i = 0; i < member->registered.len; ++i) free(member->registered.data[i]);
    PTC_VEC_FREE(&member->registered);
    free(clique->members[r]->num_sent);
    free(clique->members[r]->num_received);
    free(clique->members[r]);
  }
  PTC_VEC_FREE(&clique->ops);
  PTC_VEC_FREE(&clique->splits);
  free(clique->members);
  free(clique);
}

int sim_clique_fail(sim_clique_t *clique, int code, const char *format, ...) {
  if (clique->error) return clique->error;
  va_list args;
  va_start(args, format);
  vsnprintf(clique->text, sizeof clique->text, format, args);
  va_end(args);
  return clique->error = code;
}

sim_comm_t *sim_clique_join(sim_clique_t *clique, int32_t rank, int32_t device) {
  if (clique->members[rank]) {
    sim_clique_fail(clique, PTC_NCCL_INVALID_USAGE, "rank %" PRId32 " comes twice", rank);
    return NULL;
  }
  for (int32_t r = 0; r < clique->size; ++r) {
    if (!clique->members[r] || clique->members[r]->device != device) continue;
    sim_clique_fail(clique, PTC_NCCL_INVALID_USAGE,
                    "duplicate GPU: ranks %" PRId32 " and %" PRId32 " are both on GPU %" PRId32, r,
                    rank, device);
    return NULL;
  }
  sim_comm_t *comm = zeros(1, sizeof *comm);
  *comm = (sim_comm_t){.clique = clique, .rank = rank, .device = device};
  comm->num_sent = zeros(clique->size, sizeof *comm->num_sent);
  comm->num_received = zeros(clique->size, sizeof *comm->num_received);
  clique->members[rank] = comm;
  ++clique->num_here;
  return comm;
}

// --- calls

// "ncclAllReduce (sum of 24 f32)"
static void describe(const sim_nccl_op_t *op, const sim_nccl_call_t *call, bool sends,
                     char out[128]) {
  static const char *const names[] = {[SIM_NCCL_OP_ALL_REDUCE] = "ncclAllReduce",
                                      [SIM_NCCL_OP_REDUCE] = "ncclReduce",
                                      [SIM_NCCL_OP_BROADCAST] = "ncclBroadcast",
                                      [SIM_NCCL_OP_REDUCE_SCATTER] = "ncclReduceScatter",
                                      [SIM_NCCL_OP_ALL_GATHER] = "ncclAllGather",
                                      [SIM_NCCL_OP_MESSAGE] = "ncclRecv"};
  const bool reduces = call->kind == SIM_NCCL_OP_ALL_REDUCE || call->kind == SIM_NCCL_OP_REDUCE ||
                       call->kind == SIM_NCCL_OP_REDUCE_SCATTER;
  const bool rooted = call->kind == SIM_NCCL_OP_REDUCE || call->kind == SIM_NCCL_OP_BROADCAST;
  char root[32] = "";
  if (rooted) snprintf(root, sizeof root, ", root %" PRId32, call->root);
  snprintf(out, 128, "%s (%s%" PRId64 " %s%s)",
           op->num_parties == 2 && call->kind == SIM_NCCL_OP_MESSAGE && sends ? "ncclSend"
                                                                              : names[call->kind],
           !reduces                       ? ""
           : call->reduce == PTC_NCCL_MAX ? "max of "
                                          : "sum of ",
           call->count, type_name(call->type), root);
}

static sim_nccl_op_t *find_op(sim_clique_t *clique, bool message, int64_t number, int32_t from,
                              int32_t to) {
  for (int64_t i = 0; i < clique->ops.len; ++i) {
    sim_nccl_op_t *op = clique->ops.data[i];
    if (op->number == number && (op->call.kind == SIM_NCCL_OP_MESSAGE) == message &&
        (!message || (op->from == from && op->to == to)))
      return op;
  }
  return NULL;
}

static bool is_same(const sim_nccl_call_t *a, const sim_nccl_call_t *b) {
  return a->kind == b->kind && a->type == b->type && a->reduce == b->reduce && a->root == b->root &&
         a->count == b->count;
}

sim_nccl_op_t *sim_clique_call(sim_comm_t *comm, const sim_nccl_call_t *call, int32_t peer,
                               bool sends) {
  sim_clique_t *clique = comm->clique;
  const bool message = call->kind == SIM_NCCL_OP_MESSAGE;
  const int32_t from = sends ? comm->rank : peer, to = sends ? peer : comm->rank;
  const int64_t number = !message ? comm->num_collectives++
                         : sends  ? comm->num_sent[peer]++
                                  : comm->num_received[peer]++;
  sim_nccl_op_t *op = find_op(clique, message, number, from, to);
  if (!op) {
    op = zeros(1, sizeof *op);
    *op = (sim_nccl_op_t){.call = *call,
                          .number = number,
                          .first = comm->rank,
                          .from = message ? from : 0,
                          .to = message ? to : 0,
                          .num_parties = message ? 2 : clique->size};
    op->ins = zeros(op->num_parties, sizeof *op->ins);
    op->outs = zeros(op->num_parties, sizeof *op->outs);
    PTC_VEC_PUSH(&clique->ops, op);
  }
  if (is_same(&op->call, call)) {
    ++op->num_called;
    return op;
  }
  char first[128], other[128];
  describe(op, &op->call, op->first == from, first);
  describe(op, call, sends, other);
  sim_clique_fail(clique, PTC_NCCL_INVALID_USAGE,
                  "%s %" PRId64 " of %" PRId32 " ranks is not the same on all: rank %" PRId32
                  " calls %s, rank %" PRId32 " calls %s",
                  message ? "message" : "collective", number, clique->size, op->first, first,
                  comm->rank, other);
  return NULL;
}

// --- carrying out

int64_t sim_nccl_op_in_bytes(const sim_nccl_op_t *op, int32_t party) {
  const int64_t bytes = bytes_of(&op->call);
  switch (op->call.kind) {
    case SIM_NCCL_OP_REDUCE_SCATTER: return bytes * op->num_parties;
    case SIM_NCCL_OP_BROADCAST: return party == op->call.root ? bytes : 0;
    case SIM_NCCL_OP_MESSAGE: return party == 0 ? bytes : 0;
    default: return bytes;
  }
}

int64_t sim_nccl_op_out_bytes(const sim_nccl_op_t *op, int32_t party) {
  const int64_t bytes = bytes_of(&op->call);
  switch (op->call.kind) {
    case SIM_NCCL_OP_ALL_GATHER: return bytes * op->num_parties;
    case SIM_NCCL_OP_REDUCE: return party == op->call.root ? bytes : 0;
    case SIM_NCCL_OP_MESSAGE: return party == 1 ? bytes : 0;
    default: return bytes;
  }
}

// In the order of members, as ptc's other communicators add; NCCL promises no order.
static void reduce(const sim_nccl_op_t *op, int64_t offset, void *const *outs, int32_t num_outs) {
  const void **ins = zeros(op->num_parties, sizeof *ins);
  for (int32_t p = 0; p < op->num_parties; ++p) ins[p] = (const char *)op->ins[p] + offset;
  ptc_combine(op->call.reduce == PTC_NCCL_MAX ? PTC_REDUCE_MAX : PTC_REDUCE_SUM,
              dtype_of(op->call.type), ins, op->num_parties, outs, num_outs, bytes_of(&op->call));
  free(ins);
}

static void carry_out(const sim_nccl_op_t *op) {
  const int64_t bytes = bytes_of(&op->call);
  const int32_t size = op->num_parties;
  switch (op->call.kind) {
    case SIM_NCCL_OP_ALL_REDUCE: reduce(op, 0, op->outs, size); break;
    case SIM_NCCL_OP_REDUCE: reduce(op, 0, &op->outs[op->call.root], 1); break;
    case SIM_NCCL_OP_REDUCE_SCATTER:
      for (int32_t p = 0; p < size; ++p) reduce(op, p * bytes, &op->outs[p], 1);
      break;
    case SIM_NCCL_OP_BROADCAST:
      for (int32_t p = 0; p < size; ++p)
        memmove(op->outs[p], op->ins[op->call.root], (size_t)bytes);
      break;
    case SIM_NCCL_OP_ALL_GATHER:
      for (int32_t p = 0; p < size; ++p)
        for (int32_t q = 0; q < size; ++q)
          memmove((char *)op->outs[p] + q * bytes, op->ins[q], (size_t)bytes);
      break;
    case SIM_NCCL_OP_MESSAGE: memmove(op->outs[1], op->ins[0], (size_t)bytes); break;
  }
}

void sim_nccl_op_arrive(sim_nccl_op_t *op, int32_t party, const void *in, void *out) {
  op->ins[party] = in;
  op->outs[party] = out;
  if (++op->num_arrived < op->num_parties) return;
  carry_out(op);
  op->done = true;
}

void sim_nccl_op_leave(sim_clique_t *clique, sim_nccl_op_t *op) {
  if (++op->num_left < op->num_parties) return;
  for (int64_t i = 0; i < clique->ops.len; ++i) {
    if (clique->ops.data[i] != op) continue;
    clique->ops.data[i] = clique->ops.data[--clique->ops.len];
    destroy_op(op);
    return;
  }
}
