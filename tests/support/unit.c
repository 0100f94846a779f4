#include "tests/support/unit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int unit_main(const char *suite, const unit_test_t *tests, int num_tests) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite registered = CU_add_suite(suite, NULL, NULL);
  for (int i = 0; registered && i < num_tests; i++)
    if (!CU_add_test(registered, tests[i].name, tests[i].run)) registered = NULL;
  if (!registered) return 1;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}

uint64_t unit_seed(void) {
  const char *text = getenv("PTC_SEED");
  if (!text) text = getenv("PTC_SUITE_SEED");  // of the sources, by tests/run.sh
  uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
  printf(" PTC_SEED=%" PRIu64 " ", seed);
  return seed;
}

uint64_t unit_random(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void unit_make_folder(char out_path[32]) {
  snprintf(out_path, 32, "%s/ptc_test_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(out_path));
}
