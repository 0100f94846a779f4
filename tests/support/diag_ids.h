// The ids of diagnostics that occur in source files, for tests that every one is provoked.
#ifndef PTC_TESTS_SUPPORT_DIAG_IDS_H_
#define PTC_TESTS_SUPPORT_DIAG_IDS_H_

#include <stdbool.h>
#include <stdint.h>

enum { DIAG_IDS_MAX = 1024 };

typedef struct diag_ids_s {
  char *ids[DIAG_IDS_MAX];
  int32_t count;
} diag_ids_t;

bool diag_ids_has(const diag_ids_t *set, const char *id);
void diag_ids_add(diag_ids_t *set, const char *id);  // once
// Adds the first kebab-case string after each call that reports a diagnostic, in the files of
// |folder| whose names end with |suffix|. False if a file cannot be read.
bool diag_ids_scan(const char *folder, const char *suffix, diag_ids_t *set);
void diag_ids_free(diag_ids_t *set);

#endif  // PTC_TESTS_SUPPORT_DIAG_IDS_H_
