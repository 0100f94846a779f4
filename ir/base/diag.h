// Source locations and diagnostics: every complaint of the compiler goes through a sink.
#ifndef PTC_IR_BASE_DIAG_H_
#define PTC_IR_BASE_DIAG_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ir/base/arena.h"
#include "ir/base/status.h"

// A place in a source file. |file| is interned or arena-owned; NULL means "no place".
// Lines and columns count from 1, columns in bytes.
typedef struct ptc_loc_s {
  const char *file;
  int32_t line, column;
} ptc_loc_t;

typedef enum ptc_severity_e { PTC_ERROR, PTC_WARNING, PTC_NOTE } ptc_severity_t;

typedef struct ptc_diagnostic_s {
  ptc_severity_t severity;
  const char *id;  // stable, kebab-case: "unknown-name"; a verifier constraint: "einsum-c2"
  ptc_loc_t loc;
  const char *message;  // lower case, no full stop, names quoted, offending values shown
} ptc_diagnostic_t;

typedef struct ptc_source_s ptc_source_t;

// Collects diagnostics in order. Owns copies of all text it is given. Not thread-safe.
typedef struct ptc_diag_s {
  ptc_arena_t arena;
  ptc_diagnostic_t *items;
  int64_t num_items, capacity;
  int64_t num_errors;
  int64_t max_errors;  // further errors are counted, not kept; 0 = 100
  ptc_source_t *sources;
} ptc_diag_t;

void ptc_diag_init(ptc_diag_t *diag);
void ptc_diag_deinit(ptc_diag_t *diag);

// Registers the text of |file| so that excerpts can be printed. The text is copied.
void ptc_diag_add_source(ptc_diag_t *diag, const char *file, const char *text, size_t len);

// Records an error and returns |status|. |id| names the kind of error (see CONTRIBUTING.md);
// every id is provoked by a test. An error at a location that already has one with the same id is
// dropped.
ptc_status_t ptc_error(ptc_diag_t *diag, ptc_loc_t loc, ptc_status_t status, const char *id,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
void ptc_warning(ptc_diag_t *diag, ptc_loc_t loc, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Attaches a note to the latest error or warning. Dropped if that one was dropped.
void ptc_note(ptc_diag_t *diag, ptc_loc_t loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Records what |from|, another sink, has collected; |status| goes with its errors.
void ptc_diag_pass_on(ptc_diag_t *diag, const ptc_diag_t *from, ptc_status_t status);

typedef enum ptc_diag_format_e { PTC_DIAG_TEXT, PTC_DIAG_JSON } ptc_diag_format_t;
// Prints all diagnostics, in one write where `out` is unbuffered. Text: `file:line:col: error: message [id]`, the line, a caret.
// JSON: one object per line: {"severity","id","file","line","column","message"}.
void ptc_diag_print(const ptc_diag_t *diag, FILE *out, ptc_diag_format_t format, bool color);

#endif  // PTC_IR_BASE_DIAG_H_
