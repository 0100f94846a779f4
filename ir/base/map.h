// String interning and a hash map from interned strings (or any pointer) to pointers.
#ifndef PTC_IR_BASE_MAP_H_
#define PTC_IR_BASE_MAP_H_

#include <stddef.h>
#include <stdint.h>

#include "ir/base/arena.h"

// Interned strings are equal exactly if their pointers are. The strings live in |arena|.
typedef struct ptc_interner_s {
  ptc_arena_t *arena;
  const char **slots;
  int64_t num_slots, len;
} ptc_interner_t;

void ptc_interner_init(ptc_interner_t *interner, ptc_arena_t *arena);
void ptc_interner_deinit(ptc_interner_t *interner);
const char *ptc_intern(ptc_interner_t *interner, const char *text);
const char *ptc_intern_n(ptc_interner_t *interner, const char *text, size_t len);

// Pointer-keyed map (open addressing). Zero-initialize. Keys are non-NULL.
typedef struct ptc_map_s {
  const void **keys;
  void **values;
  int64_t num_slots, len;
} ptc_map_t;

// NULL if |key| is absent.
void *ptc_map_get(const ptc_map_t *map, const void *key);
void ptc_map_set(ptc_map_t *map, const void *key, void *value);
void ptc_map_deinit(ptc_map_t *map);

#endif  // PTC_IR_BASE_MAP_H_
