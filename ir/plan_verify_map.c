// Maps of contents, as the replay of a plan needs them, and the digests that name contents.
#include <stdlib.h>
#include <string.h>

#include "ir/plan_verify_impl.h"

int64_t ptc_plan_map_find(const ptc_plan_map_t *map, int64_t at) {
  int64_t low = 0, high = map->len;
  if (high > 0 && ptc_plan_map_at(map, 0)->end > at) return 0;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (ptc_plan_map_at(map, middle)->end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void ptc_numbers_sort(int64_t *numbers, int64_t len) {
  if (len > 0) qsort(numbers, (size_t)len, sizeof *numbers, by_number);
}

int64_t ptc_numbers_find(const int64_t *numbers, int64_t len, int64_t number) {
  int64_t low = 0, high = len;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (numbers[middle] < number)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void move_gap(ptc_plan_map_t *map, int64_t to) {
  const int64_t room = map->cap - map->len;
  ptc_plan_piece_t *pieces = map->pieces;
  if (to < map->gap)
    memmove(pieces + to + room, pieces + to, (size_t)(map->gap - to) * sizeof *pieces);
  else if (to > map->gap)
    memmove(pieces + map->gap, pieces + map->gap + room, (size_t)(to - map->gap) * sizeof *pieces);
  map->gap = to;
}

// |count| pieces stand for the |old| ones from |at| on. The next change is mostly near, so that the gap has a short way.
static void replace(ptc_plan_map_t *map, int64_t at, int64_t old, const ptc_plan_piece_t *by,
                    int64_t count) {
  if (map->len + count - old > map->cap) {
    move_gap(map, map->len);
    map->cap = 2 * (map->len + count - old);
    map->pieces = ptc_xrealloc(map->pieces, (size_t)map->cap * sizeof *map->pieces);
  }
  move_gap(map, at + old);
  for (int64_t i = 0; i < count; ++i) map->pieces[at + i] = by[i];
  map->gap = at + count;
  map->len += count - old;
}

void ptc_plan_map_set(ptc_plan_map_t *map, ptc_plan_piece_t piece) {
  int64_t guess = 0;
  ptc_plan_map_set_near(map, piece, &guess);
}

void ptc_plan_map_set_near(ptc_plan_map_t *map, ptc_plan_piece_t piece, int64_t *guess) {
  if (piece.begin >= piece.end) return;
  const int64_t first = ptc_plan_map_near(map, piece.begin, guess);
  int64_t last = first;
  while (last < map->len && ptc_plan_map_at(map, last)->begin < piece.end) last++;
  ptc_plan_piece_t kept[3];
  int64_t count = 0;
  if (first < last && ptc_plan_map_at(map, first)->begin < piece.begin) {
    kept[count] = *ptc_plan_map_at(map, first);
    kept[count++].end = piece.begin;
  }
  kept[count++] = piece;
  if (first < last && ptc_plan_map_at(map, last - 1)->end > piece.end) {
    kept[count] = *ptc_plan_map_at(map, last - 1);
    kept[count++].begin = piece.end;
  }
  if (last - first == 1 && count == 1)
    *ptc_plan_map_at(map, first) = piece;
  else
    replace(map, first, last - first, kept, count);
}

void ptc_plan_map_clear(ptc_plan_map_t *map) { map->len = map->gap = 0; }

// --- digests

uint64_t ptc_plan_mix_text(uint64_t hash, const char *text) {
  for (; *text; ++text) hash = ptc_plan_mix(hash, (unsigned char)*text);
  return ptc_plan_mix(hash, 256);
}

bool ptc_plan_map_next(const ptc_plan_map_t *map, int64_t *number, int64_t at, int64_t end,
                       ptc_plan_piece_t *out) {
  int64_t p = *number;
  if (p >= map->len || ptc_plan_map_at(map, p)->begin >= end) return false;
  ptc_plan_piece_t piece = *ptc_plan_map_at(map, p++);
  for (; p < map->len; ++p) {
    const ptc_plan_piece_t *next = ptc_plan_map_at(map, p);
    if (next->begin != piece.end || next->content != piece.content || next->shift != piece.shift)
      break;
    piece.end = next->end;
  }
  if (piece.begin < at) piece.begin = at;
  if (piece.end > end) piece.end = end;
  *number = p;
  *out = piece;
  return true;
}

uint64_t ptc_plan_map_hash(uint64_t hash, const ptc_plan_map_t *map, int64_t begin, int64_t end) {
  ptc_plan_piece_t piece;
  for (int64_t p = ptc_plan_map_find(map, begin); ptc_plan_map_next(map, &p, begin, end, &piece);) {
    hash = ptc_plan_mix(hash, piece.content);
    hash = ptc_plan_mix(hash, (uint64_t)(piece.begin - begin));
    hash = ptc_plan_mix(hash, (uint64_t)(piece.end - begin));
    hash = ptc_plan_mix(hash, (uint64_t)(piece.begin + piece.shift));
  }
  return hash;
}
