// Collectives as copies. The stream of a piece is its chunks one after another as if none were cut off
// (ptc_pieces_t); a run is what lies together in both arrays.
#include "runtime/transfer.h"

#include <string.h>

// Bytes that a row has of member |member|'s chunk.
static int64_t chunk_left(const ptc_pieces_t *pieces, int32_t member) {
  const int64_t left = pieces->row - member * pieces->chunk;
  return left < 0 ? 0 : left > pieces->chunk ? pieces->chunk : left;
}

static ptc_transfer_t gather(const ptc_pieces_t *out, int32_t sender) {
  return (ptc_transfer_t){.n = {out->outer, 1},
                          .run = chunk_left(out, sender),
                          .from_step = {out->chunk, 0},
                          .to = sender * out->chunk,
                          .to_step = {out->row, 0}};
}

static ptc_transfer_t scatter(const ptc_pieces_t *in, int32_t receiver) {
  return (ptc_transfer_t){.n = {in->outer, 1},
                          .run = chunk_left(in, receiver),
                          .from = receiver * in->chunk,
                          .from_step = {in->row, 0},
                          .to_step = {in->chunk, 0}};
}

// The chunks of one side lie evenly in those of the other: each of the larger ones holds some whole smaller ones,
// and where it is cut off, it is so between two of them.
static ptc_transfer_t exchange(const ptc_collective_part_t *part, int32_t sender,
                               int32_t receiver) {
  const ptc_pieces_t *in = &part->in, *out = &part->out;
  ptc_transfer_t t = {.from = receiver * in->chunk, .to = sender * out->chunk};
  const int64_t in_left = chunk_left(in, receiver), out_left = chunk_left(out, sender);
  if (in_left == 0 || out_left == 0) return t;
  if (in->outer == out->outer) {
    t.n[0] = in->outer, t.n[1] = 1;
    t.run = in_left < out_left ? in_left : out_left;
    t.from_step[0] = in->row, t.to_step[0] = out->row;
  } else if (in->outer > out->outer) {
    const int64_t per_chunk = in->outer / out->outer;
    t.n[0] = out->outer;
    t.n[1] = out_left / in->chunk;
    t.run = in_left;
    t.from_step[0] = per_chunk * in->row, t.from_step[1] = in->row;
    t.to_step[0] = out->row, t.to_step[1] = in->chunk;
  } else {
    const int64_t per_chunk = out->outer / in->outer;
    t.n[0] = in->outer;
    t.n[1] = in_left / out->chunk;
    t.run = out_left;
    t.from_step[0] = in->row, t.from_step[1] = out->chunk;
    t.to_step[0] = per_chunk * out->row, t.to_step[1] = out->row;
  }
  return t;
}

// Joins runs that follow each other on both sides.
static ptc_transfer_t joined(ptc_transfer_t t) {
  for (int level = 1; level >= 0; level--) {
    if (t.n[level] != 1 && (t.from_step[level] != t.run || t.to_step[level] != t.run)) break;
    t.run *= t.n[level];
    t.n[level] = 1;
  }
  return t;
}

ptc_transfer_kind_t ptc_transfer_kind_of(ptc_collective_kind_t kind) {
  static const ptc_transfer_kind_t kinds[PTC_NUM_COLLECTIVES] = {
      [PTC_COLLECTIVE_ALL_REDUCE] = PTC_TRANSFER_SLICE,
      [PTC_COLLECTIVE_REDUCE_SCATTER] = PTC_TRANSFER_SUM,
      [PTC_COLLECTIVE_ALL_GATHER] = PTC_TRANSFER_GATHER,
      [PTC_COLLECTIVE_ALL_TO_ALL] = PTC_TRANSFER_EXCHANGE,
      [PTC_COLLECTIVE_RING_SHIFT] = PTC_TRANSFER_SHIFT};
  return kinds[kind];
}

ptc_transfer_t ptc_transfer_of(ptc_transfer_kind_t kind, const ptc_collective_part_t *part,
                               ptc_dtype_t dtype, int32_t size, int32_t sender, int32_t receiver) {
  const int64_t bytes = part->in.row, elem = ptc_dtype_bytes(dtype);
  const int64_t slice = (bytes / elem + size - 1) / size * elem;
  const ptc_pieces_t slices = {1, slice, bytes};
  ptc_transfer_t t;
  switch (kind) {
    case PTC_TRANSFER_SUM: t = scatter(&part->in, receiver); break;
    case PTC_TRANSFER_SLICE:
      t = scatter(&slices, receiver);
      t.to = receiver * slice;
      break;
    case PTC_TRANSFER_SPREAD:
      t = gather(&slices, sender);
      t.from = sender * slice;
      break;
    case PTC_TRANSFER_GATHER: t = gather(&part->out, sender); break;
    case PTC_TRANSFER_SHIFT:
      t = (ptc_transfer_t){.n = {1, 1}, .run = (sender + 1) % size == receiver ? bytes : 0};
      break;
    default: t = exchange(part, sender, receiver); break;
  }
  return joined(t);
}

int64_t ptc_transfer_bytes(const ptc_transfer_t *transfer) {
  return transfer->n[0] * transfer->n[1] * transfer->run;
}

void ptc_transfer_copy(const ptc_transfer_t *t, const char *from, char *to) {
  if (ptc_transfer_bytes(t) == 0) return;
  for (int64_t i = 0; i < t->n[0]; i++) {
    const char *row_from = from + t->from + i * t->from_step[0];
    char *row_to = to + t->to + i * t->to_step[0];
    if (row_from == row_to && t->n[1] == 1) continue;  // in place
    for (int64_t j = 0; j < t->n[1]; j++)
      memcpy(row_to + j * t->to_step[1], row_from + j * t->from_step[1], (size_t)t->run);
  }
}

// --- the walk

// Puts the walk on the first run of part |part| or of one after it.
static void enter_part(ptc_walk_t *walk, int32_t part) {
  const ptc_collective_t *c = walk->collective;
  walk->i[0] = walk->i[1] = walk->done = 0;
  for (walk->part = part; walk->part < c->num_parts; walk->part++) {
    walk->transfer = ptc_transfer_of(walk->kind, &c->parts[walk->part], c->dtype, walk->size,
                                     walk->sender, walk->receiver);
    if (ptc_transfer_bytes(&walk->transfer) > 0) return;
  }
}

void ptc_walk_start(ptc_walk_t *walk, ptc_transfer_kind_t kind, const ptc_collective_t *collective,
                    int32_t size, int32_t sender, int32_t receiver) {
  *walk = (ptc_walk_t){
      .kind = kind, .collective = collective, .size = size, .sender = sender, .receiver = receiver};
  enter_part(walk, 0);
}

bool ptc_walk_next(ptc_walk_t *walk, int64_t limit, ptc_walk_run_t *out_run) {
  if (walk->part >= walk->collective->num_parts) return false;
  const ptc_transfer_t *t = &walk->transfer;
  int64_t bytes = t->run - walk->done;
  if (bytes > limit) bytes = limit;
  *out_run = (ptc_walk_run_t){
      .part = walk->part,
      .from = t->from + walk->i[0] * t->from_step[0] + walk->i[1] * t->from_step[1] + walk->done,
      .to = t->to + walk->i[0] * t->to_step[0] + walk->i[1] * t->to_step[1] + walk->done,
      .bytes = bytes};
  walk->done += bytes;
  if (walk->done < t->run) return true;
  walk->done = 0;
  if (++walk->i[1] < t->n[1]) return true;
  walk->i[1] = 0;
  if (++walk->i[0] < t->n[0]) return true;
  enter_part(walk, walk->part + 1);
  return true;
}

int64_t ptc_walk_bytes(ptc_transfer_kind_t kind, const ptc_collective_t *collective, int32_t size,
                       int32_t sender, int32_t receiver) {
  int64_t bytes = 0;
  for (int32_t p = 0; p < collective->num_parts; p++) {
    const ptc_transfer_t t =
        ptc_transfer_of(kind, &collective->parts[p], collective->dtype, size, sender, receiver);
    bytes += ptc_transfer_bytes(&t);
  }
  return bytes;
}
