// Maps of contents, as the replay of a plan needs them, and the digests that name contents.
#include <stdlib.h>
#include <string.h>

#include "ir/plan_verify_impl.h"

int64_t ptc_plan_map_find(const ptc_plan_map_t *map, int64_t at) {
  int64_t low = 0, high = map->len;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (map->pieces[middle].end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Makes |count| places at |at| out of |old|.
static void resize(ptc_plan_map_t *map, int64_t at, int64_t old, int64_t count) {
  if (map->len + count - old > map->cap) {
    map->cap = 2 * (map->len + count - old);
    map->pieces = ptc_xrealloc(map->pieces, (size_t)map->cap * sizeof *map->pieces);
  }
  memmove(map->pieces + at + count, map->pieces + at + old,
          (size_t)(map->len - at - old) * sizeof *map->pieces);
  map->len += count - old;
}

void ptc_plan_map_set(ptc_plan_map_t *map, ptc_plan_piece_t piece) {
  if (piece.begin >= piece.end) return;
  const int64_t first = ptc_plan_map_find(map, piece.begin);
  int64_t last = first;
  while (last < map->len && map->pieces[last].begin < piece.end) last++;
  ptc_plan_piece_t kept[3];
  int64_t count = 0;
  if (first < last && map->pieces[first].begin < piece.begin) {
    kept[count] = map->pieces[first];
    kept[count++].end = piece.begin;
  }
  kept[count++] = piece;
  if (first < last && map->pieces[last - 1].end > piece.end) {
    kept[count] = map->pieces[last - 1];
    kept[count++].begin = piece.end;
  }
  resize(map, first, last - first, count);
  for (int64_t i = 0; i < count; ++i) map->pieces[first + i] = kept[i];
}

// --- digests

// The finalizer of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
uint64_t ptc_plan_mix(uint64_t hash, uint64_t value) {
  uint64_t z = (hash ^ value) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) + (hash << 1);
}

uint64_t ptc_plan_mix_text(uint64_t hash, const char *text) {
  for (; *text; ++text) hash = ptc_plan_mix(hash, (unsigned char)*text);
  return ptc_plan_mix(hash, 256);
}

uint64_t ptc_plan_map_hash(uint64_t hash, const ptc_plan_map_t *map, int64_t begin, int64_t end) {
  for (int64_t p = ptc_plan_map_find(map, begin); p < map->len && map->pieces[p].begin < end;) {
    ptc_plan_piece_t piece = map->pieces[p++];
    // Neighbours of one content are one piece.
    while (p < map->len && map->pieces[p].begin == piece.end &&
           map->pieces[p].content == piece.content && map->pieces[p].shift == piece.shift)
      piece.end = map->pieces[p++].end;
    if (piece.begin < begin) piece.begin = begin;
    if (piece.end > end) piece.end = end;
    hash = ptc_plan_mix(hash, piece.content);
    hash = ptc_plan_mix(hash, (uint64_t)(piece.begin - begin));
    hash = ptc_plan_mix(hash, (uint64_t)(piece.end - begin));
    hash = ptc_plan_mix(hash, (uint64_t)(piece.begin + piece.shift));
  }
  return hash;
}
