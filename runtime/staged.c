// Windows: each member packs the next bytes for everybody, the stages go across, each member takes what is its own.
#include "runtime/staged.h"

#include <string.h>

#include "runtime/combine.h"

static bool adds(ptc_transfer_kind_t kind) {
  return kind == PTC_TRANSFER_SUM || kind == PTC_TRANSFER_SLICE;
}

// Whether a member gives all others the same.
static bool is_uniform(ptc_transfer_kind_t kind) {
  return kind == PTC_TRANSFER_GATHER || kind == PTC_TRANSFER_SPREAD;
}

static const char *operand_of(ptc_transfer_kind_t kind, void *const *args, int32_t part) {
  return args[kind == PTC_TRANSFER_SPREAD ? 2 * part + 1 : 2 * part];
}

// The next bytes for the walk's receiver, at most |limit|; how many.
static int64_t pack(ptc_walk_t *walk, void *const *args, char *slot, int64_t limit) {
  ptc_walk_run_t run;
  int64_t used = 0;
  while (used < limit && ptc_walk_next(walk, limit - used, &run)) {
    memcpy(slot + used, operand_of(walk->kind, args, run.part) + run.from, (size_t)run.bytes);
    used += run.bytes;
  }
  return used;
}

static void pack_window(ptc_staged_t *s, ptc_transfer_kind_t kind, void *const *args,
                        int64_t limit) {
  int64_t *out_bytes = s->sizes;
  if (is_uniform(kind)) {
    const int64_t bytes = pack(&s->walks[s->me], args, s->stage, limit);
    for (int32_t g = 0; g < s->size; g++) out_bytes[g] = bytes;
    return;
  }
  for (int32_t g = 0; g < s->size; g++)
    out_bytes[g] = g == s->me ? 0 : pack(&s->walks[g], args, s->stage + g * s->slot_bytes, limit);
}

static int64_t unpack_copies(ptc_staged_t *s, ptc_walk_t *walk, void *const *args, int64_t limit) {
  ptc_walk_run_t run;
  int64_t used = 0;
  while (used < limit && ptc_walk_next(walk, limit - used, &run)) {
    memcpy((char *)args[2 * run.part + 1] + run.to, s->in[walk->sender] + used, (size_t)run.bytes);
    used += run.bytes;
  }
  return used;
}

static int64_t unpack_sums(ptc_staged_t *s, ptc_walk_t *walk, void *const *args, int64_t limit) {
  const ptc_collective_t *c = walk->collective;
  ptc_walk_run_t run;
  int64_t used = 0;
  while (used < limit && ptc_walk_next(walk, limit - used, &run)) {
    for (int32_t g = 0; g < s->size; g++) s->ins[g] = s->in[g] + used;
    s->ins[s->me] = operand_of(walk->kind, args, run.part) + run.from;
    void *out = (char *)args[2 * run.part + 1] + run.to;
    ptc_combine(c->reduce, c->dtype, s->ins, s->size, &out, 1, run.bytes);
    used += run.bytes;
  }
  return used;
}

static void copy_own(const ptc_staged_t *s, ptc_transfer_kind_t kind, const ptc_collective_t *c,
                     void *const *args) {
  if (adds(kind) || kind == PTC_TRANSFER_SPREAD) return;
  for (int32_t p = 0; p < c->num_parts; p++) {
    const ptc_transfer_t t = ptc_transfer_of(kind, &c->parts[p], c->dtype, s->size, s->me, s->me);
    ptc_transfer_copy(&t, args[2 * p], args[2 * p + 1]);
  }
}

ptc_status_t ptc_staged_run(ptc_staged_t *s, ptc_diag_t *diag, ptc_transfer_kind_t kind,
                            const ptc_collective_t *c, void *const *args, int64_t *bytes_read) {
  ptc_walk_t *in_walks = s->walks + s->size;
  for (int32_t g = 0; g < s->size; g++) {
    ptc_walk_start(&s->walks[g], kind, c, s->size, s->me, g);
    ptc_walk_start(&in_walks[g], kind, c, s->size, g, s->me);
  }
  s->slot_bytes = is_uniform(kind) ? 0 : s->stage_bytes / s->size / 64 * 64;
  s->out_bytes = s->sizes;
  s->in_bytes = s->sizes + s->size;
  const int64_t limit = is_uniform(kind) ? s->stage_bytes : s->slot_bytes;
  // Pieces are cut off at the end, so nobody has more than the first.
  const int32_t next = kind == PTC_TRANSFER_SHIFT ? 1 % s->size : 0;
  const int64_t longest = ptc_walk_bytes(kind, c, s->size, 0, next);
  copy_own(s, kind, c, args);
  for (int64_t at = 0; at < longest; at += limit) {
    pack_window(s, kind, args, limit);
    for (int32_t g = 0; g < s->size; g++) {
      const int64_t left = ptc_walk_bytes(kind, c, s->size, g, s->me) - at;
      s->sizes[s->size + g] = g == s->me || left < 0 ? 0 : left < limit ? left : limit;
    }
    PTC_TRY(s->exchange(s, diag));
    if (adds(kind)) {
      *bytes_read += (s->size - 1) * unpack_sums(s, &in_walks[s->me], args, limit);
    } else {
      for (int32_t g = 0; g < s->size; g++)
        if (g != s->me) *bytes_read += unpack_copies(s, &in_walks[g], args, limit);
    }
  }
  return PTC_OK;
}

ptc_status_t ptc_staged_collective(ptc_staged_t *staged, ptc_diag_t *diag,
                                   const ptc_collective_t *collective, void *const *args,
                                   int64_t *bytes_read) {
  PTC_TRY(ptc_staged_run(staged, diag, ptc_transfer_kind_of(collective->kind), collective, args,
                         bytes_read));
  if (collective->kind != PTC_COLLECTIVE_ALL_REDUCE) return PTC_OK;
  return ptc_staged_run(staged, diag, PTC_TRANSFER_SPREAD, collective, args, bytes_read);
}
