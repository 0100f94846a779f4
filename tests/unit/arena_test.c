// Proves: arena memory is zeroed, aligned, disjoint, and survives later allocations; so after a reset.
#include "ir/base/arena.h"

#include "tests/support/unit.h"

static void test_sizes(void) {
  static const size_t sizes[] = {0, 1, 15, 16, 17, 4096, 65536, 65537, 1 << 20};
  enum { NUM = sizeof(sizes) / sizeof(sizes[0]) };
  ptc_arena_t arena = {0};
  unsigned char *blocks[3 * NUM];
  for (size_t i = 0; i < 3 * NUM; i++) {
    size_t size = sizes[i % NUM];
    blocks[i] = ptc_arena_alloc(&arena, size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    CU_ASSERT_EQUAL((uintptr_t)blocks[i] % 16, 0);
    size_t set = 0;
    for (size_t j = 0; j < size; j++) set += blocks[i][j] != 0;
    CU_ASSERT_EQUAL(set, 0);
    memset(blocks[i], (int)i + 1, size);
  }
  for (size_t i = 0; i < 3 * NUM; i++) {
    size_t changed = 0;
    for (size_t j = 0; j < sizes[i % NUM]; j++) changed += blocks[i][j] != i + 1;
    CU_ASSERT_EQUAL(changed, 0);
  }
  CU_ASSERT(arena.used_bytes >= 3 * (1 << 20));
  ptc_arena_deinit(&arena);
  CU_ASSERT_EQUAL(arena.used_bytes, 0);
  CU_ASSERT_PTR_NOT_NULL(ptc_arena_alloc(&arena, 8));  // usable again
  ptc_arena_deinit(&arena);
}

static void test_strings(void) {
  ptc_arena_t arena = {0};
  CU_ASSERT_STRING_EQUAL(ptc_arena_strdup(&arena, "abc"), "abc");
  CU_ASSERT_STRING_EQUAL(ptc_arena_strndup(&arena, "abc", 2), "ab");
  CU_ASSERT_STRING_EQUAL(ptc_arena_strndup(&arena, NULL, 0), "");
  CU_ASSERT_STRING_EQUAL(ptc_arena_printf(&arena, "%d of %s", 3, "x"), "3 of x");
  CU_ASSERT_STRING_EQUAL(ptc_arena_printf(&arena, "%s", ""), "");
  int *numbers = PTC_ARENA_ARRAY(&arena, int, 100);
  CU_ASSERT_EQUAL(numbers[99], 0);
  ptc_arena_deinit(&arena);
}

// What is taken again after a reset is as clean as before, and lies in one piece.
static void test_reset(void) {
  ptc_arena_t arena = {0};
  ptc_arena_reset(&arena);
  for (int round = 0; round < 4; round++) {
    unsigned char *blocks[40];
    for (int i = 0; i < 40; i++) {
      blocks[i] = ptc_arena_alloc(&arena, 5000);
      size_t set = 0;
      for (int j = 0; j < 5000; j++) set += blocks[i][j] != 0;
      CU_ASSERT_EQUAL(set, 0);
      memset(blocks[i], 255, 5000);
      if (round > 0 && i > 0) CU_ASSERT_EQUAL(blocks[i] - blocks[i - 1], 5008);
    }
    CU_ASSERT_EQUAL(arena.used_bytes, 40 * 5008);
    ptc_arena_reset(&arena);
    CU_ASSERT_EQUAL(arena.used_bytes, 0);
  }
  ptc_arena_deinit(&arena);
}

static const unit_test_t tests[] = {
    {"sizes", test_sizes}, {"strings", test_strings}, {"reset", test_reset}};
UNIT_MAIN("arena", tests)
