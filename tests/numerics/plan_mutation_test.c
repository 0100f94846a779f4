// Proves: a plan in which one step, transfer, collective or address is changed so that a run would hang, or read what is
// not there, is rejected by ptc_plan_check, ptc_plan_verify or ptc_plan_verify_stages; the plan as it was is accepted.
// 38 kinds of change at random places of plans of one rank, of meshes and of pipelines. PTC_CASES: changes of each plan
// (default 150); PTC_SEED.
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/emit.h"
#include "passes/split_stages.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

enum { MAX_STAGES = 4, MAX_PLACES = 4096 };

typedef struct texts_s {
  ptc_str_t json, steps;
} texts_t;

// The plans of all stages, as text, so that each change begins anew.
typedef struct plans_s {
  int32_t count;
  texts_t texts[MAX_STAGES];
} plans_t;

static ptc_plan_t *reread(const texts_t *texts) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  ptc_plan_parse(&diag, "plan.json", texts->json.data, texts->json.len, "stage.steps",
                 texts->steps.data, texts->steps.len, &plan);
  if (!plan) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  ptc_diag_deinit(&diag);
  return plan;
}

static bool keep(ptc_pass_ctx_t *ctx, ptc_status_t status, ptc_emitted_t *emitted, plans_t *plans) {
  if (status == PTC_OK && !ctx->stopped) {
    texts_t *texts = &plans->texts[plans->count++];
    ptc_plan_print(emitted->plan, &texts->json, &texts->steps);
  }
  ptc_emitted_deinit(emitted);
  return status == PTC_OK;
}

static bool make_plans(const char *name, const char *parallel, plans_t *plans) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const small_model_t *model = small_model_find(name);
  const ptc_override_t more[] = {{"train.batch", "8"}, {"train.clip", "0.5"}};
  ptc_module_t *module = small_model_lower(model, more, 2, &diag);
  bool ok = module != NULL;
  int pp = 1;
  if (ok) ptc_attrs_remove(&module->config, ptc_module_intern(module, "cut"));
  for (const char *at = parallel; ok && *at;) {
    char key[32];
    int value = 0, length = 0;
    if (sscanf(at, "%31[a-z_]=%d%n", key, &value, &length) != 2) abort();
    if (strcmp(key, "overlap") == 0)
      ptc_attrs_set_bool(module, &module->config, "overlap", value != 0);
    else
      ptc_attrs_set_int(module, &module->config, ptc_module_intern(module, key), value);
    if (strcmp(key, "pp") == 0) pp = value;
    at += length + (at[length] == ',');
  }
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ok = ok && ptc_pipeline_train(&ctx, module) == PTC_OK;
  if (ok && pp == 1) {
    ptc_emitted_t emitted;
    ok = keep(&ctx, ptc_emit(&ctx, module, "cpu", &emitted), &emitted, plans);
  } else if (ok) {
    ptc_stages_t *stages = NULL;
    ok = ptc_split_stages(&ctx, module, &stages) == PTC_OK;
    if (ok) ptc_stages_add_axis(stages);
    for (int32_t s = 0; ok && s < stages->num_stages; s++) {
      ptc_emitted_t emitted;
      ok = keep(&ctx, ptc_emit_stage(&ctx, stages, s, "cpu", &emitted), &emitted, plans);
    }
    ptc_stages_destroy(stages);
  }
  if (!ok) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return ok && plans->count > 0;
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
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

// What a step that is dropped made may be read by nobody, or be a term of a sum: the flow of data stays whole.
// Steps of one stream may touch nothing that another one does.
static bool may_be_harmless(const char *kind) {
  return strncmp(kind, "drop a", 6) == 0 || strcmp(kind, "another stream") == 0;
}

// --- judging

static bool accepted(ptc_plan_t *const *plans, int32_t count, char *out_id, size_t len) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status = PTC_OK;
  for (int32_t s = 0; s < count && status == PTC_OK; s++) {
    status = ptc_plan_check(&diag, plans[s]);
    if (status == PTC_OK) status = ptc_plan_verify(&diag, plans[s]);
    if (status == PTC_OK) status = ptc_plan_verify_order(&diag, plans[s]);
  }
  if (status == PTC_OK)
    status = ptc_plan_verify_stages(&diag, (const ptc_plan_t *const *)plans, count);
  snprintf(out_id, len, "%s", diag.num_items ? diag.items[0].id : "");
  if (getenv("PTC_SHOW")) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  ptc_diag_deinit(&diag);
  return status == PTC_OK;
}

static int64_t applied[NUM_KINDS], rejected[NUM_KINDS], harmless;
static const char *const wanted_ids[] = {"plan-deadlock", "plan-calls", "plan-collective",
                                         "plan-uninitialized", "plan-race"};
enum { NUM_WANTED = sizeof wanted_ids / sizeof *wanted_ids };
static int64_t seen[NUM_WANTED];

static void change_once(const plans_t *texts, uint64_t *random, const char *what) {
  ptc_plan_t *plans[MAX_STAGES];
  for (int32_t s = 0; s < texts->count; s++) plans[s] = reread(&texts->texts[s]);
  change_t c = {.plan = plans[unit_random(random) % (uint64_t)texts->count], .random = random};
  static places_t places;
  places.count = 0;
  for (int32_t t = 0; t < c.plan->num_tasks; t++)
    find_places(&places, c.plan->tasks[t].steps, &c.plan->tasks[t].num_steps);
  const int kind = (int)(unit_random(random) % NUM_KINDS);
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
    if (ok && may_be_harmless(kinds[kind].name))
      harmless++;
    else if (ok) {
      printf("\n%s: %s passes\n", what, kinds[kind].name);
      UNIT_CHECK(!ok, kinds[kind].name);
    }
  }
  for (int32_t s = 0; s < texts->count; s++) ptc_plan_destroy(plans[s]);
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
  };
  const char *wanted = getenv("PTC_CASES");
  const int count = wanted ? atoi(wanted) : 150;
  uint64_t random = unit_seed();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plans_t plans = {0};
    const bool made = make_plans(cases[i][0], cases[i][1], &plans);
    UNIT_CHECK(made, cases[i][1]);
    if (made) {
      ptc_plan_t *as_is[MAX_STAGES];
      char id[64];
      for (int32_t s = 0; s < plans.count; s++) as_is[s] = reread(&plans.texts[s]);
      UNIT_CHECK(accepted(as_is, plans.count, id, sizeof id), id);
      for (int32_t s = 0; s < plans.count; s++) ptc_plan_destroy(as_is[s]);
    }
    char what[80];
    snprintf(what, sizeof what, "%s %s", cases[i][0], cases[i][1]);
    for (int n = 0; made && n < count; n++) change_once(&plans, &random, what);
    for (int32_t s = 0; s < plans.count; s++) {
      ptc_str_deinit(&plans.texts[s].json);
      ptc_str_deinit(&plans.texts[s].steps);
    }
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
  printf("\n%lld changes of %d kinds, %lld rejected, %lld leave it whole\n", (long long)all,
         NUM_KINDS, (long long)no, (long long)harmless);
  UNIT_CHECK(silent <= 2 && all > 0, "every kind is tried");
  for (int i = 0; i < NUM_WANTED; i++) UNIT_CHECK(seen[i] > 0, wanted_ids[i]);
}

static const unit_test_t tests[] = {{"changes", test_changes}};
UNIT_MAIN("plan mutation", tests)
