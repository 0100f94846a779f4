// Checks the output of a command against the comments of its input, as FileCheck does.
//
//   # RUN: ptc-opt %s --pass=dce --no-loc      the command; `not` before it: it must fail
//   # CHECK-LABEL: func @f                     splits the output into blocks, in order
//   # CHECK: %[[A:[0-9]+]] = neg %x            later in the block; binds A to what the regex matches
//   # CHECK-NEXT: exp %[[A]]                   on the next line
//   # CHECK-NOT: tanh                          not between its neighbours
//
// {{regex}} is an extended regular expression, the rest is literal; runs of blanks are one blank.
#ifndef PTC_TESTS_SUPPORT_IR_CHECK_H_
#define PTC_TESTS_SUPPORT_IR_CHECK_H_

#include <stdbool.h>

#include "ir/base/str.h"

// Runs the commands of the file at |path|; `ptc-opt` stands for |program|. Appends what is wrong to
// |out_report|. A file without a RUN line, or with one whose output nothing checks, is wrong.
bool ir_check_file(const char *path, const char *program, ptc_str_t *out_report);

// The checks in |text| against |output|. False, with a report, if one fails or there is none.
bool ir_check_output(const char *path, const char *text, const char *output, ptc_str_t *out_report);

#endif  // PTC_TESTS_SUPPORT_IR_CHECK_H_
