// Proves: the shuffled order is a permutation for every count, depends on seed and epoch, and spreads places
// evenly; drawn numbers lie in their range and reach all of it.
#include "runtime/shuffle.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tests/support/unit.h"

static void test_bijective(void) {
  static const int64_t counts[] = {1,  2,  3,  4,   5,   7,    8,    9,    15,   16,    17,
                                   63, 64, 65, 100, 255, 1000, 4096, 4097, 9999, 65536, 70001};
  uint64_t random = unit_seed();
  for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
    char *seen = calloc(1, (size_t)counts[c]), name[32];
    snprintf(name, sizeof(name), "%lld", (long long)counts[c]);
    const uint64_t seed = unit_random(&random);
    const int64_t epoch = (int64_t)(unit_random(&random) >> 1);
    bool ok = true;
    for (int64_t i = 0; i < counts[c]; i++) {
      int64_t place = ptc_shuffle(seed, epoch, counts[c], i);
      ok = ok && place >= 0 && place < counts[c] && !seen[place];
      if (ok) seen[place] = 1;
    }
    UNIT_CHECK(ok, name);
    free(seen);
  }
}

// Without a table: places of a count that no memory holds.
static void test_large(void) {
  const int64_t count = INT64_MAX / 3;
  int64_t below = 0;
  for (int64_t i = 0; i < 2000; i++) {
    int64_t place = ptc_shuffle(1, 2, count, i);
    CU_ASSERT(place >= 0 && place < count);
    below += place < count / 2;
  }
  CU_ASSERT(below > 850 && below < 1150);  // 6.7 standard deviations
}

// Chi-squared over (index, place) of a count of 10: 81 degrees of freedom, sigma 12.7.
static void test_even(void) {
  enum { COUNT = 10, RUNS = 20000 };
  int64_t cells[COUNT][COUNT] = {{0}}, epochs_differ = 0;
  for (uint64_t seed = 0; seed < RUNS; seed++) {
    bool differs = false;
    for (int64_t i = 0; i < COUNT; i++) {
      int64_t place = ptc_shuffle(seed, 5, COUNT, i);
      cells[i][place]++;
      differs |= place != ptc_shuffle(seed, 6, COUNT, i);
    }
    epochs_differ += differs;
  }
  double chi = 0, expected = (double)RUNS / COUNT;
  for (int i = 0; i < COUNT; i++)
    for (int k = 0; k < COUNT; k++)
      chi += ((double)cells[i][k] - expected) * ((double)cells[i][k] - expected) / expected;
  CU_ASSERT(chi < 81 + 6 * 12.7);
  CU_ASSERT(epochs_differ > RUNS - 10);
}

static void test_draw(void) {
  int64_t seen[7] = {0};
  for (int64_t epoch = 0; epoch < 7000; epoch++) {
    int64_t number = ptc_shuffle_draw(3, epoch, 1, 7);
    CU_ASSERT_FATAL(number >= 0 && number < 7);
    seen[number]++;
  }
  for (int i = 0; i < 7; i++) CU_ASSERT(seen[i] > 820 && seen[i] < 1180);
  CU_ASSERT_EQUAL(ptc_shuffle_draw(3, 9, 0, 1), 0);
}

static const unit_test_t tests[] = {
    {"bijective", test_bijective}, {"large", test_large}, {"even", test_even}, {"draw", test_draw}};
UNIT_MAIN("shuffle", tests)
