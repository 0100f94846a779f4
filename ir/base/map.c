#include "ir/base/map.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_bytes(const char *text, size_t len) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
  return hash;
}

static uint64_t hash_pointer(const void *key) {
  uint64_t x = (uint64_t)(uintptr_t)key;
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  return x ^ (x >> 33);
}

void ptc_interner_init(ptc_interner_t *interner, ptc_arena_t *arena) {
  *interner = (ptc_interner_t){.arena = arena};
}

void ptc_interner_deinit(ptc_interner_t *interner) {
  free(interner->slots);
  *interner = (ptc_interner_t){0};
}

static void interner_grow(ptc_interner_t *interner) {
  const char **old = interner->slots;
  int64_t num_old = interner->num_slots;
  interner->num_slots = num_old ? 2 * num_old : 256;
  interner->slots = ptc_xmalloc((size_t)interner->num_slots * sizeof(*interner->slots));
  memset(interner->slots, 0, (size_t)interner->num_slots * sizeof(*interner->slots));
  for (int64_t i = 0; i < num_old; i++) {
    if (!old[i]) continue;
    int64_t slot = (int64_t)(hash_bytes(old[i], strlen(old[i])) % (uint64_t)interner->num_slots);
    while (interner->slots[slot]) slot = (slot + 1) % interner->num_slots;
    interner->slots[slot] = old[i];
  }
  free(old);
}

const char *ptc_intern_n(ptc_interner_t *interner, const char *text, size_t len) {
  len = strnlen(text, len);  // strings end at their first NUL
  if (2 * (interner->len + 1) > interner->num_slots) interner_grow(interner);
  int64_t slot = (int64_t)(hash_bytes(text, len) % (uint64_t)interner->num_slots);
  for (; interner->slots[slot]; slot = (slot + 1) % interner->num_slots) {
    const char *entry = interner->slots[slot];
    if (strncmp(entry, text, len) == 0 && entry[len] == '\0') return entry;
  }
  interner->len++;
  return interner->slots[slot] = ptc_arena_strndup(interner->arena, text, len);
}

const char *ptc_intern(ptc_interner_t *interner, const char *text) {
  return ptc_intern_n(interner, text, strlen(text));
}

void *ptc_map_get(const ptc_map_t *map, const void *key) {
  if (!map->num_slots) return NULL;
  int64_t slot = (int64_t)(hash_pointer(key) % (uint64_t)map->num_slots);
  for (; map->keys[slot]; slot = (slot + 1) % map->num_slots)
    if (map->keys[slot] == key) return map->values[slot];
  return NULL;
}

static void map_grow(ptc_map_t *map) {
  ptc_map_t old = *map;
  map->num_slots = old.num_slots ? 2 * old.num_slots : 64;
  map->len = 0;
  map->keys = ptc_xmalloc((size_t)map->num_slots * sizeof(*map->keys));
  map->values = ptc_xmalloc((size_t)map->num_slots * sizeof(*map->values));
  memset(map->keys, 0, (size_t)map->num_slots * sizeof(*map->keys));
  for (int64_t i = 0; i < old.num_slots; i++)
    if (old.keys[i]) ptc_map_set(map, old.keys[i], old.values[i]);
  ptc_map_deinit(&old);
}

void ptc_map_set(ptc_map_t *map, const void *key, void *value) {
  if (2 * (map->len + 1) > map->num_slots) map_grow(map);
  int64_t slot = (int64_t)(hash_pointer(key) % (uint64_t)map->num_slots);
  for (; map->keys[slot]; slot = (slot + 1) % map->num_slots) {
    if (map->keys[slot] != key) continue;
    map->values[slot] = value;
    return;
  }
  map->keys[slot] = key;
  map->values[slot] = value;
  map->len++;
}

void ptc_map_deinit(ptc_map_t *map) {
  free(map->keys);
  free(map->values);
  *map = (ptc_map_t){0};
}
