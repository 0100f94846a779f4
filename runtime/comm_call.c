#include "runtime/comm_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *ptc_comm_end_id(ptc_comm_end_t end) {
  static const char *const ids[] = {[PTC_COMM_ABORTED] = "comm-aborted",
                                    [PTC_COMM_MISMATCH] = "comm-mismatch",
                                    [PTC_COMM_LOST] = "comm-lost",
                                    [PTC_COMM_STUCK] = "comm-stuck"};
  return ids[end];
}

static uint64_t mix(uint64_t hash, int64_t number) {
  hash = (hash ^ (uint64_t)number) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static bool adds(int32_t kind) {
  return kind == PTC_COLLECTIVE_ALL_REDUCE || kind == PTC_COLLECTIVE_REDUCE_SCATTER;
}

ptc_comm_call_t ptc_comm_call_of(const ptc_collective_t *c) {
  ptc_comm_call_t call = {.kind = (int32_t)c->kind,
                          .reduce = adds((int32_t)c->kind) ? (int32_t)c->reduce : 0,
                          .dtype = (int32_t)c->dtype,
                          .num_parts = c->num_parts};
  for (int32_t p = 0; p < c->num_parts; p++) {
    const ptc_pieces_t *pieces[2] = {&c->parts[p].in, &c->parts[p].out};
    call.bytes += pieces[0]->outer * pieces[0]->row;
    for (int i = 0; i < 2; i++) {
      call.hash = mix(call.hash, pieces[i]->outer);
      call.hash = mix(call.hash, pieces[i]->chunk);
      call.hash = mix(call.hash, pieces[i]->row);
    }
  }
  return call;
}

// "all_reduce sum of f32, parts: 2, bytes: 1024"
static void describe_call(const ptc_comm_call_t *call, char out[128]) {
  if (call->kind < 0) {
    snprintf(out, 128, "a barrier");
    return;
  }
  const char *reduce = !adds(call->kind) ? "" : call->reduce == PTC_REDUCE_MAX ? " max" : " sum";
  snprintf(out, 128, "%s%s of %s, parts: %d, bytes: %" PRId64,
           ptc_collective_name((ptc_collective_kind_t)call->kind), reduce,
           ptc_dtype_name((ptc_dtype_t)call->dtype), call->num_parts, call->bytes);
}

void ptc_comm_describe_mismatch(const ptc_comm_call_t *first, int32_t first_rank,
                                const ptc_comm_call_t *other, int32_t other_rank, int32_t size,
                                char out[PTC_COMM_REASON]) {
  char texts[2][128];
  describe_call(first, texts[0]);
  describe_call(other, texts[1]);
  const char *same = strcmp(texts[0], texts[1]) == 0 ? ", with parts cut in another way" : "";
  snprintf(out, PTC_COMM_REASON,
           "ranks %d and %d do not call the same: rank %d %s; rank %d %s%s (a group of %d ranks)",
           first_rank, other_rank, first_rank, texts[0], other_rank, texts[1], same, size);
}

void ptc_comm_describe_context(const char *step, ptc_loc_t loc, char out[PTC_COMM_CONTEXT]) {
  memset(out, 0, PTC_COMM_CONTEXT);
  if (!loc.file) {
    snprintf(out, PTC_COMM_CONTEXT, "%s", step);
    return;
  }
  const char *name = strrchr(loc.file, '/');
  snprintf(out, PTC_COMM_CONTEXT, "%.100s (%.40s:%d)", step, name ? name + 1 : loc.file, loc.line);
}
