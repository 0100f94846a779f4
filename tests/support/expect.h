// Broken inputs with the diagnostics they must get, as comments in the input itself:
//
//   # expected-error @+1 {{missing operator before name "w"}}
//   y[b, d] = x[b, d] w[d]
//   # ----
//   (the next section: an input of its own)
//
// `expected-error`, `expected-warning` or `expected-note`; the line is `@+N` or `@-N` from the
// comment's own, `@N` absolute, each perhaps with the column `:C`, or `@none` (a diagnostic without a
// line); without it, the comment's own line. The text must occur in `MESSAGE [ID]`, so it may be a part of the words or the id. Every
// error and warning must be expected, each expectation met once; notes need not be expected. A
// section without expectations must pass without errors.
#ifndef PTC_TESTS_SUPPORT_EXPECT_H_
#define PTC_TESTS_SUPPORT_EXPECT_H_

#include "ir/base/diag.h"
#include "ir/base/str.h"
#include "tests/support/unit.h"

typedef struct expect_section_s {
  char *name;  // "FILE:LINE" of its first line, without the folder
  char *path;
  char *text;  // with empty lines before it, so that its lines have the file's numbers
  size_t len;
} expect_section_t;

typedef struct expect_sections_s {
  expect_section_t *items;
  int64_t count;
} expect_sections_t;

// Appends the sections of every file of |folder| whose name ends with |suffix|, sorted by name.
// False if the folder cannot be read or a file is empty.
bool expect_load(const char *folder, const char *suffix, expect_sections_t *sections);
void expect_free(expect_sections_t *sections);

// Compares |diag| with what |section| expects; appends what differs to |out_report|.
bool expect_check(const expect_section_t *section, const ptc_diag_t *diag, ptc_str_t *out_report);

// Runs |check| as a CUnit test of its own for each section (its name is the test's), then |more|.
// Returns the process's exit status.
int expect_run(const char *suite, const expect_sections_t *sections, void (*check)(void),
               const unit_test_t *more, int num_more);

#endif  // PTC_TESTS_SUPPORT_EXPECT_H_
