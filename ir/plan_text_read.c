// Reads stage0.steps; the form is that of ir/plan_text_impl.h. Any content is allowed: memory stays within a
// constant times the length of the text plus the addresses that runs expand to, of which there is a limit.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/map.h"
#include "ir/plan_text_impl.h"

enum { MAX_KERNELS = 1 << 16, MAX_BUFFERS = 1 << 20, MAX_WAITS = 256, MAX_AHEAD = 1024 };

#define FAULT(id, ...) ptc_error(r->diag, ptc_scan_here(r), PTC_INVALID_INPUT, (id), __VA_ARGS__)

// --- kernels

static ptc_status_t read_params(ptc_plan_reader_t *r, ptc_plan_kernel_t *kernel) {
  uint8_t modes[PTC_PLAN_MAX_ARGS];
  int64_t bytes[PTC_PLAN_MAX_ARGS], over;
  int32_t in_place[PTC_PLAN_MAX_ARGS], n = 0;
  ptc_scan_skip_lines(r);
  PTC_TRY(ptc_scan_expect_word(r, "params"));
  for (; !ptc_scan_at_line_end(r); ++n) {
    if (n == PTC_PLAN_MAX_ARGS - 1)
      return FAULT("plan-limit", "a kernel has at most %d parameters", PTC_PLAN_MAX_ARGS - 1);
    if (ptc_scan_take_word(r, "in"))
      modes[n] = 0;
    else if (ptc_scan_take_word(r, "out"))
      modes[n] = 1;
    else if (ptc_scan_take_word(r, "inout"))
      modes[n] = 2;
    else
      return FAULT("plan-text", "expected 'in', 'out' or 'inout'");
    PTC_TRY(ptc_scan_expect_char(r, ':'));
    PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, &bytes[n]));
    in_place[n] = -1;
    if (!ptc_scan_take_char(r, '/')) continue;
    PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_ARGS, &over));
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
static ptc_status_t read_run(ptc_plan_reader_t *r, ptc_phase_run_t *run) {
  int64_t *tiles = NULL;
  int32_t capacity = 0;
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &run->count));
  PTC_TRY(ptc_scan_expect_char(r, ':'));
  while (!ptc_scan_at_line_end(r)) {
    ptc_plan_grow(r->arena, &tiles, sizeof *tiles, run->num_phases, &capacity);
    PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &tiles[run->num_phases++]));
  }
  run->tiles = tiles;
  return PTC_OK;
}

static ptc_status_t read_kernel(ptc_plan_reader_t *r) {
  ptc_plan_kernel_t kernel = {.line = r->line, .hash = ""};
  if (r->plan->num_kernels == MAX_KERNELS) return FAULT("plan-limit", "too many kernels");
  PTC_TRY(ptc_scan_word(r, &kernel.name));
  const char *name = ptc_intern(&r->names, kernel.name);
  if (ptc_map_get(&r->kernels, name))
    return FAULT("plan-name", "another kernel is called \"%s\"", name);
  PTC_TRY(ptc_scan_string(r, &kernel.about));
  PTC_TRY(ptc_scan_loc(r, &kernel.loc_file, &kernel.loc_line));
  PTC_TRY(ptc_scan_expect_line_end(r));
  PTC_TRY(read_params(r, &kernel));
  ptc_phase_run_t *runs = NULL;
  int32_t cap_runs = 0;
  for (ptc_scan_skip_lines(r); ptc_scan_take_word(r, "run"); ptc_scan_skip_lines(r)) {
    ptc_plan_grow(r->arena, &runs, sizeof *runs, kernel.num_runs, &cap_runs);
    PTC_TRY(read_run(r, &runs[kernel.num_runs++]));
  }
  kernel.runs = runs;
  PTC_TRY(ptc_scan_expect_word(r, "needs"));
  PTC_TRY(ptc_scan_expect_word(r, "workspace"));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &kernel.workspace_bytes));
  PTC_TRY(ptc_scan_expect_word(r, "scratch"));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &kernel.scratch_bytes));
  PTC_TRY(ptc_scan_expect_word(r, "flops"));
  PTC_TRY(ptc_scan_float(r, &kernel.flops));
  PTC_TRY(ptc_scan_expect_word(r, "bytes"));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &kernel.min_bytes));
  PTC_TRY(ptc_scan_expect_line_end(r));
  PTC_TRY(ptc_plan_read_gemm(r, &kernel));
  ptc_plan_grow(r->arena, &r->plan->kernels, sizeof kernel, r->plan->num_kernels, &r->cap_kernels);
  r->plan->kernels[r->plan->num_kernels++] = kernel;
  ptc_map_set(&r->kernels, name, (void *)(intptr_t)r->plan->num_kernels);
  return PTC_OK;
}

// --- buffers

static ptc_status_t read_class(ptc_plan_reader_t *r, ptc_buffer_class_t *out) {
  for (int c = 0; c < PTC_NUM_BUFFER_CLASSES; ++c) {
    if (!ptc_scan_take_word(r, ptc_buffer_class_name((ptc_buffer_class_t)c))) continue;
    *out = (ptc_buffer_class_t)c;
    return PTC_OK;
  }
  return FAULT("plan-text", "expected a class of buffers: input, param, moment, ...");
}

static ptc_status_t read_type(ptc_plan_reader_t *r, ptc_buffer_t *buffer) {
  const char *word, *names[PTC_MAX_DIMS];
  int64_t extents[PTC_MAX_DIMS];
  PTC_TRY(ptc_scan_word(r, &word));
  if (!ptc_dtype_parse(word, &buffer->dtype)) return FAULT("plan-text", "\"%s\" is no dtype", word);
  ptc_scan_skip_blanks(r);
  PTC_TRY(ptc_scan_expect_char(r, '['));
  int32_t n = 0;
  buffer->bytes = ptc_dtype_bytes(buffer->dtype);
  for (ptc_scan_skip_blanks(r); !ptc_scan_take_char(r, ']'); ptc_scan_skip_blanks(r), ++n) {
    if (n == PTC_MAX_DIMS) return FAULT("plan-limit", "a buffer has at most %d dims", PTC_MAX_DIMS);
    PTC_TRY(ptc_scan_name(r, &names[n]));
    PTC_TRY(ptc_scan_expect_char(r, '='));
    PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, &extents[n]));
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
static ptc_status_t read_addresses(ptc_plan_reader_t *r, int64_t *offsets, int64_t *out_count) {
  int64_t n = 0;
  while (!ptc_scan_at_line_end(r)) {
    int64_t first, stride = 0, count = 1;
    PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, &first));
    if (ptc_scan_peek(r) == '+' || ptc_scan_peek(r) == '-') {
      PTC_TRY(ptc_scan_signed(r, &stride));
      PTC_TRY(ptc_scan_expect_char(r, '*'));
      PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_INSTANCES, &count));
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

static ptc_status_t read_buffer(ptc_plan_reader_t *r) {
  ptc_buffer_t buffer = {.line = r->line};
  int64_t number;
  if (r->plan->num_buffers == MAX_BUFFERS) return FAULT("plan-limit", "too many buffers");
  PTC_TRY(ptc_scan_number(r, INT32_MAX, &number));
  if (number != r->plan->num_buffers)
    return FAULT("plan-text", "buffers are numbered in order; this one is %" PRId32,
                 r->plan->num_buffers);
  PTC_TRY(ptc_scan_string(r, &buffer.name));
  PTC_TRY(read_class(r, &buffer.cls));
  PTC_TRY(read_type(r, &buffer));
  PTC_TRY(ptc_plan_read_layout(r, &buffer));
  PTC_TRY(ptc_scan_loc(r, &buffer.loc_file, &buffer.loc_line));
  PTC_TRY(ptc_scan_expect_line_end(r));
  ptc_scan_skip_lines(r);
  PTC_TRY(ptc_scan_expect_word(r, "at"));
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

// tLEVEL of a repeat, or the name of an axis.
static ptc_status_t read_level(ptc_plan_reader_t *r, int32_t *out_level) {
  const ptc_mesh_t *mesh = &r->plan->mesh;
  const ptc_loc_t loc = ptc_scan_here(r);
  for (int32_t a = 0; a < mesh->num_axes; ++a) {
    *out_level = a;
    if (ptc_scan_take_word(r, mesh->axes[a].name)) return PTC_OK;
  }
  int64_t level;
  PTC_TRY(ptc_scan_expect_char(r, 't'));
  PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_LEVELS - 1, &level));
  *out_level = mesh->num_axes + (int32_t)level;
  if (*out_level < PTC_PLAN_MAX_LEVELS) return PTC_OK;
  return ptc_error(r->diag, loc, PTC_INVALID_INPUT, "plan-number",
                   "with %" PRId32 " axes, repeats are numbered up to %" PRId32, mesh->num_axes,
                   PTC_PLAN_MAX_LEVELS - 1 - mesh->num_axes);
}

// [NUMBER] then [+-][NUMBER *]LEVEL ..., at the cursor.
static ptc_status_t read_affine(ptc_plan_reader_t *r, ptc_affine_t *out) {
  for (bool first = true; first || ptc_scan_peek(r) == '+' || ptc_scan_peek(r) == '-';
       first = false) {
    const bool negative = ptc_scan_take_char(r, '-');
    int64_t value = 1;
    int32_t level;
    if (!negative) (void)ptc_scan_take_char(r, '+');
    if (ptc_scan_peek(r) >= '0' && ptc_scan_peek(r) <= '9') {
      PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, &value));
      if (!ptc_scan_take_char(r, '*')) {
        if (!first) return FAULT("plan-text", "the number comes first");
        out->base = negative ? -value : value;
        continue;
      }
    }
    PTC_TRY(read_level(r, &level));
    if (out->coef[level]) return FAULT("plan-text", "a turn or an axis occurs twice");
    out->coef[level] = negative ? -value : value;
  }
  return PTC_OK;
}

ptc_status_t ptc_plan_read_ref(ptc_plan_reader_t *r, ptc_ref_t *out) {
  *out = (ptc_ref_t){0};
  PTC_TRY(ptc_scan_int32(r, &out->buffer));
  if (ptc_scan_take_char(r, '[')) {
    PTC_TRY(read_affine(r, &out->instance));
    PTC_TRY(ptc_scan_expect_char(r, ']'));
  }
  if (ptc_scan_take_char(r, '@')) PTC_TRY(read_affine(r, &out->byte_offset));
  PTC_TRY(ptc_scan_expect_char(r, ':'));
  return ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, &out->bytes);
}

static ptc_status_t read_args(ptc_plan_reader_t *r, ptc_step_t *step) {
  ptc_ref_t refs[PTC_PLAN_MAX_ARGS];
  int32_t n = 0;
  while (!ptc_scan_at_line_end(r)) {
    if (n == PTC_PLAN_MAX_ARGS)
      return FAULT("plan-limit", "a step has at most %d arguments", PTC_PLAN_MAX_ARGS);
    PTC_TRY(ptc_plan_read_ref(r, &refs[n++]));
  }
  step->num_args = n;
  step->args = PTC_ARENA_ARRAY(r->arena, ptc_ref_t, n);
  if (n) memcpy(step->args, refs, (size_t)n * sizeof *refs);
  return PTC_OK;
}

ptc_status_t ptc_plan_read_kernel_name(ptc_plan_reader_t *r, int32_t *out_kernel) {
  const size_t len = ptc_scan_word_length(r);
  const char *name = ptc_intern_n(&r->names, r->at, len);
  const intptr_t number = (intptr_t)ptc_map_get(&r->kernels, name);
  if (!number) return FAULT("plan-name", "there is no kernel \"%s\"", name);
  r->at += len;
  *out_kernel = (int32_t)number - 1;
  return PTC_OK;
}

static ptc_status_t read_launch(ptc_plan_reader_t *r, ptc_step_t *step) {
  PTC_TRY(ptc_plan_read_kernel_name(r, &step->kernel));
  return read_args(r, step);
}

static ptc_status_t read_call(ptc_plan_reader_t *r, ptc_step_t *step) {
  const char *name;
  step->kind = PTC_STEP_CALL;
  PTC_TRY(ptc_scan_string(r, &name));
  for (step->task = 0; step->task < r->plan->num_tasks; step->task++)
    if (strcmp(r->plan->tasks[step->task].name, name) == 0) break;
  if (step->task == r->plan->num_tasks)
    return FAULT("plan-name", "no task \"%s\" comes before this one", name);
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &step->micro));
  return ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &step->slot);
}

static ptc_status_t read_transfer(ptc_plan_reader_t *r, ptc_step_kind_t kind, ptc_step_t *step) {
  step->kind = kind;
  PTC_TRY(ptc_scan_int32(r, &step->peer));
  PTC_TRY(ptc_scan_int32(r, &step->tag));
  return read_args(r, step);
}

static ptc_status_t read_steps(ptc_plan_reader_t *r, int32_t depth, ptc_step_t **out_steps,
                               int32_t *out_count);

// The events that a step waits for.
static ptc_status_t read_waits(ptc_plan_reader_t *r, ptc_step_t *step) {
  int32_t *waits = NULL, capacity = 0;
  while (ptc_scan_skip_blanks(r), ptc_scan_peek(r) >= '0' && ptc_scan_peek(r) <= '9') {
    if (step->num_waits == MAX_WAITS)
      return FAULT("plan-limit", "a step waits for at most %d events", MAX_WAITS);
    ptc_plan_grow(r->arena, &waits, sizeof *waits, step->num_waits, &capacity);
    PTC_TRY(ptc_scan_int32(r, &waits[step->num_waits++]));
  }
  step->waits = waits;
  return step->num_waits ? PTC_OK : FAULT("plan-text", "expected the number of an event");
}

// The line `with ...`, if there is one.
static ptc_status_t read_order(ptc_plan_reader_t *r, ptc_step_t *step) {
  if (!ptc_scan_take_word(r, "with")) return PTC_OK;
  if (ptc_scan_take_word(r, "stream")) PTC_TRY(ptc_scan_int32(r, &step->stream));
  if (ptc_scan_take_word(r, "ahead")) {
    int64_t ahead;
    ptc_scan_skip_blanks(r);
    PTC_TRY(ptc_scan_signed(r, &ahead));
    if (ahead < -MAX_AHEAD || ahead > MAX_AHEAD)
      return FAULT("plan-limit", "at most %d turns ahead or late", MAX_AHEAD);
    step->ahead = (int32_t)ahead;
  }
  if (ptc_scan_take_word(r, "wait")) PTC_TRY(read_waits(r, step));
  if (ptc_scan_take_word(r, "record")) PTC_TRY(ptc_scan_int32(r, &step->record));
  PTC_TRY(ptc_scan_expect_line_end(r));
  ptc_scan_skip_lines(r);
  return PTC_OK;
}

static ptc_status_t read_step(ptc_plan_reader_t *r, int32_t depth, ptc_step_t *step) {
  *step = (ptc_step_t){.line = r->line};
  PTC_TRY(read_order(r, step));
  if (ptc_scan_take_word(r, "launch")) return read_launch(r, step);
  if (ptc_scan_take_word(r, "copy")) {
    step->kind = PTC_STEP_COPY;
    return read_args(r, step);
  }
  if (ptc_scan_take_word(r, "call")) return read_call(r, step);
  if (ptc_scan_take_word(r, "send")) return read_transfer(r, PTC_STEP_SEND, step);
  if (ptc_scan_take_word(r, "recv")) return read_transfer(r, PTC_STEP_RECV, step);
  for (int k = 0; k < PTC_NUM_COLLECTIVES; ++k)
    if (ptc_scan_take_word(r, ptc_collective_name((ptc_collective_kind_t)k)))
      return ptc_plan_read_collective(r, (ptc_collective_kind_t)k, step);
  PTC_TRY(ptc_scan_expect_word(r, "repeat"));
  step->kind = PTC_STEP_REPEAT;
  if (depth + r->plan->mesh.num_axes >= PTC_PLAN_MAX_LEVELS)
    return FAULT("plan-limit", "more than %d nested repeats",
                 PTC_PLAN_MAX_LEVELS - r->plan->mesh.num_axes);
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &step->count));
  step->reverse = ptc_scan_take_word(r, "reverse");
  PTC_TRY(ptc_scan_expect_line_end(r));
  return read_steps(r, depth + 1, &step->body, &step->num_steps);
}

// Up to and with `end`.
static ptc_status_t read_steps(ptc_plan_reader_t *r, int32_t depth, ptc_step_t **out_steps,
                               int32_t *out_count) {
  ptc_step_t *steps = NULL;
  int32_t count = 0, capacity = 0;
  for (ptc_scan_skip_lines(r); !ptc_scan_take_word(r, "end"); ptc_scan_skip_lines(r)) {
    ptc_plan_grow(r->arena, &steps, sizeof *steps, count, &capacity);
    PTC_TRY(read_step(r, depth, &steps[count++]));
    PTC_TRY(ptc_scan_expect_line_end(r));
  }
  *out_steps = steps;
  *out_count = count;
  return PTC_OK;
}

static ptc_status_t read_results(ptc_plan_reader_t *r, ptc_task_t *task) {
  int32_t capacity = 0;
  for (ptc_scan_skip_lines(r); ptc_scan_take_word(r, "result"); ptc_scan_skip_lines(r)) {
    ptc_plan_result_t result = {.line = r->line};
    PTC_TRY(ptc_scan_string(r, &result.name));
    PTC_TRY(ptc_scan_word(r, &result.role));
    PTC_TRY(ptc_scan_int32(r, &result.buffer));
    PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &result.first_instance));
    PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &result.num_instances));
    PTC_TRY(ptc_scan_expect_line_end(r));
    ptc_plan_grow(r->arena, &task->results, sizeof result, task->num_results, &capacity);
    task->results[task->num_results++] = result;
  }
  return PTC_OK;
}

static ptc_status_t read_task(ptc_plan_reader_t *r) {
  if (r->plan->num_tasks == PTC_PLAN_MAX_TASKS) return FAULT("plan-limit", "too many tasks");
  ptc_task_t task = {0};
  PTC_TRY(ptc_scan_string(r, &task.name));
  if (ptc_scan_take_word(r, "micro")) {
    PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &task.num_micro));
    PTC_TRY(ptc_scan_expect_word(r, "slots"));
    PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &task.num_slots));
    if (task.num_micro < 1) return FAULT("plan-text", "a part has at least one micro-batch");
  }
  PTC_TRY(ptc_scan_expect_line_end(r));
  PTC_TRY(read_results(r, &task));
  PTC_TRY(ptc_plan_read_ledger(r, &task));
  PTC_TRY(read_steps(r, 0, &task.steps, &task.num_steps));
  ptc_plan_grow(r->arena, &r->plan->tasks, sizeof task, r->plan->num_tasks, &r->cap_tasks);
  r->plan->tasks[r->plan->num_tasks++] = task;
  return PTC_OK;
}

// --- the file

static ptc_status_t read_items(ptc_plan_reader_t *r) {
  int64_t version;
  ptc_scan_skip_lines(r);
  PTC_TRY(ptc_scan_expect_word(r, "steps"));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &version));
  if (version != PTC_PLAN_VERSION)
    return FAULT("plan-version",
                 "the plan is of version %" PRId64
                 ", and this program reads version %d: compile the model again",
                 version, PTC_PLAN_VERSION);
  PTC_TRY(ptc_scan_expect_line_end(r));
  for (ptc_scan_skip_lines(r); r->at < r->end; ptc_scan_skip_lines(r)) {
    if (ptc_scan_take_word(r, "kernel"))
      PTC_TRY(read_kernel(r));
    else if (ptc_scan_take_word(r, "buffer"))
      PTC_TRY(read_buffer(r));
    else if (ptc_scan_take_word(r, "task"))
      PTC_TRY(read_task(r));
    else
      return FAULT("plan-text", "expected 'kernel', 'buffer' or 'task'");
    PTC_TRY(ptc_scan_expect_line_end(r));
  }
  return PTC_OK;
}

ptc_status_t ptc_plan_parse_steps(ptc_diag_t *diag, ptc_plan_t *plan, const char *text,
                                  size_t len) {
  ptc_plan_reader_t reader = {.diag = diag,
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
