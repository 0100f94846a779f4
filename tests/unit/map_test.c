// Proves: interned strings are equal exactly if their pointers are; the pointer map keeps every
// entry through growth.
#include "ir/base/map.h"

#include <stdlib.h>

#include "tests/support/unit.h"

static void test_intern(void) {
  ptc_arena_t arena = {0};
  ptc_interner_t interner;
  ptc_interner_init(&interner, &arena);
  enum { NUM = 5000 };
  const char **names = malloc(NUM * sizeof(*names));
  char text[32];
  for (int i = 0; i < NUM; i++) {
    snprintf(text, sizeof(text), "name%d", i);
    names[i] = ptc_intern(&interner, text);
  }
  int wrong = 0;
  for (int i = 0; i < NUM; i++) {
    snprintf(text, sizeof(text), "name%d", i);
    wrong += ptc_intern(&interner, text) != names[i] || strcmp(names[i], text) != 0;
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(interner.len, NUM);
  CU_ASSERT_PTR_EQUAL(ptc_intern_n(&interner, "name12", 5), names[1]);
  CU_ASSERT_PTR_NOT_EQUAL(ptc_intern(&interner, "name"), names[0]);
  CU_ASSERT_PTR_EQUAL(ptc_intern(&interner, ""), ptc_intern_n(&interner, "x", 0));
  // A string ends at its first NUL, whatever length is given.
  CU_ASSERT_PTR_EQUAL(ptc_intern_n(&interner, "name1\0more", 10), names[1]);
  free(names);
  ptc_interner_deinit(&interner);
  ptc_arena_deinit(&arena);
}

static void test_map(void) {
  enum { NUM = 3000 };
  static char keys[NUM];
  ptc_map_t map = {0};
  CU_ASSERT_PTR_NULL(ptc_map_get(&map, &keys[0]));
  for (int i = 0; i < NUM; i++) ptc_map_set(&map, &keys[i], &keys[NUM - 1 - i]);
  for (int i = 0; i < NUM; i += 2) ptc_map_set(&map, &keys[i], &keys[i]);
  int wrong = 0;
  for (int i = 0; i < NUM; i++)
    wrong += ptc_map_get(&map, &keys[i]) != &keys[i % 2 ? NUM - 1 - i : i];
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(map.len, NUM);
  CU_ASSERT_PTR_NULL(ptc_map_get(&map, &map));
  ptc_map_deinit(&map);
  CU_ASSERT_PTR_NULL(ptc_map_get(&map, &keys[0]));
}

static const unit_test_t tests[] = {{"interner", test_intern}, {"map", test_map}};
UNIT_MAIN("map", tests)
