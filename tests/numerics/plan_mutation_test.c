// Proves: a plan in which one step, transfer, collective or address is changed so that a run would hang, or read what is
// not there, or compute something else, is rejected by ptc_plan_check or ptc_plan_prove; the plan as it was is accepted,
// and so are plans of random models on random meshes. 58 kinds of change at random places of plans of one rank, of
// meshes and of pipelines. PTC_CASES: changes of each fixed plan (default 80); PTC_PLANS: random plans that are changed
// (4); PTC_VALID: random plans that are accepted (12); PTC_KIND: the name of the one kind to try; PTC_SEED. What the
// proof plays from tapes it judges as it does step by step.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/emit.h"
#include "ir/plan_verify_impl.h"
#include "tests/support/plan_texts.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

enum { MAX_PLACES = 4096 };

static bool make_plans(const char *name, const char *parallel, plan_texts_t *plans) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  int samples = 8;
  char batch[16];
  sscanf(parallel, "batch=%d", &samples);
  snprintf(batch, sizeof batch, "%d", samples);
  const ptc_override_t more[] = {{"train.batch", batch}, {"train.clip", "0.5"}};
  ptc_module_t *module = small_model_lower(small_model_find(name), more, 2, &diag);
  bool ok = module != NULL;
  if (ok) ptc_attrs_remove(&module->config, ptc_module_intern(module, "cut"));
  for (const char *at = parallel; ok && *at;) {
    char key[32];
    int value = 0, length = 0;
    if (sscanf(at, "%31[a-z_]=%d%n", key, &value, &length) != 2) abort();
    if (strcmp(key, "overlap") == 0)
      ptc_attrs_set_bool(module, &module->config, "overlap", value != 0);
    else if (strcmp(key, "batch") != 0)
      ptc_attrs_set_int(module, &module->config, ptc_module_intern(module, key), value);
    at += length + (at[length] == ',');
  }
  ok = ok && plan_texts_make(module, plans);
  if (!ok) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return ok;
}

// --- places: steps with the list that they stand in

typedef struct place_s {
  ptc_step_t *steps;
  int32_t *count;
  int32_t at;
} place_t;

typedef struct places_s {
  place_t items[MAX_PLACES];
  int32_t count;
} places_t;

static void find_places(places_t *places, ptc_step_t *steps, int32_t *count) {
  for (int32_t i = 0; i < *count; i++) {
    if (places->count < MAX_PLACES) places->items[places->count++] = (place_t){steps, count, i};
    if (steps[i].kind == PTC_STEP_REPEAT) find_places(places, steps[i].body, &steps[i].num_steps);
  }
}

static ptc_step_t *step_of(const place_t *place) { return &place->steps[place->at]; }

static void drop(const place_t *place) {
  memmove(step_of(place), step_of(place) + 1,
          (size_t)(*place->count - place->at - 1) * sizeof(ptc_step_t));
  --*place->count;
}

// --- changes: false where the kind does not apply at the place

typedef struct change_s {
  ptc_plan_t *plan;
  place_t place;
  uint64_t *random;
} change_t;

static int64_t below(const change_t *c, int64_t n) {
  return (int64_t)(unit_random(c->random) % (uint64_t)n);
}

static bool is(const change_t *c, ptc_step_kind_t kind) { return step_of(&c->place)->kind == kind; }

static bool drop_kind(change_t *c, ptc_step_kind_t kind) {
  if (!is(c, kind)) return false;
  drop(&c->place);
  return true;
}

static bool drop_launch(change_t *c) { return drop_kind(c, PTC_STEP_LAUNCH); }
static bool drop_copy(change_t *c) { return drop_kind(c, PTC_STEP_COPY); }
static bool drop_repeat(change_t *c) { return drop_kind(c, PTC_STEP_REPEAT); }
static bool drop_collective(change_t *c) { return drop_kind(c, PTC_STEP_COLLECTIVE); }
static bool drop_call(change_t *c) { return drop_kind(c, PTC_STEP_CALL); }
static bool drop_send(change_t *c) { return drop_kind(c, PTC_STEP_SEND); }
static bool drop_recv(change_t *c) { return drop_kind(c, PTC_STEP_RECV); }

static bool writes(const ptc_plan_t *plan, const ptc_step_t *step, int32_t arg) {
  if (step->kind == PTC_STEP_LAUNCH)
    return arg >= plan->kernels[step->kernel].num_params ||
           plan->kernels[step->kernel].modes[arg] != 0;
  return step->kind == PTC_STEP_RECV || (step->kind != PTC_STEP_SEND && arg % 2 == 1);
}

// Whether |next| reads an instance that |step| writes, both at all turns alike.
static bool needs(const ptc_plan_t *plan, const ptc_step_t *step, const ptc_step_t *next) {
  for (int32_t a = 0; a < step->num_args; a++)
    for (int32_t b = 0; b < next->num_args; b++) {
      const bool reads = next->kind == PTC_STEP_LAUNCH
                             ? b < plan->kernels[next->kernel].num_params &&
                                   plan->kernels[next->kernel].modes[b] != 1
                             : !writes(plan, next, b);
      if (writes(plan, step, a) && reads && step->args[a].buffer == next->args[b].buffer &&
          memcmp(&step->args[a].instance, &next->args[b].instance, sizeof(ptc_affine_t)) == 0)
        return true;
    }
  return false;
}

static bool swap_dependent(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (c->place.at + 1 >= *c->place.count || step->ahead != step[1].ahead ||
      !needs(c->plan, step, step + 1))
    return false;
  const ptc_step_t kept = step[0];
  step[0] = step[1];
  step[1] = kept;
  return true;
}

// Whether part |b| reads a slot that part |a| writes.
static bool feeds(const ptc_plan_t *plan, const ptc_task_t *a, const ptc_task_t *b) {
  for (int32_t i = 0; i < a->num_steps; i++)
    for (int32_t j = 0; j < b->num_steps; j++)
      if (needs(plan, &a->steps[i], &b->steps[j])) return true;
  return false;
}

static bool swap_calls(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_CALL) || c->place.at + 1 >= *c->place.count ||
      step[1].kind != PTC_STEP_CALL || step[1].micro != step[0].micro ||
      !feeds(c->plan, &c->plan->tasks[step[0].task], &c->plan->tasks[step[1].task]))
    return false;
  const ptc_step_t kept = step[0];
  step[0] = step[1];
  step[1] = kept;
  return true;
}

static bool smaller_buffer(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->num_args) return false;
  ptc_ref_t *ref = &step->args[below(c, step->num_args)];
  const int32_t other = (int32_t)below(c, c->plan->num_buffers);
  if (c->plan->buffers[other].bytes >= ref->bytes) return false;
  ref->buffer = other;
  return true;
}

static bool far_instance(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->num_args) return false;
  ptc_ref_t *ref = &step->args[below(c, step->num_args)];
  ref->instance.base += c->plan->buffers[ref->buffer].num_instances;
  return true;
}

static bool far_offset(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->num_args) return false;
  ptc_ref_t *ref = &step->args[below(c, step->num_args)];
  if (!ref->bytes) return false;
  ref->byte_offset.base += c->plan->buffers[ref->buffer].bytes;
  return true;
}

static bool more_bytes(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->num_args) return false;
  step->args[below(c, step->num_args)].bytes += 4;
  return true;
}

static bool more_turns(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_REPEAT) || !step->num_steps) return false;
  bool indexed = false;
  for (int32_t i = 0; i < step->num_steps; i++)
    for (int32_t a = 0; a < step->body[i].num_args; a++)
      for (int32_t l = 0; l < PTC_PLAN_MAX_LEVELS; l++)
        indexed |= step->body[i].args[a].instance.coef[l] != 0 &&
                   c->plan->buffers[step->body[i].args[a].buffer].num_instances == step->count;
  if (!indexed) return false;
  step->count++;
  return true;
}

static ptc_collective_t *collective_of(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (step->kind != PTC_STEP_COLLECTIVE) return NULL;
  ptc_collective_t *copy = PTC_ARENA_NEW(&c->plan->arena, ptc_collective_t);
  *copy = *step->collective;
  step->collective = copy;
  return copy;
}

static bool other_kind(change_t *c) {
  ptc_collective_t *collective = collective_of(c);
  if (!collective) return false;
  collective->kind = (ptc_collective_kind_t)((collective->kind + 1 + below(c, 3)) % 4);
  return true;
}

static bool other_reduction(change_t *c) {
  ptc_collective_t *collective = collective_of(c);
  if (!collective || collective->kind > PTC_COLLECTIVE_REDUCE_SCATTER) return false;
  collective->reduce = collective->reduce == PTC_REDUCE_SUM ? PTC_REDUCE_MAX : PTC_REDUCE_SUM;
  return true;
}

static bool other_dtype(change_t *c) {
  ptc_collective_t *collective = collective_of(c);
  if (!collective) return false;
  collective->dtype = collective->dtype == PTC_F32 ? PTC_I32 : PTC_F32;
  return true;
}

static bool has_part(const ptc_collective_t *collective) {
  for (int32_t i = 0; i < collective->num_axes; i++)
    if (collective->axes[i].size) return true;
  return false;
}

static bool other_axis(change_t *c) {
  ptc_collective_t *collective = collective_of(c);
  if (!collective || has_part(collective)) return false;
  ptc_axis_ref_t *axes = PTC_ARENA_ARRAY(&c->plan->arena, ptc_axis_ref_t, collective->num_axes + 1);
  for (int32_t i = 0; i < collective->num_axes; i++) axes[i] = collective->axes[i];
  const char *other = c->plan->mesh.axes[below(c, c->plan->mesh.num_axes)].name;
  for (int32_t i = 0; i < collective->num_axes; i++)
    if (axes[i].axis == other) return false;
  axes[below(c, collective->num_axes)].axis = other;
  collective->axes = axes;
  return true;
}

static bool fewer_axes(change_t *c) {
  ptc_collective_t *collective = collective_of(c);
  if (!collective || collective->num_axes < 1 || has_part(collective)) return false;
  collective->num_axes--;
  return true;
}

static bool other_pieces(change_t *c) {
  ptc_collective_t *collective = collective_of(c);
  if (!collective) return false;
  ptc_collective_part_t *parts =
      PTC_ARENA_ARRAY(&c->plan->arena, ptc_collective_part_t, collective->num_parts);
  for (int32_t i = 0; i < collective->num_parts; i++) parts[i] = collective->parts[i];
  ptc_collective_part_t *part = &parts[below(c, collective->num_parts)];
  ptc_pieces_t *pieces = below(c, 2) ? &part->in : &part->out;
  pieces->chunk += ptc_dtype_bytes(collective->dtype);
  collective->parts = parts;
  return true;
}

static bool swap_parts(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_COLLECTIVE)) return false;
  const ptc_ref_t kept = step->args[0];
  if (kept.buffer == step->args[1].buffer) return false;
  step->args[0] = step->args[1];
  step->args[1] = kept;
  return true;
}

static bool other_peer(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_SEND) && !is(c, PTC_STEP_RECV)) return false;
  step->peer =
      (int32_t)((step->peer + 1 + below(c, c->plan->num_stages - 1)) % c->plan->num_stages);
  return true;
}

static bool other_tag(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_SEND) && !is(c, PTC_STEP_RECV)) return false;
  step->tag += 1000;
  return true;
}

static bool turn_transfer(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_SEND) && !is(c, PTC_STEP_RECV)) return false;
  step->kind = is(c, PTC_STEP_SEND) ? PTC_STEP_RECV : PTC_STEP_SEND;
  return true;
}

static bool other_task(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_CALL) || step->task == 0) return false;
  step->task--;
  return true;
}

static bool far_micro(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_CALL)) return false;
  step->micro += c->plan->tasks[step->task].num_micro;
  return true;
}

static bool far_slot(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_CALL)) return false;
  step->slot += c->plan->tasks[step->task].num_slots;
  return true;
}

static bool itself(change_t *c) {
  for (int32_t t = 0; t < c->plan->num_tasks; t++)
    if (c->place.steps == c->plan->tasks[t].steps && is(c, PTC_STEP_CALL)) {
      step_of(&c->place)->task = t;
      return true;
    }
  return false;
}

static bool outside(change_t *c) {
  ptc_buffer_t *buffer = &c->plan->buffers[below(c, c->plan->num_buffers)];
  if (!buffer->bytes) return false;
  buffer->offsets[below(c, buffer->num_instances)] = c->plan->arena_bytes;
  return true;
}

static bool unaligned(change_t *c) {
  ptc_buffer_t *buffer = &c->plan->buffers[below(c, c->plan->num_buffers)];
  buffer->offsets[below(c, buffer->num_instances)] += 4;
  return true;
}

static bool smaller_arena(change_t *c) {
  c->plan->arena_bytes -= PTC_PLAN_ALIGN;
  return true;
}

// Two globals at one place.
static bool meeting_globals(change_t *c) {
  const ptc_plan_global_t *a = &c->plan->globals[below(c, c->plan->num_globals)];
  const ptc_plan_global_t *b = &c->plan->globals[below(c, c->plan->num_globals)];
  ptc_buffer_t *from = &c->plan->buffers[a->buffer], *to = &c->plan->buffers[b->buffer];
  if (from == to || !from->bytes || from->bytes < to->bytes) return false;
  to->offsets[b->first_instance] = from->offsets[a->first_instance];
  return to->bytes > 0;
}

static bool no_event(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->record) return false;
  step->record = 0;
  return true;
}

static int32_t *waits_of(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->num_waits) return NULL;
  int32_t *waits = PTC_ARENA_ARRAY(&c->plan->arena, int32_t, step->num_waits);
  memcpy(waits, step->waits, (size_t)step->num_waits * sizeof *waits);
  step->waits = waits;
  return waits;
}

static bool no_wait(change_t *c) {
  int32_t *waits = waits_of(c);
  if (!waits) return false;
  ptc_step_t *step = step_of(&c->place);
  const int64_t at = below(c, step->num_waits);
  waits[at] = waits[--step->num_waits];
  return true;
}

static bool unknown_event(change_t *c) {
  int32_t *waits = waits_of(c);
  if (!waits) return false;
  waits[below(c, step_of(&c->place)->num_waits)] = ptc_plan_num_events(c->plan) + 1;
  return true;
}

static bool impossible_stream(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  step->stream = is(c, PTC_STEP_LAUNCH) || is(c, PTC_STEP_COPY) ? 1 : PTC_PLAN_MAX_STREAMS;
  return true;
}

// On a stream of its own a step keeps only the order that events give it.
static bool other_stream(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->stream) return false;
  step->stream = PTC_PLAN_MAX_STREAMS - 1;
  return true;
}

// What all in a repeat share now meets the turn before.
static bool further_ahead(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->ahead) return false;
  step->ahead = -1;
  return true;
}

// A step that is done twice.
static bool twice(change_t *c) {
  place_t *place = &c->place;
  ptc_task_t *task = NULL;
  for (int32_t t = 0; t < c->plan->num_tasks; t++)
    if (place->count == &c->plan->tasks[t].num_steps) task = &c->plan->tasks[t];
  if (!task || is(c, PTC_STEP_COPY)) return false;  // a copy may be done twice
  ptc_step_t *steps = PTC_ARENA_ARRAY(&c->plan->arena, ptc_step_t, task->num_steps + 1);
  memcpy(steps, task->steps, (size_t)(place->at + 1) * sizeof *steps);
  memcpy(steps + place->at + 1, task->steps + place->at,
         (size_t)(task->num_steps - place->at) * sizeof *steps);
  task->steps = steps;
  task->num_steps++;
  return true;
}

static bool launch_twice(change_t *c) { return is(c, PTC_STEP_LAUNCH) && twice(c); }

// Whether some step in |steps| is no copy.
static bool computes(const ptc_step_t *steps, int32_t count) {
  bool found = false;
  for (int32_t i = 0; i < count; i++)
    found |= steps[i].kind == PTC_STEP_REPEAT ? computes(steps[i].body, steps[i].num_steps)
                                              : steps[i].kind != PTC_STEP_COPY;
  return found;
}

// A repeat of copies alone may be done twice, as each of them may: the proof sees that all hold what they held.
static bool repeat_twice(change_t *c) {
  const ptc_step_t *step = step_of(&c->place);
  return is(c, PTC_STEP_REPEAT) && computes(step->body, step->num_steps) && twice(c);
}
static bool send_twice(change_t *c) { return is(c, PTC_STEP_SEND) && twice(c); }
static bool call_twice(change_t *c) { return is(c, PTC_STEP_CALL) && twice(c); }

// An operand that a launch reads, or NULL.
static ptc_ref_t *operand_of(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (step->kind != PTC_STEP_LAUNCH) return NULL;
  const ptc_plan_kernel_t *kernel = &c->plan->kernels[step->kernel];
  if (!kernel->num_params) return NULL;
  const int32_t arg = (int32_t)below(c, kernel->num_params);
  return kernel->modes[arg] == 0 ? &step->args[arg] : NULL;
}

static bool other_instance(change_t *c) {
  ptc_ref_t *ref = operand_of(c);
  if (!ref || c->plan->buffers[ref->buffer].num_instances < 2 || ref->instance.base < 1)
    return false;
  ref->instance.base--;
  return true;
}

static bool other_operand(change_t *c) {
  ptc_ref_t *ref = operand_of(c);
  const int32_t other = (int32_t)below(c, c->plan->num_buffers);
  if (!ref || other == ref->buffer ||
      c->plan->buffers[other].bytes != c->plan->buffers[ref->buffer].bytes ||
      c->plan->buffers[other].dtype != c->plan->buffers[ref->buffer].dtype ||
      c->plan->buffers[other].num_instances < c->plan->buffers[ref->buffer].num_instances)
    return false;
  ref->buffer = other;
  return true;
}

static bool swap_operands(change_t *c) {
  ptc_ref_t *a = operand_of(c), *b = operand_of(c);
  if (!a || !b || a->bytes != b->bytes || a->buffer == b->buffer) return false;
  const ptc_ref_t kept = *a;
  *a = *b;
  *b = kept;
  return true;
}

static bool other_kernel(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (step->kind != PTC_STEP_LAUNCH) return false;
  const int32_t other = (int32_t)below(c, c->plan->num_kernels);
  const ptc_plan_kernel_t *a = &c->plan->kernels[step->kernel], *b = &c->plan->kernels[other];
  if (a == b || a->num_params != b->num_params ||
      (a->workspace_bytes > 0) != (b->workspace_bytes > 0))
    return false;
  step->kernel = other;
  return true;
}

static bool fewer_tiles(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (step->kind != PTC_STEP_LAUNCH) return false;
  ptc_plan_kernel_t *kernel = &c->plan->kernels[step->kernel];
  ptc_phase_run_t *runs = PTC_ARENA_ARRAY(&c->plan->arena, ptc_phase_run_t, kernel->num_runs);
  memcpy(runs, kernel->runs, (size_t)kernel->num_runs * sizeof *runs);
  ptc_phase_run_t *run = &runs[below(c, kernel->num_runs)];
  if (run->tiles[0] < 2) return false;
  int64_t *tiles = PTC_ARENA_ARRAY(&c->plan->arena, int64_t, run->num_phases);
  memcpy(tiles, run->tiles, (size_t)run->num_phases * sizeof *tiles);
  tiles[0]--;
  run->tiles = tiles;
  kernel->runs = runs;
  return true;
}

static bool other_mode(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (step->kind != PTC_STEP_LAUNCH) return false;
  ptc_plan_kernel_t *kernel = &c->plan->kernels[step->kernel];
  uint8_t *modes = PTC_ARENA_ARRAY(&c->plan->arena, uint8_t, kernel->num_params);
  memcpy(modes, kernel->modes, (size_t)kernel->num_params);
  const int64_t p = below(c, kernel->num_params);
  if (modes[p] != 2) return false;
  modes[p] = (uint8_t)below(c, 2);
  kernel->modes = modes;
  return true;
}

static bool fewer_turns(change_t *c) {
  if (!is(c, PTC_STEP_REPEAT) || step_of(&c->place)->count < 2) return false;
  step_of(&c->place)->count--;
  return true;
}

// Whether some launch of the body keeps part of what it writes, or hands it to the next turn: then order counts.
static bool turns_back(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_REPEAT) || step->count < 2) return false;
  bool hands = false;
  for (int32_t i = 0; i < step->num_steps; i++)
    for (int32_t a = 0; a < step->body[i].num_args; a++)
      for (int32_t b = 0; b < step->body[i].num_args; b++) {
        const ptc_ref_t *x = &step->body[i].args[a], *y = &step->body[i].args[b];
        hands |= x->buffer == y->buffer && x->instance.base != y->instance.base;
      }
  if (!hands) return false;
  step->reverse = !step->reverse;
  return true;
}

static bool other_coordinate(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!step->num_args || !c->plan->mesh.num_axes) return false;
  ptc_ref_t *ref = &step->args[below(c, step->num_args)];
  const int64_t axis = below(c, c->plan->mesh.num_axes);
  if (!ref->byte_offset.coef[axis]) return false;
  ref->byte_offset.coef[axis] = 0;
  return true;
}

// Whether an instance in |steps| depends on the turn |level|.
static bool depends_on(const ptc_step_t *steps, int32_t count, int32_t level) {
  bool depends = false;
  for (int32_t i = 0; i < count; i++) {
    depends |= depends_on(steps[i].body, steps[i].num_steps, level);
    for (int32_t a = 0; a < steps[i].num_args; a++)
      depends |= steps[i].args[a].instance.coef[level] != 0;
  }
  return depends;
}

static bool other_slot(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_CALL) || c->plan->tasks[step->task].num_slots < 2) return false;
  const ptc_task_t *task = &c->plan->tasks[step->task];
  if (!depends_on(task->steps, task->num_steps, c->plan->mesh.num_axes + 1)) return false;
  step->slot = (step->slot + 1) % c->plan->tasks[step->task].num_slots;
  return true;
}

static bool swap_micros(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_CALL)) return false;
  for (int32_t i = c->place.at + 1; i < *c->place.count; i++) {
    ptc_step_t *other = &c->place.steps[i];
    if (other->kind != PTC_STEP_CALL || other->task != step->task) continue;
    const int64_t micro = step->micro;
    step->micro = other->micro;
    other->micro = micro;
    return true;
  }
  return false;
}

static bool sends_other(change_t *c) {
  ptc_step_t *step = step_of(&c->place);
  if (!is(c, PTC_STEP_SEND)) return false;
  const int32_t other = (int32_t)below(c, c->plan->num_buffers);
  const ptc_buffer_t *a = &c->plan->buffers[step->args[0].buffer], *b = &c->plan->buffers[other];
  if (a == b || a->bytes != b->bytes || a->dtype != b->dtype || a->num_instances > b->num_instances)
    return false;
  step->args[0].buffer = other;
  return true;
}

// A result that is a copy of |other| says the same when it is read there.
static bool is_copy_of(const ptc_task_t *task, int32_t buffer, int32_t other) {
  for (int32_t i = 0; i < task->num_steps; i++) {
    const ptc_step_t *step = &task->steps[i];
    if (step->kind == PTC_STEP_COPY && step->args[0].buffer == other &&
        step->args[1].buffer == buffer)
      return true;
  }
  return false;
}

static bool other_result(change_t *c) {
  const ptc_task_t *task = &c->plan->tasks[below(c, c->plan->num_tasks)];
  if (!task->num_results) return false;
  ptc_plan_result_t *result = &task->results[below(c, task->num_results)];
  const int32_t other = (int32_t)below(c, c->plan->num_buffers);
  if (other == result->buffer || c->plan->buffers[other].num_instances < result->num_instances ||
      c->plan->buffers[other].bytes != c->plan->buffers[result->buffer].bytes ||
      is_copy_of(task, result->buffer, other))
    return false;
  result->buffer = other;
  return true;
}

static bool other_global(change_t *c) {
  ptc_plan_global_t *a = &c->plan->globals[below(c, c->plan->num_globals)];
  ptc_plan_global_t *b = &c->plan->globals[below(c, c->plan->num_globals)];
  if (a == b || strcmp(a->kind, b->kind) != 0 || a->buffer == b->buffer ||
      strcmp(a->kind, "input") == 0 ||
      c->plan->buffers[a->buffer].num_instances != c->plan->buffers[b->buffer].num_instances)
    return false;
  const int32_t buffer = a->buffer;
  a->buffer = b->buffer;
  b->buffer = buffer;
  return true;
}

// Members add in the order of the axes.
static bool other_order(change_t *c) {
  ptc_collective_t *collective = collective_of(c);
  if (!collective || collective->num_axes < 2) return false;
  ptc_axis_ref_t *axes = PTC_ARENA_ARRAY(&c->plan->arena, ptc_axis_ref_t, collective->num_axes);
  for (int32_t i = 0; i < collective->num_axes; i++)
    axes[i] = collective->axes[collective->num_axes - 1 - i];
  collective->axes = axes;
  return true;
}

static bool fewer_parts(change_t *c) {
  ptc_collective_t *collective = collective_of(c);
  if (!collective || collective->num_parts < 2) return false;
  collective->num_parts--;
  step_of(&c->place)->num_args -= 2;
  return true;
}

static const struct {
  const char *name;
  bool (*apply)(change_t *c);
} kinds[] = {
    {"drop a launch", drop_launch},
    {"drop a copy", drop_copy},
    {"drop a repeat", drop_repeat},
    {"drop a collective", drop_collective},
    {"drop a call", drop_call},
    {"drop a send", drop_send},
    {"drop a receive", drop_recv},
    {"swap dependent steps", swap_dependent},
    {"swap calls of a micro-batch", swap_calls},
    {"a smaller buffer", smaller_buffer},
    {"an instance out of range", far_instance},
    {"an offset out of range", far_offset},
    {"more bytes", more_bytes},
    {"more turns", more_turns},
    {"another collective", other_kind},
    {"another reduction", other_reduction},
    {"another dtype", other_dtype},
    {"another axis", other_axis},
    {"fewer axes", fewer_axes},
    {"other pieces", other_pieces},
    {"operand and result change places", swap_parts},
    {"another peer", other_peer},
    {"another tag", other_tag},
    {"a send for a receive", turn_transfer},
    {"another task", other_task},
    {"a micro-batch out of range", far_micro},
    {"a slot out of range", far_slot},
    {"a task that calls itself", itself},
    {"a buffer outside of the arena", outside},
    {"an unaligned buffer", unaligned},
    {"a smaller arena", smaller_arena},
    {"two globals at one place", meeting_globals},
    {"an event that nothing records", no_event},
    {"a wait less", no_wait},
    {"a wait for an unknown event", unknown_event},
    {"an impossible stream", impossible_stream},
    {"another stream", other_stream},
    {"a turn late, not ahead", further_ahead},
    {"a launch done twice", launch_twice},
    {"a repeat done twice", repeat_twice},
    {"a send done twice", send_twice},
    {"a call done twice", call_twice},
    {"another instance", other_instance},
    {"another operand", other_operand},
    {"operands change places", swap_operands},
    {"another kernel", other_kernel},
    {"fewer tiles", fewer_tiles},
    {"another mode of a parameter", other_mode},
    {"fewer turns", fewer_turns},
    {"turns in another order", turns_back},
    {"the part of another rank", other_coordinate},
    {"another slot", other_slot},
    {"micro-batches in another order", swap_micros},
    {"another value sent", sends_other},
    {"another buffer as a result", other_result},
    {"globals change places", other_global},
    {"members in another order", other_order},
    {"fewer parts of a collective", fewer_parts},
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

// --- judging

static bool judged_alike(const ptc_plan_t *plan) {
  ptc_diag_t diags[2];
  ptc_status_t status[2];
  for (int plain = 0; plain < 2; plain++) {
    ptc_diag_init(&diags[plain]);
    status[plain] = ptc_plan_verify_replayed(&diags[plain], plan, plain);
    if (status[plain] == PTC_OK) status[plain] = ptc_plan_verify_walked(&diags[plain], plan, plain);
  }
  const bool alike =
      status[0] == status[1] &&
      (status[0] == PTC_OK || strcmp(diags[0].items[0].message, diags[1].items[0].message) == 0);
  for (int plain = 0; plain < 2; plain++) {
    if (!alike) ptc_diag_print(&diags[plain], stderr, PTC_DIAG_TEXT, false);
    ptc_diag_deinit(&diags[plain]);
  }
  return alike;
}

static bool accepted(ptc_plan_t *const *plans, int32_t count, char *out_id, size_t len) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status = PTC_OK;
  for (int32_t s = 0; s < count && status == PTC_OK; s++) {
    status = ptc_plan_check(&diag, plans[s]);
  }
  for (int32_t s = 0; s < count && status == PTC_OK; s++)
    UNIT_CHECK(judged_alike(plans[s]), "tapes and steps are judged alike");
  if (status == PTC_OK) status = ptc_plan_prove(&diag, (const ptc_plan_t *const *)plans, count);
  snprintf(out_id, len, "%s", diag.num_items ? diag.items[0].id : "");
  if (getenv("PTC_SHOW")) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  ptc_diag_deinit(&diag);
  return status == PTC_OK;
}

static int64_t applied[NUM_KINDS], rejected[NUM_KINDS], num_harmless;
static const char *const wanted_ids[] = {"plan-deadlock",      "plan-calls", "plan-collective",
                                         "plan-uninitialized", "plan-race",  "plan-ledger"};
enum { NUM_WANTED = sizeof wanted_ids / sizeof *wanted_ids };
static int64_t seen[NUM_WANTED];

static void change_once(const plan_texts_t *texts, uint64_t *random, const char *what) {
  ptc_plan_t *plans[PLAN_TEXTS_STAGES];
  for (int32_t s = 0; s < texts->count; s++) plans[s] = plan_texts_read(texts, s);
  change_t c = {.plan = plans[unit_random(random) % (uint64_t)texts->count], .random = random};
  static places_t places;
  places.count = 0;
  for (int32_t t = 0; t < c.plan->num_tasks; t++)
    find_places(&places, c.plan->tasks[t].steps, &c.plan->tasks[t].num_steps);
  int kind = (int)(unit_random(random) % NUM_KINDS);
  for (int k = 0; k < NUM_KINDS && getenv("PTC_KIND"); k++)
    if (strcmp(kinds[k].name, getenv("PTC_KIND")) == 0) kind = k;
  bool done = false;
  for (int tries = 0; tries < 200 && !done; tries++) {
    c.place = places.items[unit_random(random) % (uint64_t)places.count];
    done = kinds[kind].apply(&c);
  }
  char id[64];
  if (done) {
    applied[kind]++;
    const bool ok = accepted(plans, texts->count, id, sizeof id);
    rejected[kind] += !ok;
    for (int i = 0; i < NUM_WANTED; i++) seen[i] += strcmp(id, wanted_ids[i]) == 0;
    if (getenv("PTC_SHOW")) fprintf(stderr, "%s: %s [%s]\n", what, kinds[kind].name, id);
    // Steps of one stream may touch nothing that another one does.
    const bool harmless = ok && strcmp(kinds[kind].name, "another stream") == 0;
    num_harmless += harmless;
    if (ok && !harmless) printf("\n%s: %s passes\n", what, kinds[kind].name);
    UNIT_CHECK(!ok || harmless, kinds[kind].name);
  }
  for (int32_t s = 0; s < texts->count; s++) ptc_plan_destroy(plans[s]);
}

static bool is_accepted(const plan_texts_t *texts, char *out_id, size_t len) {
  ptc_plan_t *plans[PLAN_TEXTS_STAGES];
  bool read = true;
  for (int32_t s = 0; s < texts->count; s++) read = (plans[s] = plan_texts_read(texts, s)) && read;
  snprintf(out_id, len, "unreadable");
  const bool ok = read && accepted(plans, texts->count, out_id, len);
  for (int32_t s = 0; s < texts->count; s++) ptc_plan_destroy(plans[s]);
  return ok;
}

static int64_t get_count(const char *name, int64_t usual) {
  const char *wanted = getenv(name);
  return wanted ? atoll(wanted) : usual;
}

static void test_changes(void) {
  static const char *const cases[][2] = {
      {"gpt2", ""},
      {"llama3", "dp=2,tp=2,zero=1"},
      {"gemma2", "dp=2,cp=2,zero=3,micro_batch=2"},
      {"gpt2_dropout", "pp=2,micro_batch=2"},
      {"two_branch", "dp=2,pp=3,micro_batch=2,zero=2"},
      {"llama3", "dp=2,tp=2,zero=3,overlap=1"},
      {"gpt2_dropout", "dp=2,pp=2,micro_batch=2,zero=3,overlap=1"},
      {"gpt2", "batch=12,micro_batch=1"},
      {"llama3", "batch=24,dp=2,pp=2,micro_batch=1,zero=2"},
      {"llama3", "batch=24,dp=2,pp=2,micro_batch=1,zero=3,overlap=1"},
  };
  enum { NUM_CASES = sizeof cases / sizeof *cases, CHANGES_OF_RANDOM = 20 };
  const int64_t count = get_count("PTC_CASES", 80), num_random = get_count("PTC_PLANS", 4);
  if (count == 0 && num_random == 0) return;  // others are asked for
  uint64_t random = unit_seed();
  for (int64_t i = 0; i < NUM_CASES + num_random; i++) {
    plan_texts_t plans;
    bool broken = false;
    const bool fixed = i < NUM_CASES;
    const uint64_t seed = getenv("PTC_SEED") ? unit_random(&random) : (uint64_t)i;
    const bool made = fixed ? make_plans(cases[i][0], cases[i][1], &plans)
                            : plan_texts_random(seed, &plans, &broken);
    char what[80], id[64];
    snprintf(what, sizeof what, "%s %s", fixed ? cases[i][0] : "random", fixed ? cases[i][1] : "");
    UNIT_CHECK(made || (!fixed && !broken), what);
    if (!made) continue;
    UNIT_CHECK(is_accepted(&plans, id, sizeof id), id);
    const int64_t changes = fixed ? count : CHANGES_OF_RANDOM;
    for (int64_t n = 0; n < changes; n++) change_once(&plans, &random, what);
    plan_texts_deinit(&plans);
  }
  int64_t all = 0, no = 0, silent = 0;
  for (int k = 0; k < NUM_KINDS; k++) {
    all += applied[k];
    no += rejected[k];
    if (!applied[k]) {
      silent++;
      printf("\nnot tried: %s", kinds[k].name);
    }
  }
  printf("\n%lld changes of %d kinds, %lld rejected, %lld order nothing less\n", (long long)all,
         NUM_KINDS, (long long)no, (long long)num_harmless);
  if (getenv("PTC_KIND")) return;
  UNIT_CHECK(silent <= 6 && all > 0, "every kind is tried");
  for (int i = 0; i < NUM_WANTED; i++) UNIT_CHECK(seen[i] > 0, wanted_ids[i]);
}

// --- what is right is accepted

static void test_valid(void) {
  const int64_t count = get_count("PTC_VALID", 12);
  // Without a seed the first models: some later ones are known to be refused by the compiler's own proof.
  uint64_t seed = getenv("PTC_SEED") ? unit_seed() : 1;
  int64_t num = 0, refused = 0, many = 0, stages = 0;
  for (int64_t i = 0; i < count + refused && refused < 20 * (count + 1); i++) {
    plan_texts_t plans;
    bool broken;
    if (!plan_texts_random(seed + (uint64_t)i, &plans, &broken)) {
      UNIT_CHECK(!broken, "a random model is compiled");
      refused++;
      continue;
    }
    char id[64], what[96];
    const bool ok = is_accepted(&plans, id, sizeof id);
    snprintf(what, sizeof what, "seed %llu: %s", (unsigned long long)(seed + (uint64_t)i), id);
    UNIT_CHECK(ok, what);
    num++;
    many += strstr(plans.json[0].data, "\"mesh\"") != NULL;
    stages += plans.count > 1;
    plan_texts_deinit(&plans);
    if (isatty(2) && num % 50 == 0) fprintf(stderr, "%lld\n", (long long)num);
  }
  // Plans that have been refused once, though they are right.
  static const uint64_t once[] = {168, 341, 379, 1000265, 1000456, 1001175, 1001551, 2391};
  enum { NUM_ONCE = sizeof once / sizeof *once };
  for (int i = 0; i < NUM_ONCE && !getenv("PTC_SEED"); i++) {
    plan_texts_t plans;
    bool broken;
    char id[64] = "";
    const bool ok =
        plan_texts_random(once[i], &plans, &broken) && is_accepted(&plans, id, sizeof id);
    if (!ok) printf("\nseed %llu: %s", (unsigned long long)once[i], id);
    UNIT_CHECK(ok, "a plan that was refused once is accepted");
    plan_texts_deinit(&plans);
  }
  printf("%lld plans accepted, %lld of them on meshes, %lld of stages; %lld refused sizes ",
         (long long)num, (long long)many, (long long)stages, (long long)refused);
  UNIT_CHECK(num == count, "enough random models fit their meshes");
}

// --- what is wrong is not written

static void test_not_written(void) {
  char folder[] = "/tmp/ptc_prove_XXXXXX";
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/p", folder);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = small_model_lower(small_model_find("gpt2"), NULL, 0, &diag);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_emitted_t emitted;
  CU_ASSERT_EQUAL_FATAL(ptc_pipeline_train(&ctx, module), PTC_OK);
  CU_ASSERT_EQUAL_FATAL(ptc_emit(&ctx, module, "cpu", &emitted), PTC_OK);
  ptc_task_t *task = NULL;
  for (int32_t t = 0; t < emitted.plan->num_tasks; t++)
    if (strcmp(emitted.plan->tasks[t].name, "train") == 0) task = &emitted.plan->tasks[t];
  CU_ASSERT_PTR_NOT_NULL_FATAL(task);
  task->num_steps--;
  CU_ASSERT_EQUAL(ptc_emit_write(module, &emitted, path.data), PTC_INTERNAL);
  CU_ASSERT_EQUAL(access(path.data, F_OK), -1);
  CU_ASSERT_STRING_EQUAL(diag.items[diag.num_items - 1].id, "plan-unproved");
  CU_ASSERT_PTR_NOT_NULL(strstr(diag.items[diag.num_items - 1].message, "task \"train\""));
  task->num_steps++;
  CU_ASSERT_EQUAL(ptc_emit_write(module, &emitted, path.data), PTC_OK);
  CU_ASSERT_EQUAL(access(path.data, F_OK), 0);
  ptc_str_t remove = {0};
  ptc_str_printf(&remove, "rm -r %s", folder);
  CU_ASSERT_EQUAL(system(remove.data), 0);
  ptc_str_deinit(&remove);
  ptc_emitted_deinit(&emitted);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&path);
}

static const unit_test_t tests[] = {{"changes", test_changes},
                                    {"random plans are accepted", test_valid},
                                    {"what is wrong is not written", test_not_written}};
UNIT_MAIN("plan mutation", tests)
