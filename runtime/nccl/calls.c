// Collectives of a plan as calls of NCCL. NCCL knows whole, equal pieces that lie together; the parts of a plan may have
// rows with a piece of each member, and rows that end early. By cost:
//   pieces that lie together, equal            one call for the part
//   the same, but the last ones are cut off    a broadcast or a reduction to each member
//   a few rows of equal pieces                 one call for each row
//   many rows, or rows cut off                 one call over a copy in which pieces lie together (copies on the device
//                                              of twice the bytes, which cost less than many small calls)
// All calls of a collective are one group of NCCL's.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl/nccl_impl.h"
#include "runtime/transfer.h"

enum { MOST_CALLS = 8, STAGE_ALIGN = 256 };

// One collective as it is queued.
typedef struct call_s {
  ptc_nccl_endpoint_t *e;
  const ptc_nccl_group_t *group;
  const ptc_collective_t *c;
  void *const *args;
  void *queue;       // the stream as the driver knows it
  int type, reduce;  // NCCL's
  int64_t elem;
  int64_t stage_used;
} call_t;

static int type_of(ptc_dtype_t dtype) {
  static const int types[PTC_NUM_DTYPES] = {
      [PTC_BOOL] = PTC_NCCL_UINT8,  [PTC_I32] = PTC_NCCL_INT32,     [PTC_I64] = PTC_NCCL_INT64,
      [PTC_F16] = PTC_NCCL_FLOAT16, [PTC_BF16] = PTC_NCCL_BFLOAT16, [PTC_F32] = PTC_NCCL_FLOAT32,
      [PTC_F64] = PTC_NCCL_FLOAT64};
  return types[dtype];
}

// A sum of bools is their or, the greatest of them.
static int reduce_of(const ptc_collective_t *c) {
  return c->reduce == PTC_REDUCE_MAX || c->dtype == PTC_BOOL ? PTC_NCCL_MAX : PTC_NCCL_SUM;
}

static void *at(int64_t address, int64_t offset) {
  return (void *)(uintptr_t)((uint64_t)address + (uint64_t)offset);
}

static int64_t operand(const call_t *call, int32_t part) {
  return (int64_t)(uintptr_t)call->args[2 * part];
}

static int64_t result(const call_t *call, int32_t part) {
  return (int64_t)(uintptr_t)call->args[2 * part + 1];
}

#define NCCL(call, diag, name, ...) \
  PTC_NCCL_CALL((call)->e, (diag), (call)->group->comm, name, __VA_ARGS__)

static size_t count_of(const call_t *call, int64_t bytes) { return (size_t)(bytes / call->elem); }

static int64_t chunk_left(const ptc_pieces_t *pieces, int32_t member) {
  const int64_t left = pieces->row - member * pieces->chunk;
  return left < 0 ? 0 : left > pieces->chunk ? pieces->chunk : left;
}

// --- the form of a part

typedef enum form_e { FORM_WHOLE, FORM_ROOTS, FORM_ROWS, FORM_STAGED } form_t;

static form_t form_of(const ptc_pieces_t *pieces, int32_t size) {
  const bool equal = pieces->chunk * size == pieces->row;
  if (pieces->outer == 1) return equal ? FORM_WHOLE : FORM_ROOTS;
  return equal && pieces->outer <= MOST_CALLS ? FORM_ROWS : FORM_STAGED;
}

static bool is_direct(const ptc_transfer_t *t) { return t->n[0] * t->n[1] <= MOST_CALLS; }

static int64_t aligned(int64_t bytes) {
  return (bytes + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
}

// How a kind's pieces go from member to member, where they are copied.
static ptc_transfer_kind_t moves_of(const ptc_collective_t *c) {
  return c->kind == PTC_COLLECTIVE_RING_SHIFT ? PTC_TRANSFER_SHIFT : PTC_TRANSFER_EXCHANGE;
}

// What goes from |sender| to |receiver| of part |p|.
static ptc_transfer_t transfer_of(const call_t *call, int32_t p, int32_t sender, int32_t receiver) {
  return ptc_transfer_of(moves_of(call->c), &call->c->parts[p], call->c->dtype, call->group->size,
                         sender, receiver);
}

// Bytes of the stage that part |p| takes.
static int64_t stage_of(const call_t *call, int32_t p) {
  const ptc_collective_part_t *part = &call->c->parts[p];
  const int32_t size = call->group->size, me = call->group->me;
  int64_t bytes = 0;
  switch (call->c->kind) {
    case PTC_COLLECTIVE_ALL_REDUCE: return 0;
    case PTC_COLLECTIVE_ALL_GATHER:
      return form_of(&part->out, size) == FORM_STAGED
                 ? aligned(size * part->out.outer * part->out.chunk)
                 : 0;
    case PTC_COLLECTIVE_REDUCE_SCATTER:
      return form_of(&part->in, size) == FORM_STAGED
                 ? aligned((size + 1) * part->in.outer * part->in.chunk)
                 : 0;
    default: break;
  }
  for (int32_t g = 0; g < size; g++) {
    const ptc_transfer_t out = transfer_of(call, p, me, g), in = transfer_of(call, p, g, me);
    if (g == me) continue;
    if (!is_direct(&out)) bytes += aligned(ptc_transfer_bytes(&out));
    if (!is_direct(&in)) bytes += aligned(ptc_transfer_bytes(&in));
  }
  return bytes;
}

// The stream's stage grows with the first calls, and is then as large as the largest wants.
static ptc_status_t reserve(call_t *call, ptc_diag_t *diag) {
  ptc_nccl_endpoint_t *e = call->e;
  int64_t bytes = 0;
  for (int32_t p = 0; p < call->c->num_parts; p++) bytes += stage_of(call, p);
  if (bytes <= e->stage_bytes[e->stream]) return PTC_OK;
  PTC_TRY(e->device->allocate(e->device, diag, e->stream, bytes, &e->stages[e->stream]));
  e->stage_bytes[e->stream] = bytes;
  return PTC_OK;
}

static int64_t take_stage(call_t *call, int64_t bytes) {
  const int64_t address = (int64_t)call->e->stages[call->e->stream] + call->stage_used;
  call->stage_used += aligned(bytes);
  return address;
}

// --- copies on the device

static ptc_status_t copy_rows(const call_t *call, ptc_diag_t *diag, int64_t to, int64_t to_pitch,
                              int64_t from, int64_t from_pitch, int64_t width, int64_t rows) {
  return call->e->device->copy_rows(call->e->device, diag, call->e->stream, (uint64_t)to, to_pitch,
                                    (uint64_t)from, from_pitch, width, rows);
}

// The runs of |t|, from |from| with |from_step| to |to| with |to_step|: the longer level as rows of one copy.
static ptc_status_t copy_runs(const call_t *call, ptc_diag_t *diag, const ptc_transfer_t *t,
                              int64_t from, const int64_t from_step[2], int64_t to,
                              const int64_t to_step[2]) {
  const int inner = t->n[1] >= t->n[0] ? 1 : 0, outer = 1 - inner;
  if (ptc_transfer_bytes(t) == 0) return PTC_OK;
  for (int64_t i = 0; i < t->n[outer]; i++)
    PTC_TRY(copy_rows(call, diag, to + i * to_step[outer], to_step[inner],
                      from + i * from_step[outer], from_step[inner], t->run, t->n[inner]));
  return PTC_OK;
}

// Whether the two sides are the same memory.
static ptc_status_t copy_transfer(const call_t *call, ptc_diag_t *diag, const ptc_transfer_t *t,
                                  int32_t p) {
  const int64_t from = operand(call, p) + t->from, to = result(call, p) + t->to;
  return from == to && t->n[0] * t->n[1] == 1
             ? PTC_OK
             : copy_runs(call, diag, t, from, t->from_step, to, t->to_step);
}

// A transfer's runs, one after another in the stage.
static ptc_status_t pack(const call_t *call, ptc_diag_t *diag, const ptc_transfer_t *t,
                         int64_t from, int64_t stage) {
  const int64_t step[2] = {t->n[1] * t->run, t->run};
  return copy_runs(call, diag, t, from + t->from, t->from_step, stage, step);
}

static ptc_status_t unpack(const call_t *call, ptc_diag_t *diag, const ptc_transfer_t *t,
                           int64_t stage, int64_t to) {
  const int64_t step[2] = {t->n[1] * t->run, t->run};
  return copy_runs(call, diag, t, stage, step, to + t->to, t->to_step);
}

// --- kinds: |turn| 0 packs, 1 calls NCCL, 2 unpacks; each takes the same of the stage

enum { TURN_PACK, TURN_CALL, TURN_UNPACK, NUM_TURNS };

static ptc_status_t all_reduce(call_t *call, ptc_diag_t *diag, int32_t p, int turn) {
  const int64_t bytes = call->c->parts[p].in.row;
  if (turn != TURN_CALL || bytes == 0) return PTC_OK;
  NCCL(call, diag, AllReduce, at(operand(call, p), 0), at(result(call, p), 0),
       count_of(call, bytes), call->type, call->reduce, call->group->comm, call->queue);
  return PTC_OK;
}

static ptc_status_t gather_rows(call_t *call, ptc_diag_t *diag, int64_t in, int64_t out,
                                int64_t rows, int64_t chunk, int64_t row) {
  for (int64_t r = 0; r < rows && chunk > 0; r++)
    NCCL(call, diag, AllGather, at(in, r * chunk), at(out, r * row), count_of(call, chunk),
         call->type, call->group->comm, call->queue);
  return PTC_OK;
}

static ptc_status_t all_gather(call_t *call, ptc_diag_t *diag, int32_t p, int turn) {
  const ptc_pieces_t *out = &call->c->parts[p].out;
  const int32_t size = call->group->size;
  const form_t form = form_of(out, size);
  const int64_t piece = out->outer * out->chunk;
  if (form == FORM_STAGED) {
    const int64_t stage = take_stage(call, size * piece);
    if (turn == TURN_CALL) return gather_rows(call, diag, operand(call, p), stage, 1, piece, 0);
    for (int32_t g = 0; g < size && turn == TURN_UNPACK; g++)
      PTC_TRY(copy_rows(call, diag, result(call, p) + g * out->chunk, out->row, stage + g * piece,
                        out->chunk, chunk_left(out, g), out->outer));
    return PTC_OK;
  }
  if (turn != TURN_CALL) return PTC_OK;
  if (form != FORM_ROOTS)
    return gather_rows(call, diag, operand(call, p), result(call, p), out->outer, out->chunk,
                       out->row);
  for (int32_t g = 0; g < size; g++)
    if (chunk_left(out, g) > 0) {
      void *to = at(result(call, p), g * out->chunk);
      NCCL(call, diag, Broadcast, g == call->group->me ? at(operand(call, p), 0) : to, to,
           count_of(call, chunk_left(out, g)), call->type, g, call->group->comm, call->queue);
    }
  return PTC_OK;
}

static ptc_status_t scatter_rows(call_t *call, ptc_diag_t *diag, int64_t in, int64_t out,
                                 int64_t rows, int64_t chunk, int64_t row) {
  for (int64_t r = 0; r < rows && chunk > 0; r++)
    NCCL(call, diag, ReduceScatter, at(in, r * row), at(out, r * chunk), count_of(call, chunk),
         call->type, call->reduce, call->group->comm, call->queue);
  return PTC_OK;
}

static ptc_status_t reduce_scatter_staged(call_t *call, ptc_diag_t *diag, int32_t p, int turn) {
  const ptc_pieces_t *in = &call->c->parts[p].in;
  const int32_t size = call->group->size, me = call->group->me;
  const int64_t piece = in->outer * in->chunk;
  const int64_t stage = take_stage(call, (size + 1) * piece), sum = stage + size * piece;
  if (turn == TURN_CALL) return scatter_rows(call, diag, stage, sum, 1, piece, 0);
  // What is cut off of a piece is not written.
  if (turn == TURN_UNPACK)
    return copy_rows(call, diag, result(call, p), in->chunk, sum, in->chunk, chunk_left(in, me),
                     in->outer);
  for (int32_t g = 0; g < size; g++)
    PTC_TRY(copy_rows(call, diag, stage + g * piece, in->chunk, operand(call, p) + g * in->chunk,
                      in->row, chunk_left(in, g), in->outer));
  return PTC_OK;
}

static ptc_status_t reduce_scatter(call_t *call, ptc_diag_t *diag, int32_t p, int turn) {
  const ptc_pieces_t *in = &call->c->parts[p].in;
  const form_t form = form_of(in, call->group->size);
  if (form == FORM_STAGED) return reduce_scatter_staged(call, diag, p, turn);
  if (turn != TURN_CALL) return PTC_OK;
  if (form != FORM_ROOTS)
    return scatter_rows(call, diag, operand(call, p), result(call, p), in->outer, in->chunk,
                        in->row);
  for (int32_t g = 0; g < call->group->size; g++)
    if (chunk_left(in, g) > 0)
      NCCL(call, diag, Reduce, at(operand(call, p), g * in->chunk), at(result(call, p), 0),
           count_of(call, chunk_left(in, g)), call->type, call->reduce, g, call->group->comm,
           call->queue);
  return PTC_OK;
}

// Runs that go as they are.
static ptc_status_t send_runs(call_t *call, ptc_diag_t *diag, const ptc_transfer_t *t, int64_t from,
                              int32_t g) {
  for (int64_t i = 0; i < t->n[0]; i++)
    for (int64_t j = 0; j < t->n[1]; j++)
      NCCL(call, diag, Send, at(from, t->from + i * t->from_step[0] + j * t->from_step[1]),
           count_of(call, t->run), call->type, g, call->group->comm, call->queue);
  return PTC_OK;
}

static ptc_status_t recv_runs(call_t *call, ptc_diag_t *diag, const ptc_transfer_t *t, int64_t to,
                              int32_t g) {
  for (int64_t i = 0; i < t->n[0]; i++)
    for (int64_t j = 0; j < t->n[1]; j++)
      NCCL(call, diag, Recv, at(to, t->to + i * t->to_step[0] + j * t->to_step[1]),
           count_of(call, t->run), call->type, g, call->group->comm, call->queue);
  return PTC_OK;
}

static ptc_status_t exchange_out(call_t *call, ptc_diag_t *diag, int32_t p, int32_t g, int turn) {
  const ptc_transfer_t t = transfer_of(call, p, call->group->me, g);
  const int64_t bytes = ptc_transfer_bytes(&t);
  if (bytes == 0) return PTC_OK;
  if (is_direct(&t))
    return turn == TURN_CALL ? send_runs(call, diag, &t, operand(call, p), g) : PTC_OK;
  const int64_t stage = take_stage(call, bytes);
  if (turn == TURN_PACK) return pack(call, diag, &t, operand(call, p), stage);
  if (turn == TURN_CALL)
    NCCL(call, diag, Send, at(stage, 0), count_of(call, bytes), call->type, g, call->group->comm,
         call->queue);
  return PTC_OK;
}

static ptc_status_t exchange_in(call_t *call, ptc_diag_t *diag, int32_t p, int32_t g, int turn) {
  const ptc_transfer_t t = transfer_of(call, p, g, call->group->me);
  const int64_t bytes = ptc_transfer_bytes(&t);
  if (bytes == 0) return PTC_OK;
  if (is_direct(&t))
    return turn == TURN_CALL ? recv_runs(call, diag, &t, result(call, p), g) : PTC_OK;
  const int64_t stage = take_stage(call, bytes);
  if (turn == TURN_UNPACK) return unpack(call, diag, &t, stage, result(call, p));
  if (turn == TURN_CALL)
    NCCL(call, diag, Recv, at(stage, 0), count_of(call, bytes), call->type, g, call->group->comm,
         call->queue);
  return PTC_OK;
}

// All to all, and from each to the next.
static ptc_status_t all_to_all(call_t *call, ptc_diag_t *diag, int32_t p, int turn) {
  const int32_t size = call->group->size, me = call->group->me;
  for (int32_t g = 0; g < size; g++) {
    if (g != me) {
      PTC_TRY(exchange_out(call, diag, p, g, turn));
      PTC_TRY(exchange_in(call, diag, p, g, turn));
    } else if (turn == TURN_UNPACK) {
      const ptc_transfer_t own = transfer_of(call, p, me, me);
      PTC_TRY(copy_transfer(call, diag, &own, p));
    }
  }
  return PTC_OK;
}

// --- all together

// A group of one.
static ptc_status_t copy_alone(const call_t *call, ptc_diag_t *diag) {
  for (int32_t p = 0; p < call->c->num_parts; p++) {
    const ptc_transfer_t t = ptc_transfer_of(ptc_transfer_kind_of(call->c->kind),
                                             &call->c->parts[p], call->c->dtype, 1, 0, 0);
    PTC_TRY(copy_transfer(call, diag, &t, p));
  }
  return PTC_OK;
}

static ptc_status_t run_turn(call_t *call, ptc_diag_t *diag, int turn) {
  static ptc_status_t (*const kinds[PTC_NUM_COLLECTIVES])(call_t *, ptc_diag_t *, int32_t, int) = {
      [PTC_COLLECTIVE_ALL_REDUCE] = all_reduce,
      [PTC_COLLECTIVE_REDUCE_SCATTER] = reduce_scatter,
      [PTC_COLLECTIVE_ALL_GATHER] = all_gather,
      [PTC_COLLECTIVE_ALL_TO_ALL] = all_to_all,
      [PTC_COLLECTIVE_RING_SHIFT] = all_to_all};
  call->stage_used = 0;
  for (int32_t p = 0; p < call->c->num_parts; p++)
    PTC_TRY(kinds[call->c->kind](call, diag, p, turn));
  return PTC_OK;
}

static ptc_status_t run_together(call_t *call, ptc_diag_t *diag) {
  PTC_TRY(reserve(call, diag));
  PTC_TRY(run_turn(call, diag, TURN_PACK));
  ptc_nccl_endpoint_t *e = call->e;
  void *comm = call->group->comm;
  PTC_TRY(ptc_nccl_check(e, diag, e->nccl->GroupStart(), comm, "ncclGroupStart"));
  const ptc_status_t status = run_turn(call, diag, TURN_CALL);
  const int code = e->nccl->GroupEnd();  // in any case: a group is the thread's
  PTC_TRY(status);
  PTC_TRY(ptc_nccl_check(e, diag, code, comm, "ncclGroupEnd"));
  PTC_TRY(ptc_nccl_settle(e, diag, comm, NULL, "ncclGroupEnd"));
  return run_turn(call, diag, TURN_UNPACK);
}

// What this rank reads from others, whatever NCCL's algorithm: as the plan counts it.
static int64_t count_bytes(const call_t *call) {
  const ptc_collective_t *c = call->c;
  const int32_t size = call->group->size, me = call->group->me;
  int64_t bytes = 0;
  if (c->kind == PTC_COLLECTIVE_REDUCE_SCATTER)
    return (size - 1) * ptc_walk_bytes(PTC_TRANSFER_SUM, c, size, me, me);
  if (c->kind == PTC_COLLECTIVE_ALL_REDUCE)
    bytes = (size - 1) * ptc_walk_bytes(PTC_TRANSFER_SLICE, c, size, me, me);
  const ptc_transfer_kind_t kind = c->kind == PTC_COLLECTIVE_ALL_REDUCE   ? PTC_TRANSFER_SPREAD
                                   : c->kind == PTC_COLLECTIVE_ALL_GATHER ? PTC_TRANSFER_GATHER
                                                                          : moves_of(c);
  for (int32_t g = 0; g < size; g++)
    if (g != me) bytes += ptc_walk_bytes(kind, c, size, g, me);
  return bytes;
}

// Members that do not call the same would wait for each other on their GPUs, without a word: the first calls meet on
// the host.
static ptc_status_t compare(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, ptc_nccl_group_t *group,
                            const ptc_collective_t *c) {
  if (group->size == 1 || group->num_calls++ >= PTC_NCCL_COMPARED) return PTC_OK;
  const ptc_comm_call_t mine = ptc_comm_call_of(c);
  ptc_comm_call_t *all = ptc_xmalloc(sizeof mine * (size_t)group->size);
  const int64_t bytes = sizeof mine;
  ptc_collective_part_t part = {.in = {1, bytes, bytes}, .out = {1, bytes, group->size * bytes}};
  const ptc_collective_t gather = {
      .kind = PTC_COLLECTIVE_ALL_GATHER, .dtype = PTC_BOOL, .num_parts = 1, .parts = &part};
  void *const args[2] = {(void *)(uintptr_t)&mine, all};
  ptc_status_t status = ptc_comm_collective(e->host, diag, group->host, &gather, args);
  for (int32_t g = 1; g < group->size && status == PTC_OK; g++) {
    if (memcmp(&all[0], &all[g], sizeof mine) == 0) continue;
    char text[PTC_COMM_REASON];
    ptc_comm_describe_mismatch(&all[0], group->ranks[0], &all[g], group->ranks[g], group->size,
                               text);
    status = ptc_error(diag, e->loc, PTC_DEVICE, "comm-mismatch", "%s", text);
    ptc_comm_abort(e->host, text);
  }
  free(all);
  if (status != PTC_OK) ptc_nccl_abort_all(e);
  return status;
}

ptc_status_t ptc_nccl_collective(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                                 const ptc_collective_t *c, void *const *args) {
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)comm;
  call_t call = {.e = e,
                 .group = &e->groups[group],
                 .c = c,
                 .args = args,
                 .queue = e->device->stream(e->device, e->stream),
                 .type = type_of(c->dtype),
                 .reduce = reduce_of(c),
                 .elem = ptc_dtype_bytes(c->dtype)};
  PTC_TRY(ptc_nccl_begin(e, diag));
  PTC_TRY(compare(e, diag, &e->groups[group], c));
  PTC_TRY(call.group->size == 1 ? copy_alone(&call, diag) : run_together(&call, diag));
  e->groups[group].bytes[c->kind] += count_bytes(&call);
  return ptc_nccl_end(e, diag);
}

// --- messages

// NCCL has no tags: messages between two ranks are received in the order in which they are sent, and the first ones are
// compared.
typedef struct letter_s {
  int64_t number, bytes;
  int32_t tag, unused;
} letter_t;

static ptc_status_t compare_letters(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, int32_t peer,
                                    const letter_t *sent, const letter_t *mine) {
  if (memcmp(sent, mine, sizeof *sent) == 0) return PTC_OK;
  const ptc_status_t status = ptc_error(
      diag, e->loc, PTC_DEVICE, "comm-mismatch",
      "rank %" PRId32 " sends a message %" PRId32 " of %" PRId64 " bytes, and rank %" PRId32
      " receives message %" PRId32 " of %" PRId64 " (the %" PRId64 "th between them)",
      peer, sent->tag, sent->bytes, e->comm.rank, mine->tag, mine->bytes, mine->number + 1);
  ptc_comm_abort(e->host, diag->items[diag->num_items - 1].message);
  ptc_nccl_abort_all(e);
  return status;
}

static ptc_status_t message(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, int32_t peer, void *data,
                            int64_t bytes, bool sends) {
  void *comm = e->groups[PTC_COMM_WORLD].comm, *queue = e->device->stream(e->device, e->stream);
  if (bytes == 0) return PTC_OK;
  if (sends)
    PTC_NCCL_CALL(e, diag, comm, Send, data, (size_t)bytes, PTC_NCCL_UINT8, peer, comm, queue);
  else
    PTC_NCCL_CALL(e, diag, comm, Recv, data, (size_t)bytes, PTC_NCCL_UINT8, peer, comm, queue);
  return ptc_nccl_settle(e, diag, comm, NULL, sends ? "ncclSend" : "ncclRecv");
}

ptc_status_t ptc_nccl_send(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           const void *data, int64_t bytes) {
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)comm;
  const letter_t letter = {.number = e->num_sent[peer]++, .bytes = bytes, .tag = tag};
  PTC_TRY(ptc_nccl_begin(e, diag));
  if (letter.number < PTC_NCCL_COMPARED)
    PTC_TRY(ptc_comm_send(e->host, diag, peer, 0, &letter, sizeof letter));
  PTC_TRY(message(e, diag, peer, (void *)(uintptr_t)data, bytes, true));
  return ptc_nccl_end(e, diag);
}

ptc_status_t ptc_nccl_recv(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           void *data, int64_t bytes) {
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)comm;
  const letter_t mine = {.number = e->num_received[peer]++, .bytes = bytes, .tag = tag};
  letter_t sent;
  PTC_TRY(ptc_nccl_begin(e, diag));
  if (mine.number < PTC_NCCL_COMPARED) {
    PTC_TRY(ptc_comm_recv(e->host, diag, peer, 0, &sent, sizeof sent));
    PTC_TRY(compare_letters(e, diag, peer, &sent, &mine));
  }
  PTC_TRY(message(e, diag, peer, data, bytes, false));
  e->received[peer] += bytes;
  return ptc_nccl_end(e, diag);
}
