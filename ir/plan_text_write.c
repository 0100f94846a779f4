// stage0.steps as text; the form is that of ir/plan_text_impl.h.
#include <inttypes.h>

#include "ir/plan_text_impl.h"

void ptc_plan_print_loc(const char *file, int32_t line, ptc_str_t *out) {
  if (!file) return;
  ptc_str_append(out, " at ");
  ptc_str_append_quoted(out, file);
  ptc_str_printf(out, ":%" PRId32, line);
}

// --- kernels

static void print_kernel(const ptc_plan_kernel_t *kernel, ptc_str_t *out) {
  static const char *const modes[] = {"in", "out", "inout"};
  ptc_str_printf(out, "kernel %s ", kernel->name);
  ptc_str_append_quoted(out, kernel->about);
  ptc_plan_print_loc(kernel->loc_file, kernel->loc_line, out);
  ptc_str_append(out, "\n  params");
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    ptc_str_printf(out, " %s:%" PRId64, modes[kernel->modes[p]], kernel->param_bytes[p]);
    if (kernel->in_place[p] >= 0) ptc_str_printf(out, "/%" PRId32, kernel->in_place[p]);
  }
  for (int32_t r = 0; r < kernel->num_runs; ++r) {
    const ptc_phase_run_t *run = &kernel->runs[r];
    ptc_str_printf(out, "\n  run %" PRId64 ":", run->count);
    for (int32_t p = 0; p < run->num_phases; ++p) ptc_str_printf(out, " %" PRId64, run->tiles[p]);
  }
  ptc_str_printf(out, "\n  needs workspace %" PRId64 " scratch %" PRId64 " flops ",
                 kernel->workspace_bytes, kernel->scratch_bytes);
  ptc_str_append_double(out, kernel->flops);
  ptc_str_printf(out, " bytes %" PRId64 "\n", kernel->min_bytes);
  if (kernel->gemm) ptc_plan_print_gemm(kernel->gemm, out);
}

// --- buffers

// How many addresses from the first on have one distance.
static int64_t run_length(const int64_t *at, int64_t count) {
  int64_t n = count > 1 ? 2 : 1;
  while (n < count && at[n] - at[n - 1] == at[1] - at[0]) ++n;
  return n;
}

static void print_addresses(const ptc_buffer_t *buffer, ptc_str_t *out) {
  ptc_str_append(out, "  at");
  for (int64_t i = 0; i < buffer->num_instances;) {
    const int64_t *at = buffer->offsets + i;
    int64_t n = run_length(at, buffer->num_instances - i);
    ptc_str_printf(out, " %" PRId64, at[0]);
    if (n > 2)
      ptc_str_printf(out, "%+" PRId64 "*%" PRId64, at[1] - at[0], n);
    else
      n = 1;
    i += n;
  }
  ptc_str_append(out, "\n");
}

static void print_buffer(const ptc_plan_t *plan, int32_t number, ptc_str_t *out) {
  const ptc_buffer_t *buffer = &plan->buffers[number];
  ptc_str_printf(out, "buffer %" PRId32 " ", number);
  ptc_str_append_quoted(out, buffer->name);
  ptc_str_printf(out, " %s %s [", ptc_buffer_class_name(buffer->cls),
                 ptc_dtype_name(buffer->dtype));
  for (int32_t d = 0; d < buffer->num_dims; ++d) {
    if (d) ptc_str_append(out, " ");
    ptc_str_append_name(out, buffer->dim_names[d]);
    ptc_str_printf(out, "=%" PRId64, buffer->extents[d]);
  }
  ptc_str_append(out, "]");
  ptc_plan_print_layout(buffer, out);
  ptc_plan_print_loc(buffer->loc_file, buffer->loc_line, out);
  ptc_str_append(out, "\n");
  print_addresses(buffer, out);
}

// --- tasks

static bool is_zero(const ptc_affine_t *affine) {
  bool zero = affine->base == 0;
  for (int32_t l = 0; l < PTC_PLAN_MAX_LEVELS; ++l) zero = zero && affine->coef[l] == 0;
  return zero;
}

static void print_affine(const ptc_plan_t *plan, const ptc_affine_t *affine, ptc_str_t *out) {
  const ptc_mesh_t *mesh = &plan->mesh;
  bool first = true;
  if (affine->base || is_zero(affine)) {
    ptc_str_printf(out, "%" PRId64, affine->base);
    first = false;
  }
  for (int32_t l = 0; l < PTC_PLAN_MAX_LEVELS; ++l) {
    const int64_t coef = affine->coef[l];
    if (!coef) continue;
    if (coef < 0 || !first) ptc_str_append(out, coef < 0 ? "-" : "+");
    if (coef != 1 && coef != -1)
      ptc_str_printf(out, "%" PRIu64 "*", coef < 0 ? -(uint64_t)coef : (uint64_t)coef);
    if (l < mesh->num_axes)
      ptc_str_append(out, mesh->axes[l].name);
    else
      ptc_str_printf(out, "t%" PRId32, l - mesh->num_axes);
    first = false;
  }
}

void ptc_plan_print_ref(const ptc_plan_t *plan, const ptc_ref_t *ref, ptc_str_t *out) {
  ptc_str_printf(out, " %" PRId32, ref->buffer);
  if (!is_zero(&ref->instance)) {
    ptc_str_append(out, "[");
    print_affine(plan, &ref->instance, out);
    ptc_str_append(out, "]");
  }
  if (!is_zero(&ref->byte_offset)) {
    ptc_str_append(out, "@");
    print_affine(plan, &ref->byte_offset, out);
  }
  ptc_str_printf(out, ":%" PRId64, ref->bytes);
}

static void indent(int32_t depth, ptc_str_t *out) {
  for (int32_t i = 0; i < depth; ++i) ptc_str_append(out, "  ");
}

// The names of the buffers, as a comment.
static void print_names(const ptc_plan_t *plan, const ptc_step_t *step, ptc_str_t *out) {
  ptc_str_append(out, "  #");
  for (int32_t a = 0; a < step->num_args; ++a) {
    ptc_str_append(out, " ");
    ptc_str_append_name(out, plan->buffers[step->args[a].buffer].name);
  }
  ptc_str_append(out, "\n");
}

// When it runs, where that is not in the order of the text.
static void print_order(const ptc_step_t *step, int32_t depth, ptc_str_t *out) {
  if (!step->stream && !step->ahead && !step->record && !step->num_waits) return;
  indent(depth, out);
  ptc_str_append(out, "with");
  if (step->stream) ptc_str_printf(out, " stream %" PRId32, step->stream);
  if (step->ahead) ptc_str_printf(out, " ahead %" PRId32, step->ahead);
  if (step->num_waits) ptc_str_append(out, " wait");
  for (int32_t w = 0; w < step->num_waits; ++w) ptc_str_printf(out, " %" PRId32, step->waits[w]);
  if (step->record) ptc_str_printf(out, " record %" PRId32, step->record);
  ptc_str_append(out, "\n");
}

static void print_steps(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t count,
                        int32_t depth, ptc_str_t *out) {
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    print_order(step, depth, out);
    if (step->kind == PTC_STEP_REPEAT) {
      indent(depth, out);
      ptc_str_printf(out, "repeat %" PRId64 "%s\n", step->count, step->reverse ? " reverse" : "");
      print_steps(plan, step->body, step->num_steps, depth + 1, out);
      indent(depth, out);
      ptc_str_append(out, "end\n");
      continue;
    }
    if (step->kind == PTC_STEP_COLLECTIVE) {
      ptc_plan_print_collective(plan, step, 2 * depth, out);
      continue;
    }
    indent(depth, out);
    if (step->kind == PTC_STEP_CALL) {
      ptc_str_append(out, "call ");
      ptc_str_append_quoted(out, plan->tasks[step->task].name);
      ptc_str_printf(out, " %" PRId64 " %" PRId64 "\n", step->micro, step->slot);
      continue;
    }
    if (step->kind == PTC_STEP_SEND || step->kind == PTC_STEP_RECV)
      ptc_str_printf(out, "%s %" PRId32 " %" PRId32, step->kind == PTC_STEP_SEND ? "send" : "recv",
                     step->peer, step->tag);
    else if (step->kind == PTC_STEP_LAUNCH)
      ptc_str_printf(out, "launch %s", plan->kernels[step->kernel].name);
    else
      ptc_str_append(out, "copy");
    for (int32_t a = 0; a < step->num_args; ++a) ptc_plan_print_ref(plan, &step->args[a], out);
    print_names(plan, step, out);
  }
}

static void print_task(const ptc_plan_t *plan, const ptc_task_t *task, ptc_str_t *out) {
  ptc_str_append(out, "task ");
  ptc_str_append_quoted(out, task->name);
  if (task->num_micro > 0)
    ptc_str_printf(out, " micro %" PRId64 " slots %" PRId64, task->num_micro, task->num_slots);
  ptc_str_append(out, "\n");
  for (int32_t r = 0; r < task->num_results; ++r) {
    const ptc_plan_result_t *result = &task->results[r];
    ptc_str_append(out, "  result ");
    ptc_str_append_quoted(out, result->name);
    ptc_str_printf(out, " %s %" PRId32 " %" PRId64 " %" PRId64 "\n", result->role, result->buffer,
                   result->first_instance, result->num_instances);
  }
  if (task->ledger) ptc_plan_print_ledger(plan, task, out);
  print_steps(plan, task->steps, task->num_steps, 1, out);
  ptc_str_append(out, "end\n");
}

void ptc_plan_print_steps(const ptc_plan_t *plan, ptc_str_t *out) {
  ptc_str_printf(out, "steps %d\n", PTC_PLAN_VERSION);
  for (int32_t i = 0; i < plan->num_kernels; ++i) print_kernel(&plan->kernels[i], out);
  for (int32_t i = 0; i < plan->num_buffers; ++i) print_buffer(plan, i, out);
  for (int32_t i = 0; i < plan->num_tasks; ++i) print_task(plan, &plan->tasks[i], out);
}
