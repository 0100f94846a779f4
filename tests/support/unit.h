// Scaffold of the CUnit programs: one suite per program, rows named in failures.
#ifndef PTC_TESTS_SUPPORT_UNIT_H_
#define PTC_TESTS_SUPPORT_UNIT_H_

#include <CUnit/Basic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct unit_test_s {
  const char *name;
  void (*run)(void);
} unit_test_t;

// Runs |tests| as one suite; the process's exit status.
int unit_main(const char *suite, const unit_test_t *tests, int num_tests);
// Seed of random tests: PTC_SEED of the environment, else the clock; printed.
uint64_t unit_seed(void);
// The next number of a small generator (splitmix64).
uint64_t unit_random(uint64_t *state);

// A new folder, in |out_path|: in memory where that is possible, since syncs to a disk take their time.
void unit_make_folder(char out_path[32]);

// A check that names the row of a table when it fails.
#define UNIT_CHECK(condition, row)                                                                \
  ((void)CU_assertImplementation((condition) ? CU_TRUE : CU_FALSE, __LINE__, (row), __FILE__, "", \
                                 CU_FALSE))
#define UNIT_MAIN(suite, tests) \
  int main(void) { return unit_main((suite), (tests), (int)(sizeof(tests) / sizeof((tests)[0]))); }

#endif  // PTC_TESTS_SUPPORT_UNIT_H_
