// What addresses make superfluous: a buffer whose every instance lies where one of another does, because one
// was to be copied from the other, is that other one; then the copy is from a place to itself.
#include <stdlib.h>
#include <string.h>

#include "passes/lower_plan.h"

// Instance i of a buffer is instance i + shift of |buffer|.
typedef struct alias_s {
  int32_t buffer;
  int64_t shift;
} alias_t;

typedef struct simplify_s {
  ptc_plan_t *plan;
  alias_t *aliases;  // per buffer; itself at first
  bool *fixed;       // per buffer: a global or a result, which keeps its name
} simplify_t;

static alias_t resolve(const simplify_t *s, int32_t buffer) {
  alias_t alias = {buffer, 0};
  while (s->aliases[alias.buffer].buffer != alias.buffer) {
    const alias_t *next = &s->aliases[alias.buffer];
    alias = (alias_t){next->buffer, alias.shift + next->shift};
  }
  return alias;
}

static ptc_ref_t resolved_ref(const simplify_t *s, const ptc_ref_t *ref) {
  const alias_t alias = resolve(s, ref->buffer);
  ptc_ref_t result = *ref;
  result.buffer = alias.buffer;
  result.instance.base += alias.shift;
  return result;
}

// Whether |inner|'s instances lie where those of |outer| from |shift| on do.
static bool lies_in(const simplify_t *s, int32_t inner, int32_t outer, int64_t shift) {
  const ptc_buffer_t *a = &s->plan->buffers[inner], *b = &s->plan->buffers[outer];
  if (s->fixed[inner] || a->dtype != b->dtype || a->bytes != b->bytes || shift < 0 ||
      shift > b->num_instances - a->num_instances)
    return false;
  bool same = true;
  for (int64_t i = 0; same && i < a->num_instances; ++i)
    same = a->offsets[i] == b->offsets[i + shift];
  return same;
}

static bool is_plain(const ptc_ref_t *ref) {
  const ptc_affine_t zero = {0};
  return memcmp(&ref->byte_offset, &zero, sizeof zero) == 0;
}

// Both are resolved. Their instances belong together if they advance alike.
static void join(simplify_t *s, const ptc_ref_t *from, const ptc_ref_t *to) {
  if (from->buffer == to->buffer || !is_plain(from) || !is_plain(to) ||
      memcmp(from->instance.coef, to->instance.coef, sizeof from->instance.coef) != 0)
    return;
  const int64_t shift = from->instance.base - to->instance.base;
  if (lies_in(s, to->buffer, from->buffer, shift))
    s->aliases[to->buffer] = (alias_t){from->buffer, shift};
  else if (lies_in(s, from->buffer, to->buffer, -shift))
    s->aliases[from->buffer] = (alias_t){to->buffer, -shift};
}

static void join_copies(simplify_t *s, const ptc_step_t *steps, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT) join_copies(s, steps[i].body, steps[i].num_steps);
    if (steps[i].kind != PTC_STEP_COPY) continue;
    const ptc_ref_t from = resolved_ref(s, &steps[i].args[0]);
    const ptc_ref_t to = resolved_ref(s, &steps[i].args[1]);
    join(s, &from, &to);
  }
}

static bool same_ref(const ptc_ref_t *a, const ptc_ref_t *b) {
  return a->buffer == b->buffer && a->bytes == b->bytes &&
         memcmp(&a->instance, &b->instance, sizeof a->instance) == 0 &&
         memcmp(&a->byte_offset, &b->byte_offset, sizeof a->byte_offset) == 0;
}

// Rewrites the operands; returns how many steps are left.
static int32_t rewrite(const simplify_t *s, ptc_step_t *steps, int32_t count) {
  int32_t left = 0;
  for (int32_t i = 0; i < count; ++i) {
    ptc_step_t *step = &steps[i];
    for (int32_t a = 0; a < step->num_args; ++a) step->args[a] = resolved_ref(s, &step->args[a]);
    if (step->kind == PTC_STEP_REPEAT) {
      step->num_steps = rewrite(s, step->body, step->num_steps);
      if (!step->num_steps) continue;
    }
    if (step->kind == PTC_STEP_COPY && same_ref(&step->args[0], &step->args[1])) continue;
    steps[left++] = *step;
  }
  return left;
}

// --- buffers that nothing names

static void mark_used(const ptc_step_t *steps, int32_t count, int32_t *used) {
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT) mark_used(steps[i].body, steps[i].num_steps, used);
    for (int32_t a = 0; a < steps[i].num_args; ++a) used[steps[i].args[a].buffer] = 1;
  }
}

static void renumber(ptc_step_t *steps, int32_t count, const int32_t *number) {
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT) renumber(steps[i].body, steps[i].num_steps, number);
    for (int32_t a = 0; a < steps[i].num_args; ++a)
      steps[i].args[a].buffer = number[steps[i].args[a].buffer];
  }
}

static void drop_buffers(const simplify_t *s) {
  ptc_plan_t *plan = s->plan;
  int32_t *number = ptc_xmalloc((size_t)(plan->num_buffers + 1) * sizeof *number);
  for (int32_t b = 0; b < plan->num_buffers; ++b) number[b] = s->fixed[b];
  for (int32_t i = 0; i < plan->num_tasks; ++i)
    mark_used(plan->tasks[i].steps, plan->tasks[i].num_steps, number);
  int32_t left = 0;
  for (int32_t b = 0; b < plan->num_buffers; ++b) {
    if (!number[b]) continue;
    number[b] = left;
    plan->buffers[left++] = plan->buffers[b];
  }
  plan->num_buffers = left;
  for (int32_t g = 0; g < plan->num_globals; ++g)
    plan->globals[g].buffer = number[plan->globals[g].buffer];
  for (int32_t i = 0; i < plan->num_tasks; ++i) {
    ptc_task_t *task = &plan->tasks[i];
    renumber(task->steps, task->num_steps, number);
    for (int32_t r = 0; r < task->num_results; ++r)
      task->results[r].buffer = number[task->results[r].buffer];
  }
  free(number);
}

void ptc_plan_simplify(ptc_plan_t *plan) {
  simplify_t simplify = {.plan = plan}, *s = &simplify;
  const size_t count = (size_t)plan->num_buffers;
  s->aliases = ptc_xmalloc((count + 1) * sizeof *s->aliases);
  s->fixed = ptc_xmalloc(count + 1);
  memset(s->fixed, 0, count + 1);
  for (int32_t b = 0; b < plan->num_buffers; ++b) s->aliases[b] = (alias_t){b, 0};
  for (int32_t g = 0; g < plan->num_globals; ++g) s->fixed[plan->globals[g].buffer] = true;
  for (int32_t i = 0; i < plan->num_tasks; ++i)
    for (int32_t r = 0; r < plan->tasks[i].num_results; ++r)
      s->fixed[plan->tasks[i].results[r].buffer] = true;
  // A join may make another one possible; copies go from the first steps to the last.
  for (int32_t i = 0; i < plan->num_tasks; ++i)
    join_copies(s, plan->tasks[i].steps, plan->tasks[i].num_steps);
  for (int32_t i = 0; i < plan->num_tasks; ++i) {
    ptc_task_t *task = &plan->tasks[i];
    task->num_steps = rewrite(s, task->steps, task->num_steps);
  }
  drop_buffers(s);
  free(s->aliases);
  free(s->fixed);
}
