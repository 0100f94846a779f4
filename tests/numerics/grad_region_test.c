// Proves: the gradient of a repeat, also of a nested one, is that of finite differences and of the
// same program unrolled; random programs with carried, per-turn, captured and collected values.
#include <math.h>
#include <string.h>

#include "ir/op.h"
#include "tests/support/grad_case.h"
#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

enum { TRIALS = 60, MAX_TURNS = 3 };

// What a random program does; both versions of it are built from one of these.
typedef struct plan_s {
  int64_t turns, inner_turns;
  bool reverse, inner_reverse;
  uint64_t flags;  // bit k: option k
  int64_t extent_a, extent_b;
} plan_t;

enum {
  USE_MASK,
  USE_DROPOUT,
  USE_INNER,
  USE_COUNTER,
  CAPTURE_IN_INNER,
  CAPTURE_BUNDLE,
  CAPTURE_CAST,
  COLLECT_INNER,
  COLLECT_CARRY,
  COLLECT_TURN_INPUT,
  COLLECT_CAPTURE,
  COLLECT_RESULT,
  USE_FINAL,
  SWAP_CARRY,
  SHARE_BUNDLE,
  INIT_CONSTANT,
  NUM_OPTIONS
};

static bool option(const plan_t *plan, int bit) { return plan->flags >> bit & 1; }

// Values that a program reads; [r][j] are instances of the unrolled version.
typedef struct program_s {
  const plan_t *plan;
  bool unrolled;
  grad_case_t c;
  ptc_value_t *k, *k_cast, *init, *seed, *step;
  ptc_value_t *w, *u, *v;  // bundles
  ptc_value_t *w_at[MAX_TURNS], *u_at[MAX_TURNS][MAX_TURNS], *v_at[MAX_TURNS];
} program_t;

static const case_fill_t around_zero = {-1, 1, false};

static ptc_value_t *named(program_t *p, ptc_global_kind_t kind, const char *path, const char *dims,
                          const int64_t *counts) {
  return case_global(&p->c, kind, path, case_type(&p->c, PTC_F32, dims, counts), around_zero);
}

static const char *path_at(program_t *p, const char *name, int64_t r) {
  return ptc_arena_printf(&p->c.module->arena, "%s.%d", name, (int)r);
}

static void add_inputs(program_t *p) {
  const plan_t *plan = p->plan;
  const int64_t one[] = {plan->turns, 0}, two[] = {plan->turns, plan->inner_turns, 0};
  const int64_t inner[] = {plan->inner_turns, 0};
  p->k = named(p, PTC_GLOBAL_PARAM, "k", "b", NULL);
  p->init = named(p, PTC_GLOBAL_PARAM, "init", "ab", NULL);
  p->seed = case_global(&p->c, PTC_GLOBAL_SETTING, "seed", case_type(&p->c, PTC_I64, "", NULL),
                        (case_fill_t){7, 8, true});
  p->step = case_global(&p->c, PTC_GLOBAL_SETTING, "step", case_type(&p->c, PTC_I64, "", NULL),
                        (case_fill_t){3, 4, true});
  p->k_cast = ptc_build_cast(&p->c.b, p->k, PTC_F64);
  if (!p->unrolled) {
    p->w = named(p, PTC_GLOBAL_PARAM, "w.*", "b", one);
    p->u = named(p, PTC_GLOBAL_PARAM, "u.*.*", "a", two);
    p->v = named(p, PTC_GLOBAL_PARAM, "v.*", "a", inner);
    return;
  }
  for (int64_t r = 0; r < plan->turns; r++) {
    p->w_at[r] = named(p, PTC_GLOBAL_PARAM, path_at(p, "w", r), "b", NULL);
    for (int64_t j = 0; j < plan->inner_turns; j++)
      p->u_at[r][j] = named(p, PTC_GLOBAL_PARAM, path_at(p, path_at(p, "u", r), j), "a", NULL);
  }
  for (int64_t j = 0; j < plan->inner_turns; j++)
    p->v_at[j] = named(p, PTC_GLOBAL_PARAM, path_at(p, "v", j), "a", NULL);
}

// --- the body, for both versions

static ptc_value_t *op2(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x, ptc_value_t *y) {
  return ptc_build_binary(b, opcode, x, y);
}

// y' = sin(y * u) + v [+ t * k]; what is collected is y * y'.
static void inner_turn(program_t *p, ptc_builder_t *b, ptc_value_t *y, ptc_value_t *u,
                       ptc_value_t *v, ptc_value_t *t, ptc_value_t **out_next,
                       ptc_value_t **out_collect) {
  ptc_value_t *next = ptc_build_unary(b, PTC_OP_SIN, op2(b, PTC_OP_MUL, y, u));
  next = op2(b, PTC_OP_ADD, next, v);
  if (option(p->plan, CAPTURE_IN_INNER))
    next = op2(b, PTC_OP_ADD, next, op2(b, PTC_OP_MUL, t, p->k));
  *out_next = next;
  *out_collect = op2(b, PTC_OP_MUL, y, next);
}

// The inner region of turn |r|. |collected|: one bundle, or an instance per inner turn.
static ptc_value_t *inner(program_t *p, ptc_builder_t *b, int64_t r, ptc_value_t *y, ptc_value_t *u,
                          ptc_value_t *t, ptc_value_t **collected) {
  const plan_t *plan = p->plan;
  if (p->unrolled) {
    for (int64_t i = 0; i < plan->inner_turns; i++) {
      const int64_t j = plan->inner_reverse ? plan->inner_turns - 1 - i : i;
      ptc_value_t *v = option(plan, CAPTURE_BUNDLE) ? p->v_at[j] : p->u_at[r][j];
      inner_turn(p, b, y, p->u_at[r][j], v, t, &y, &collected[j]);
    }
    return y;
  }
  ptc_value_t *each[] = {u, option(plan, CAPTURE_BUNDLE) ? p->v : u};
  ptc_op_t *repeat =
      ptc_build_repeat_begin(b, plan->inner_turns, plan->inner_reverse, &y, 1, each, 2);
  ptc_value_t *const *args = repeat->body->args;
  ptc_builder_t body = ptc_builder_at_end(b->module, repeat->body);
  ptc_value_t *yields[2];
  inner_turn(p, &body, args[1], args[2], args[3], t, &yields[0], &yields[1]);
  ptc_build_repeat_end(b->module, repeat, yields, 2);
  collected[0] = repeat->results[1];
  return repeat->results[0];
}

enum { CARRY_X, CARRY_OTHER, CARRY_COUNTER, NUM_CARRY, NUM_COLLECT = 5 };

typedef struct turn_s {
  ptc_value_t *turn, *w, *u;
  ptc_value_t *carry[NUM_CARRY];          // replaced by the next ones
  ptc_value_t *collect[NUM_COLLECT];      // NULL: not collected
  ptc_value_t *inner_collect[MAX_TURNS];  // of the unrolled version
} turn_t;

static void body(program_t *p, ptc_builder_t *b, int64_t r, turn_t *t) {
  const plan_t *plan = p->plan;
  ptc_value_t *x = t->carry[CARRY_X], *other = t->carry[CARRY_OTHER];
  ptc_value_t *w = t->w;
  ptc_value_t *position = ptc_build_cast(b, t->turn, PTC_F32);
  ptc_value_t *s = op2(b, PTC_OP_MUL, x, w);
  ptc_value_t *y = ptc_build_unary(b, PTC_OP_TANH, op2(b, PTC_OP_ADD, s, p->k));
  y = op2(b, PTC_OP_ADD, y, ptc_build_binary_const(b, PTC_OP_MUL, position, 0.1));
  if (option(plan, USE_MASK)) {
    const ptc_dim_t *dim = &p->init->type->dims[0];
    ptc_value_t *mask = op2(b, PTC_OP_LT, ptc_build_iota(b, dim), t->turn);
    y = ptc_build_where(b, mask, y, s);
  }
  if (option(plan, CAPTURE_CAST))
    y = ptc_build_cast(b, op2(b, PTC_OP_MUL, ptc_build_cast(b, y, PTC_F64), p->k_cast), PTC_F32);
  ptc_value_t *z = y, *inner_collect[MAX_TURNS] = {0};
  if (option(plan, USE_INNER)) {
    z = inner(p, b, r, y, t->u, y, inner_collect);
    memcpy(t->inner_collect, inner_collect, sizeof(inner_collect));
  }
  if (option(plan, USE_DROPOUT)) {
    ptc_value_t *operands[] = {z, p->seed, p->step, t->turn};
    z = ptc_build_op(b, PTC_OP_DROPOUT, operands, 4, 1,
                     maker_attrs(b->module, "p=f:0.3 path=s:r.*"))
            ->results[0];
  }
  ptc_value_t *next = op2(b, PTC_OP_ADD, x, ptc_build_binary_const(b, PTC_OP_MUL, z, 0.3));
  if (option(plan, USE_COUNTER))
    next = op2(b, PTC_OP_MUL, next, ptc_build_cast(b, t->carry[CARRY_COUNTER], PTC_F32));
  if (option(plan, SHARE_BUNDLE)) next = op2(b, PTC_OP_ADD, next, op2(b, PTC_OP_MUL, w, w));
  if (option(plan, COLLECT_INNER) && option(plan, USE_INNER)) t->collect[0] = inner_collect[0];
  if (option(plan, COLLECT_CARRY)) t->collect[1] = other;
  if (option(plan, COLLECT_TURN_INPUT)) t->collect[2] = w;
  if (option(plan, COLLECT_CAPTURE)) t->collect[3] = p->k;
  if (option(plan, COLLECT_RESULT)) t->collect[4] = z;
  next = ptc_build_fit(b, next, x->type);
  t->carry[CARRY_X] = option(plan, SWAP_CARRY) ? other : next;
  t->carry[CARRY_OTHER] = next;
  t->carry[CARRY_COUNTER] = ptc_build_binary_const(b, PTC_OP_ADD, t->carry[CARRY_COUNTER], 1);
}

// --- both versions

static void use(program_t *p, const char *path, ptc_value_t *value) {
  ptc_value_t *weights = case_global(&p->c, PTC_GLOBAL_INPUT, path, value->type, around_zero);
  case_use_weighted(&p->c, weights, value);
}

static void build_unrolled(program_t *p, turn_t *t) {
  const plan_t *plan = p->plan;
  static const char *const names[] = {"f0", "f1", "f2", "f3", "f4"};
  for (int64_t i = 0; i < plan->turns; i++) {
    const int64_t r = plan->reverse ? plan->turns - 1 - i : i;
    t->turn = ptc_build_constant(&p->c.b, PTC_I32, (double)r);
    t->w = p->w_at[r];
    body(p, &p->c.b, r, t);
    for (int k = 1; k < NUM_COLLECT; k++)
      if (t->collect[k]) use(p, path_at(p, names[k], r), t->collect[k]);
    for (int64_t j = 0; t->collect[0] && j < plan->inner_turns; j++)
      use(p, path_at(p, path_at(p, names[0], r), j), t->inner_collect[j]);
  }
}

static void build_region(program_t *p, turn_t *t) {
  const plan_t *plan = p->plan;
  static const char *const names[] = {"f0.*.*", "f1.*", "f2.*", "f3.*", "f4.*"};
  ptc_value_t *each[] = {p->w, p->u};
  ptc_op_t *repeat =
      ptc_build_repeat_begin(&p->c.b, plan->turns, plan->reverse, t->carry, NUM_CARRY, each, 2);
  ptc_value_t *const *args = repeat->body->args;
  ptc_builder_t b = ptc_builder_at_end(p->c.module, repeat->body);
  t->turn = args[0];
  for (int i = 0; i < NUM_CARRY; i++) t->carry[i] = args[1 + i];
  t->w = args[1 + NUM_CARRY];
  t->u = args[2 + NUM_CARRY];
  body(p, &b, 0, t);
  ptc_value_t *yields[NUM_CARRY + NUM_COLLECT];
  int32_t num_yields = NUM_CARRY;
  for (int i = 0; i < NUM_CARRY; i++) yields[i] = t->carry[i];
  for (int k = 0; k < NUM_COLLECT; k++)
    if (t->collect[k]) yields[num_yields++] = t->collect[k];
  ptc_build_repeat_end(p->c.module, repeat, yields, num_yields);
  int32_t next = NUM_CARRY;
  for (int k = 0; k < NUM_COLLECT; k++)
    if (t->collect[k]) use(p, names[k], repeat->results[next++]);
  for (int i = 0; i < NUM_CARRY; i++) t->carry[i] = repeat->results[i];
}

static void build(program_t *p, const plan_t *plan, bool unrolled, uint64_t *random) {
  memset(p, 0, sizeof(*p));
  p->plan = plan;
  p->unrolled = unrolled;
  case_init(&p->c, random);
  p->c.extent[0] = plan->extent_a;
  p->c.extent[1] = plan->extent_b;
  add_inputs(p);
  turn_t t = {0};
  ptc_builder_t *b = &p->c.b;
  t.carry[CARRY_X] = p->init;
  t.carry[CARRY_OTHER] = option(plan, INIT_CONSTANT)
                             ? ptc_build_fit(b, ptc_build_constant(b, PTC_F32, 0.5), p->init->type)
                             : ptc_build_unary(b, PTC_OP_NEG, p->init);
  t.carry[CARRY_COUNTER] = ptc_build_constant(b, PTC_I32, 1);
  if (unrolled)
    build_unrolled(p, &t);
  else
    build_region(p, &t);
  if (option(plan, USE_FINAL) || !p->c.loss) use(p, "f5", t.carry[CARRY_OTHER]);
  use(p, "f6", t.carry[CARRY_X]);
}

// --- comparison

// A number in (-1, 1) that depends on the instance's path and the element alone.
static double number_of(const char *path, int64_t element) {
  uint64_t state = (uint64_t)element;
  for (; *path; path++) state = state * 131 + (unsigned char)*path;
  return (double)(int64_t)unit_random(&state) * 0x1p-63;
}

static const char *instance_path(const ptc_global_t *global, int64_t index, ptc_str_t *path) {
  int64_t instance[PTC_MAX_COUNTS] = {0};
  for (int32_t i = global->type->num_counts; i-- > 0; index /= global->type->counts[i])
    instance[i] = index % global->type->counts[i];
  ptc_str_deinit(path);
  *path = (ptc_str_t){0};
  ptc_global_instance_path(global, instance, path);
  return path->data;
}

static ptc_interp_t *run(program_t *p) {
  ptc_interp_t *interp = case_interpret(&p->c);
  ptc_str_t path = {0};
  for (int64_t g = 0; g < p->c.module->num_globals; g++) {
    const ptc_global_t *global = p->c.module->globals[g];
    if (!ptc_dtype_is_float(global->type->dtype)) continue;
    ptc_tensor_t *tensor = ptc_interp_global(interp, global);
    for (int64_t i = 0; i < tensor->num_instances; i++) {
      const char *name = instance_path(global, i, &path);
      for (int64_t e = 0; e < tensor->num_elements; e++)
        tensor->data[i * tensor->num_elements + e] = number_of(name, e);
    }
  }
  ptc_str_deinit(&path);
  if (ptc_interp_run(interp, "train") == PTC_OK) return interp;
  ptc_diag_print(&p->c.diag, stdout, PTC_DIAG_TEXT, false);
  ptc_interp_destroy(interp);
  return NULL;
}

// The gradient by the parameter with this path in the unrolled program.
static const ptc_tensor_t *find_grad(const program_t *p, const ptc_interp_t *interp,
                                     const char *path) {
  for (int32_t i = 1; i < p->c.func->num_results; i++)
    if (strcmp(p->c.func->results[i].global->path, path) == 0) return ptc_interp_result(interp, i);
  return NULL;
}

static double compare(program_t *region, program_t *unrolled) {
  ptc_interp_t *a = run(region), *b = run(unrolled);
  double worst =
      a && b ? fabs(ptc_interp_result(a, 0)->data[0] - ptc_interp_result(b, 0)->data[0]) : INFINITY;
  ptc_str_t path = {0};
  for (int32_t i = 1; a && b && i < region->c.func->num_results; i++) {
    const ptc_tensor_t *x = ptc_interp_result(a, i);
    for (int64_t r = 0; r < x->num_instances; r++) {
      const char *name = instance_path(region->c.func->results[i].global, r, &path);
      const ptc_tensor_t *y = find_grad(unrolled, b, name);
      if (!y) worst = INFINITY;
      for (int64_t e = 0; y && e < x->num_elements; e++)
        worst = fmax(worst,
                     fabs(x->data[r * x->num_elements + e] - y->data[e]) / (1 + fabs(y->data[e])));
    }
  }
  ptc_str_deinit(&path);
  ptc_interp_destroy(a);
  ptc_interp_destroy(b);
  return worst;
}

static void random_regions(void) {
  uint64_t random = unit_seed();
  for (int trial = 0; trial < TRIALS; trial++) {
    const uint64_t start = random;
    plan_t plan = {.turns = 1 + (int64_t)(unit_random(&random) % MAX_TURNS),
                   .inner_turns = 1 + (int64_t)(unit_random(&random) % MAX_TURNS),
                   .extent_a = 1 + (int64_t)(unit_random(&random) % 3),
                   .extent_b = 1 + (int64_t)(unit_random(&random) % 3)};
    plan.reverse = unit_random(&random) % 2;
    plan.inner_reverse = unit_random(&random) % 2;
    plan.flags = unit_random(&random) >> 40;
    program_t region, unrolled;
    build(&region, &plan, false, &random);
    build(&unrolled, &plan, true, &random);
    const bool ok = case_differentiate(&region.c) && case_differentiate(&unrolled.c);
    const double against_unrolled = ok ? compare(&region, &unrolled) : INFINITY;
    const double against_differences = ok ? case_error(&region.c) : INFINITY;
    if (!(against_unrolled < 1e-11) || !(against_differences < 1e-6))
      printf("\n    trial %d, state %#llx, flags %#llx: %g, %g\n", trial, (unsigned long long)start,
             (unsigned long long)plan.flags & ((1u << NUM_OPTIONS) - 1), against_unrolled,
             against_differences);
    CU_ASSERT(against_unrolled < 1e-11);
    CU_ASSERT(against_differences < 1e-6);
    case_deinit(&region.c);
    case_deinit(&unrolled.c);
  }
}

static const unit_test_t tests[] = {{"random regions", random_regions}};
UNIT_MAIN("grad_region", tests)
