// Reads stage0.steps; the form is that of ir/plan_text_impl.h. Any content is allowed: memory stays within a
// constant times the length of the text plus the addresses that runs expand to, of which there is a limit.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/map.h"
#include "ir/plan_text_impl.h"

enum { MAX_KERNELS = 1 << 16, MAX_BUFFERS = 1 << 20 };
// Numbers are smaller in magnitude, so that sums of two of them are safe.
static const int64_t max_number = INT64_C(1) << 62;

typedef struct reader_s {
  ptc_diag_t *diag;
  ptc_plan_t *plan;
  ptc_arena_t *arena;
  const char *at, *end, *line_start;
  int32_t line;
  ptc_interner_t names;
  ptc_map_t kernels;  // interned name -> number + 1
  int32_t cap_kernels, cap_buffers, cap_tasks;
  int64_t num_instances;
} reader_t;

void ptc_plan_grow(ptc_arena_t *arena, void *array, size_t elem_bytes, int32_t count,
                   int32_t *capacity) {
  if (count < *capacity) return;
  void **slot = array;
  const int32_t room = *capacity ? 2 * *capacity : 4;
  void *larger = ptc_arena_calloc(arena, (size_t)room, elem_bytes);
  if (count) memcpy(larger, *slot, (size_t)count * elem_bytes);
  *slot = larger;
  *capacity = room;
}

// --- characters and words

static ptc_loc_t here(const reader_t *r) {
  return (ptc_loc_t){r->plan->steps_file, r->line, (int32_t)(r->at - r->line_start) + 1};
}

#define FAULT(id, ...) ptc_error(r->diag, here(r), PTC_INVALID_INPUT, (id), __VA_ARGS__)

static char peek(const reader_t *r) { return r->at < r->end ? *r->at : '\0'; }

static void skip_blanks(reader_t *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
  if (peek(r) == '#')
    while (r->at < r->end && *r->at != '\n') r->at++;
}

// To the first word of the next line that has one.
static void skip_lines(reader_t *r) {
  for (skip_blanks(r); peek(r) == '\n' && r->at < r->end; skip_blanks(r)) {
    r->line_start = ++r->at;
    r->line++;
  }
}

static bool at_line_end(reader_t *r) {
  skip_blanks(r);
  return r->at == r->end || *r->at == '\n';
}

static ptc_status_t expect_line_end(reader_t *r) {
  if (at_line_end(r)) return PTC_OK;
  return FAULT("plan-text", "unexpected text before the end of the line");
}

static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t word_length(reader_t *r) {
  skip_blanks(r);
  size_t len = 0;
  while (r->at + len < r->end && is_word_char(r->at[len])) len++;
  return len;
}

// Takes |word| if it comes next.
static bool take_word(reader_t *r, const char *word) {
  const size_t len = word_length(r);
  if (len != strlen(word) || memcmp(r->at, word, len) != 0) return false;
  r->at += len;
  return true;
}

static ptc_status_t expect_word(reader_t *r, const char *word) {
  if (take_word(r, word)) return PTC_OK;
  return FAULT("plan-text", "expected '%s'", word);
}

static bool take_char(reader_t *r, char c) {
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static ptc_status_t expect_char(reader_t *r, char c) {
  if (take_char(r, c)) return PTC_OK;
  return FAULT("plan-text", "expected '%c'", c);
}

// --- numbers

// Digits alone, at the cursor.
static ptc_status_t read_digits(reader_t *r, int64_t max, int64_t *out) {
  const ptc_loc_t loc = here(r);
  if (!(peek(r) >= '0' && peek(r) <= '9')) return FAULT("plan-text", "expected a number");
  int64_t value = 0;
  bool ok = true;
  for (; peek(r) >= '0' && peek(r) <= '9'; r->at++)
    ok = ok && !__builtin_mul_overflow(value, 10, &value) &&
         !__builtin_add_overflow(value, *r->at - '0', &value);
  *out = value;
  if (ok && value <= max) return PTC_OK;
  return ptc_error(r->diag, loc, PTC_INVALID_INPUT, "plan-number",
                   "this number is larger than %" PRId64, max);
}

static ptc_status_t read_signed(reader_t *r, int64_t *out) {
  const bool negative = take_char(r, '-');
  if (!negative) (void)take_char(r, '+');
  PTC_TRY(read_digits(r, max_number, out));
  if (negative) *out = -*out;
  return PTC_OK;
}

static ptc_status_t read_number(reader_t *r, int64_t max, int64_t *out) {
  skip_blanks(r);
  return read_digits(r, max, out);
}

static ptc_status_t read_int32(reader_t *r, int32_t *out) {
  int64_t value;
  PTC_TRY(read_number(r, INT32_MAX, &value));
  *out = (int32_t)value;
  return PTC_OK;
}

static ptc_status_t read_float(reader_t *r, double *out) {
  enum { MAX_LEN = 40 };
  skip_blanks(r);
  char text[MAX_LEN + 1];
  size_t len = 0;
  while (r->at + len < r->end && len < MAX_LEN && strchr("0123456789.e+-", r->at[len]) &&
         r->at[len])
    len++;
  memcpy(text, r->at, len);
  text[len] = '\0';
  char *end;
  *out = strtod(text, &end);
  if (!len || *end || !(*out >= 0 && *out <= 1e300))
    return FAULT("plan-number", "expected a number from 0 to 1e300");
  r->at += len;
  return PTC_OK;
}

// --- text

static int hex_value(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// One character, escapes resolved; '\0' for what is not allowed.
static char read_char(reader_t *r) {
  char c = *r->at++;
  if (c != '\\') return c == '\n' ? '\0' : c;
  if (r->at == r->end) return '\0';
  c = *r->at++;
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c == '"' || c == '\'' || c == '\\') return c;
  if (c != 'x' || r->end - r->at < 2) return '\0';
  const int high = hex_value(r->at[0]), low = hex_value(r->at[1]);
  r->at += 2;
  return high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
}

// Text between two |quote|, at the cursor.
static ptc_status_t read_quoted(reader_t *r, char quote, const char **out) {
  const ptc_loc_t loc = here(r);
  PTC_TRY(expect_char(r, quote));
  const char *start = r->at;
  size_t len = 0;
  bool ok = true;
  while (ok && r->at < r->end && *r->at != quote) {
    ok = read_char(r) != '\0';
    len++;
  }
  if (!ok || r->at >= r->end) {
    r->at = start;
    return ptc_error(r->diag, loc, PTC_INVALID_INPUT, "plan-text",
                     "this text has no closing quote on its line, or a bad escape");
  }
  char *text = ptc_arena_alloc(r->arena, len + 1);
  r->at = start;
  for (size_t i = 0; i < len; ++i) text[i] = read_char(r);
  r->at++;
  *out = text;
  return PTC_OK;
}

static ptc_status_t read_string(reader_t *r, const char **out) {
  skip_blanks(r);
  return read_quoted(r, '"', out);
}

// A word, or text in single quotes.
static ptc_status_t read_name(reader_t *r, const char **out) {
  const size_t len = word_length(r);
  if (!len) return read_quoted(r, '\'', out);
  *out = ptc_arena_strndup(r->arena, r->at, len);
  r->at += len;
  return PTC_OK;
}

static ptc_status_t read_word(reader_t *r, const char **out) {
  const size_t len = word_length(r);
  if (!len) return FAULT("plan-text", "expected a word");
  *out = ptc_arena_strndup(r->arena, r->at, len);
  r->at += len;
  return PTC_OK;
}

// `at "file":line`, or nothing.
static ptc_status_t read_loc(reader_t *r, const char **out_file, int32_t *out_line) {
  if (!take_word(r, "at")) return PTC_OK;
  PTC_TRY(read_string(r, out_file));
  PTC_TRY(expect_char(r, ':'));
  int64_t line;
  PTC_TRY(read_digits(r, INT32_MAX, &line));
  *out_line = (int32_t)line;
  return PTC_OK;
}

// --- kernels

static ptc_status_t read_params(reader_t *r, ptc_plan_kernel_t *kernel) {
  uint8_t modes[PTC_PLAN_MAX_ARGS];
  int64_t bytes[PTC_PLAN_MAX_ARGS], over;
  int32_t in_place[PTC_PLAN_MAX_ARGS], n = 0;
  skip_lines(r);
  PTC_TRY(expect_word(r, "params"));
  for (; !at_line_end(r); ++n) {
    if (n == PTC_PLAN_MAX_ARGS - 1)
      return FAULT("plan-limit", "a kernel has at most %d parameters", PTC_PLAN_MAX_ARGS - 1);
    if (take_word(r, "in"))
      modes[n] = 0;
    else if (take_word(r, "out"))
      modes[n] = 1;
    else if (take_word(r, "inout"))
      modes[n] = 2;
    else
      return FAULT("plan-text", "expected 'in', 'out' or 'inout'");
    PTC_TRY(expect_char(r, ':'));
    PTC_TRY(read_digits(r, max_number, &bytes[n]));
    in_place[n] = -1;
    if (!take_char(r, '/')) continue;
    PTC_TRY(read_digits(r, PTC_PLAN_MAX_ARGS, &over));
    in_place[n] = (int32_t)over;
  }
  uint8_t *kept_modes = PTC_ARENA_ARRAY(r->arena, uint8_t, n);
  int64_t *kept_bytes = PTC_ARENA_ARRAY(r->arena, int64_t, n);
  int32_t *kept_places = PTC_ARENA_ARRAY(r->arena, int32_t, n);
  for (int32_t p = 0; p < n; ++p) {
    kept_modes[p] = modes[p];
    kept_bytes[p] = bytes[p];
    kept_places[p] = in_place[p];
  }
  kernel->num_params = n;
  kernel->modes = kept_modes;
  kernel->param_bytes = kept_bytes;
  kernel->in_place = kept_places;
  return PTC_OK;
}

// The rest of a line `run COUNT: TILES...`.
static ptc_status_t read_run(reader_t *r, ptc_phase_run_t *run) {
  int64_t *tiles = NULL;
  int32_t capacity = 0;
  PTC_TRY(read_number(r, max_number, &run->count));
  PTC_TRY(expect_char(r, ':'));
  while (!at_line_end(r)) {
    ptc_plan_grow(r->arena, &tiles, sizeof *tiles, run->num_phases, &capacity);
    PTC_TRY(read_number(r, max_number, &tiles[run->num_phases++]));
  }
  run->tiles = tiles;
  return PTC_OK;
}

static ptc_status_t read_kernel(reader_t *r) {
  ptc_plan_kernel_t kernel = {.line = r->line, .hash = ""};
  if (r->plan->num_kernels == MAX_KERNELS) return FAULT("plan-limit", "too many kernels");
  PTC_TRY(read_word(r, &kernel.name));
  const char *name = ptc_intern(&r->names, kernel.name);
  if (ptc_map_get(&r->kernels, name))
    return FAULT("plan-name", "another kernel is called \"%s\"", name);
  PTC_TRY(read_string(r, &kernel.about));
  PTC_TRY(read_loc(r, &kernel.loc_file, &kernel.loc_line));
  PTC_TRY(expect_line_end(r));
  PTC_TRY(read_params(r, &kernel));
  ptc_phase_run_t *runs = NULL;
  int32_t cap_runs = 0;
  for (skip_lines(r); take_word(r, "run"); skip_lines(r)) {
    ptc_plan_grow(r->arena, &runs, sizeof *runs, kernel.num_runs, &cap_runs);
    PTC_TRY(read_run(r, &runs[kernel.num_runs++]));
  }
  kernel.runs = runs;
  PTC_TRY(expect_word(r, "needs"));
  PTC_TRY(expect_word(r, "workspace"));
  PTC_TRY(read_number(r, max_number, &kernel.workspace_bytes));
  PTC_TRY(expect_word(r, "scratch"));
  PTC_TRY(read_number(r, max_number, &kernel.scratch_bytes));
  PTC_TRY(expect_word(r, "flops"));
  PTC_TRY(read_float(r, &kernel.flops));
  PTC_TRY(expect_word(r, "bytes"));
  PTC_TRY(read_number(r, max_number, &kernel.min_bytes));
  PTC_TRY(expect_line_end(r));
  ptc_plan_grow(r->arena, &r->plan->kernels, sizeof kernel, r->plan->num_kernels, &r->cap_kernels);
  r->plan->kernels[r->plan->num_kernels++] = kernel;
  ptc_map_set(&r->kernels, name, (void *)(intptr_t)r->plan->num_kernels);
  return PTC_OK;
}

// --- buffers

static ptc_status_t read_class(reader_t *r, ptc_buffer_class_t *out) {
  for (int c = 0; c < PTC_NUM_BUFFER_CLASSES; ++c) {
    if (!take_word(r, ptc_buffer_class_name((ptc_buffer_class_t)c))) continue;
    *out = (ptc_buffer_class_t)c;
    return PTC_OK;
  }
  return FAULT("plan-text", "expected a class of buffers: input, param, moment, ...");
}

static ptc_status_t read_type(reader_t *r, ptc_buffer_t *buffer) {
  const char *word, *names[PTC_MAX_DIMS];
  int64_t extents[PTC_MAX_DIMS];
  PTC_TRY(read_word(r, &word));
  if (!ptc_dtype_parse(word, &buffer->dtype)) return FAULT("plan-text", "\"%s\" is no dtype", word);
  skip_blanks(r);
  PTC_TRY(expect_char(r, '['));
  int32_t n = 0;
  buffer->bytes = ptc_dtype_bytes(buffer->dtype);
  for (skip_blanks(r); !take_char(r, ']'); skip_blanks(r), ++n) {
    if (n == PTC_MAX_DIMS) return FAULT("plan-limit", "a buffer has at most %d dims", PTC_MAX_DIMS);
    PTC_TRY(read_name(r, &names[n]));
    PTC_TRY(expect_char(r, '='));
    PTC_TRY(read_digits(r, max_number, &extents[n]));
    if (__builtin_mul_overflow(buffer->bytes, extents[n], &buffer->bytes))
      return FAULT("plan-number", "the buffer has more than 2^63 bytes");
  }
  const char **kept_names = PTC_ARENA_ARRAY(r->arena, const char *, n);
  int64_t *kept_extents = PTC_ARENA_ARRAY(r->arena, int64_t, n);
  for (int32_t d = 0; d < n; ++d) {
    kept_names[d] = names[d];
    kept_extents[d] = extents[d];
  }
  buffer->num_dims = n;
  buffer->dim_names = kept_names;
  buffer->extents = kept_extents;
  return PTC_OK;
}

// The addresses FIRST[+STRIDE*COUNT] of a line. The first pass (|offsets| NULL) counts.
static ptc_status_t read_addresses(reader_t *r, int64_t *offsets, int64_t *out_count) {
  int64_t n = 0;
  while (!at_line_end(r)) {
    int64_t first, stride = 0, count = 1;
    PTC_TRY(read_digits(r, max_number, &first));
    if (peek(r) == '+' || peek(r) == '-') {
      PTC_TRY(read_signed(r, &stride));
      PTC_TRY(expect_char(r, '*'));
      PTC_TRY(read_digits(r, PTC_PLAN_MAX_INSTANCES, &count));
    }
    if (count > PTC_PLAN_MAX_INSTANCES - r->num_instances - n)
      return FAULT("plan-limit", "more than %d addresses", PTC_PLAN_MAX_INSTANCES);
    for (int64_t i = 0; i < count; ++i, ++n) {
      int64_t shift, at = 0;
      if (__builtin_mul_overflow(stride, i, &shift) || __builtin_add_overflow(first, shift, &at))
        return FAULT("plan-number", "an address of this run is out of range");
      if (offsets) offsets[n] = at;
    }
  }
  *out_count = n;
  return PTC_OK;
}

static ptc_status_t read_buffer(reader_t *r) {
  ptc_buffer_t buffer = {.line = r->line};
  int64_t number;
  if (r->plan->num_buffers == MAX_BUFFERS) return FAULT("plan-limit", "too many buffers");
  PTC_TRY(read_number(r, INT32_MAX, &number));
  if (number != r->plan->num_buffers)
    return FAULT("plan-text", "buffers are numbered in order; this one is %" PRId32,
                 r->plan->num_buffers);
  PTC_TRY(read_string(r, &buffer.name));
  PTC_TRY(read_class(r, &buffer.cls));
  PTC_TRY(read_type(r, &buffer));
  PTC_TRY(read_loc(r, &buffer.loc_file, &buffer.loc_line));
  PTC_TRY(expect_line_end(r));
  skip_lines(r);
  PTC_TRY(expect_word(r, "at"));
  const char *start = r->at;
  PTC_TRY(read_addresses(r, NULL, &buffer.num_instances));
  buffer.offsets = PTC_ARENA_ARRAY(r->arena, int64_t, buffer.num_instances);
  r->at = start;
  PTC_TRY(read_addresses(r, buffer.offsets, &buffer.num_instances));
  r->num_instances += buffer.num_instances;
  ptc_plan_grow(r->arena, &r->plan->buffers, sizeof buffer, r->plan->num_buffers, &r->cap_buffers);
  r->plan->buffers[r->plan->num_buffers++] = buffer;
  return PTC_OK;
}

// --- steps

// [NUMBER] then [+-][NUMBER *]tLEVEL ..., at the cursor.
static ptc_status_t read_affine(reader_t *r, ptc_affine_t *out) {
  for (bool first = true; first || peek(r) == '+' || peek(r) == '-'; first = false) {
    const bool negative = take_char(r, '-');
    int64_t value = 1, level;
    if (!negative) (void)take_char(r, '+');
    if (peek(r) != 't') {
      PTC_TRY(read_digits(r, max_number, &value));
      if (!take_char(r, '*')) {
        if (!first) return FAULT("plan-text", "the number comes first");
        out->base = negative ? -value : value;
        continue;
      }
    }
    PTC_TRY(expect_char(r, 't'));
    PTC_TRY(read_digits(r, PTC_PLAN_MAX_LEVELS - 1, &level));
    if (out->coef[level]) return FAULT("plan-text", "t%" PRId64 " occurs twice", level);
    out->coef[level] = negative ? -value : value;
  }
  return PTC_OK;
}

static ptc_status_t read_ref(reader_t *r, ptc_ref_t *out) {
  *out = (ptc_ref_t){0};
  PTC_TRY(read_int32(r, &out->buffer));
  if (take_char(r, '[')) {
    PTC_TRY(read_affine(r, &out->instance));
    PTC_TRY(expect_char(r, ']'));
  }
  if (take_char(r, '@')) PTC_TRY(read_affine(r, &out->byte_offset));
  PTC_TRY(expect_char(r, ':'));
  return read_digits(r, max_number, &out->bytes);
}

static ptc_status_t read_args(reader_t *r, ptc_step_t *step) {
  ptc_ref_t refs[PTC_PLAN_MAX_ARGS];
  int32_t n = 0;
  while (!at_line_end(r)) {
    if (n == PTC_PLAN_MAX_ARGS)
      return FAULT("plan-limit", "a step has at most %d arguments", PTC_PLAN_MAX_ARGS);
    PTC_TRY(read_ref(r, &refs[n++]));
  }
  step->num_args = n;
  step->args = PTC_ARENA_ARRAY(r->arena, ptc_ref_t, n);
  if (n) memcpy(step->args, refs, (size_t)n * sizeof *refs);
  return PTC_OK;
}

static ptc_status_t read_launch(reader_t *r, ptc_step_t *step) {
  const size_t len = word_length(r);
  const char *name = ptc_intern_n(&r->names, r->at, len);
  const intptr_t number = (intptr_t)ptc_map_get(&r->kernels, name);
  if (!number) return FAULT("plan-name", "there is no kernel \"%s\"", name);
  r->at += len;
  step->kernel = (int32_t)number - 1;
  return read_args(r, step);
}

static ptc_status_t read_steps(reader_t *r, int32_t depth, ptc_step_t **out_steps,
                               int32_t *out_count);

static ptc_status_t read_step(reader_t *r, int32_t depth, ptc_step_t *step) {
  *step = (ptc_step_t){.line = r->line};
  if (take_word(r, "launch")) return read_launch(r, step);
  if (take_word(r, "copy")) {
    step->kind = PTC_STEP_COPY;
    return read_args(r, step);
  }
  PTC_TRY(expect_word(r, "repeat"));
  step->kind = PTC_STEP_REPEAT;
  if (depth == PTC_PLAN_MAX_LEVELS)
    return FAULT("plan-limit", "more than %d nested repeats", PTC_PLAN_MAX_LEVELS);
  PTC_TRY(read_number(r, max_number, &step->count));
  step->reverse = take_word(r, "reverse");
  PTC_TRY(expect_line_end(r));
  return read_steps(r, depth + 1, &step->body, &step->num_steps);
}

// Up to and with `end`.
static ptc_status_t read_steps(reader_t *r, int32_t depth, ptc_step_t **out_steps,
                               int32_t *out_count) {
  ptc_step_t *steps = NULL;
  int32_t count = 0, capacity = 0;
  for (skip_lines(r); !take_word(r, "end"); skip_lines(r)) {
    ptc_plan_grow(r->arena, &steps, sizeof *steps, count, &capacity);
    PTC_TRY(read_step(r, depth, &steps[count++]));
    PTC_TRY(expect_line_end(r));
  }
  *out_steps = steps;
  *out_count = count;
  return PTC_OK;
}

static ptc_status_t read_results(reader_t *r, ptc_task_t *task) {
  int32_t capacity = 0;
  for (skip_lines(r); take_word(r, "result"); skip_lines(r)) {
    ptc_plan_result_t result = {.line = r->line};
    PTC_TRY(read_string(r, &result.name));
    PTC_TRY(read_word(r, &result.role));
    PTC_TRY(read_int32(r, &result.buffer));
    PTC_TRY(read_number(r, max_number, &result.first_instance));
    PTC_TRY(read_number(r, max_number, &result.num_instances));
    PTC_TRY(expect_line_end(r));
    ptc_plan_grow(r->arena, &task->results, sizeof result, task->num_results, &capacity);
    task->results[task->num_results++] = result;
  }
  return PTC_OK;
}

static ptc_status_t read_task(reader_t *r) {
  if (r->plan->num_tasks == PTC_PLAN_MAX_TASKS) return FAULT("plan-limit", "too many tasks");
  ptc_task_t task = {0};
  PTC_TRY(read_string(r, &task.name));
  PTC_TRY(expect_line_end(r));
  PTC_TRY(read_results(r, &task));
  PTC_TRY(read_steps(r, 0, &task.steps, &task.num_steps));
  ptc_plan_grow(r->arena, &r->plan->tasks, sizeof task, r->plan->num_tasks, &r->cap_tasks);
  r->plan->tasks[r->plan->num_tasks++] = task;
  return PTC_OK;
}

// --- the file

static ptc_status_t read_items(reader_t *r) {
  int64_t version;
  skip_lines(r);
  PTC_TRY(expect_word(r, "steps"));
  PTC_TRY(read_number(r, max_number, &version));
  if (version != PTC_PLAN_VERSION)
    return FAULT("plan-text", "the version is %" PRId64 "; this program reads version %d", version,
                 PTC_PLAN_VERSION);
  PTC_TRY(expect_line_end(r));
  for (skip_lines(r); r->at < r->end; skip_lines(r)) {
    if (take_word(r, "kernel"))
      PTC_TRY(read_kernel(r));
    else if (take_word(r, "buffer"))
      PTC_TRY(read_buffer(r));
    else if (take_word(r, "task"))
      PTC_TRY(read_task(r));
    else
      return FAULT("plan-text", "expected 'kernel', 'buffer' or 'task'");
    PTC_TRY(expect_line_end(r));
  }
  return PTC_OK;
}

ptc_status_t ptc_plan_parse_steps(ptc_diag_t *diag, ptc_plan_t *plan, const char *text,
                                  size_t len) {
  reader_t reader = {.diag = diag,
                     .plan = plan,
                     .arena = &plan->arena,
                     .at = text,
                     .end = text + len,
                     .line_start = text,
                     .line = 1};
  ptc_interner_init(&reader.names, &plan->arena);
  ptc_status_t status = read_items(&reader);
  ptc_map_deinit(&reader.kernels);
  ptc_interner_deinit(&reader.names);
  return status;
}
