// Proves: the pieces of a form agree with a layout of each micro-batch, number by number, for all samples on random
// splits, sets of names, recompute modes and save profiles; as well where a form takes from an earlier one how values
// lie.
#include <math.h>

#include "tests/support/plan_space.h"
#include "tests/support/unit.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)); }

static bool same_kernel(const ptc_kernel_work_t *a, const ptc_kernel_work_t *b) {
  return a->kind == b->kind && a->prec == b->prec && a->batch == b->batch && a->m == b->m &&
         a->n == b->n && a->k == b->k && a->heads == b->heads && a->kv_heads == b->kv_heads &&
         a->rows == b->rows && a->cols == b->cols && a->qk_dim == b->qk_dim &&
         a->v_dim == b->v_dim && a->window == b->window && a->ops == b->ops &&
         a->times == b->times && near(a->flops, b->flops) && near(a->bytes, b->bytes) &&
         near(a->costly, b->costly) && near(a->unfused_bytes, b->unfused_bytes);
}

static bool same_phase(const ptc_phase_work_t *a, const ptc_phase_work_t *b) {
  if (a->num_kernels != b->num_kernels || a->num_nets != b->num_nets) return false;
  for (int32_t i = 0; i < a->num_kernels; i++)
    if (!same_kernel(&a->kernels[i], &b->kernels[i])) return false;
  for (int32_t i = 0; i < a->num_nets; i++) {
    const ptc_net_item_t *x = &a->nets[i], *y = &b->nets[i];
    if (x->kind != y->kind || x->axes != y->axes || x->ranks != y->ranks || x->times != y->times ||
        x->late != y->late || !near(x->bytes, y->bytes))
      return false;
  }
  return true;
}

static bool same_memory(const ptc_piece_t *a, const ptc_piece_t *b) {
  for (int mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++)
    if (!near(a->saved_bytes[mode], b->saved_bytes[mode]) ||
        !near(a->slot_bytes[mode], b->slot_bytes[mode]))
      return false;
  for (int peak = 0; peak < PTC_NUM_PEAKS; peak++)
    if (!near(a->peak_bytes[peak], b->peak_bytes[peak])) return false;
  if (!near(a->held_bytes, b->held_bytes)) return false;
  return near(a->scores_bytes, b->scores_bytes) && near(a->boundary_bytes, b->boundary_bytes) &&
         near(a->products_bytes, b->products_bytes) && near(a->logits, b->logits) &&
         near(a->param_bytes, b->param_bytes) && near(a->grad_bytes, b->grad_bytes) &&
         near(a->state_bytes, b->state_bytes) && a->num_groups == b->num_groups;
}

static const char *difference(const ptc_work_pieces_t *a, const ptc_work_pieces_t *b) {
  if (a->count != b->count || a->micro_batches != b->micro_batches) return "pieces";
  for (int32_t i = 0; i < a->count; i++) {
    const ptc_piece_t *x = &a->items[i], *y = &b->items[i];
    if (x->count != y->count) return "turns";
    if (!same_phase(&x->forward, &y->forward)) return "forward";
    if (!same_phase(&x->backward, &y->backward)) return "backward";
    if (!same_phase(&x->weight_grad, &y->weight_grad)) return "weights";
    if (!same_phase(&x->again, &y->again)) return "again";
    if (!same_phase(&x->step, &y->step)) return "step";
    if (!same_memory(x, y)) return "memory";
  }
  return NULL;
}

static int64_t pick(uint64_t *seed, int64_t most) {
  return (int64_t)1 << (int64_t)(unit_random(seed) % (uint64_t)most);
}

typedef struct tally_s {
  uint64_t seed, own;  // |own|: of the case at hand
  int compared;
} tally_t;

static void compare_choice(const plan_model_t *m, const char *name, ptc_choice_t choice,
                           ptc_save_profile_t profile, ptc_arena_t *arena, ptc_patterns_t *patterns,
                           tally_t *tally) {
  ptc_form_t *form;
  const bool ok = ptc_layout_form(m->work, arena, patterns, &choice, profile, &form) == PTC_OK;
  for (choice.micro_batch = 1; choice.micro_batch <= m->work->batch; choice.micro_batch++) {
    ptc_arena_t scratch = {0};
    ptc_work_pieces_t direct;
    const ptc_work_pieces_t *pieces = ok ? ptc_form_at(form, choice.micro_batch) : NULL;
    const bool fits = ptc_layout_pieces(m->work, &scratch, &choice, profile, &direct) == PTC_OK;
    const char *what = !fits == !pieces ? NULL : "whether it fits";
    if (fits && pieces) what = difference(pieces, &direct);
    char row[160];
    snprintf(row, sizeof(row), "%s seed %llu%s dp=%d cp=%d tp=%d micro_batch=%d: %s", name,
             (unsigned long long)tally->own, patterns ? " patterns" : "",
             (int)choice.size[PTC_AXIS_DP], (int)choice.size[PTC_AXIS_CP],
             (int)choice.size[PTC_AXIS_TP], (int)choice.micro_batch, what ? what : "");
    UNIT_CHECK(!what, row);
    tally->compared += fits;
    ptc_arena_deinit(&scratch);
  }
  if (form) ptc_form_end(form);
}

// Alone, and among others that differ in sizes, most of which lie as one of them does.
static void compare(const plan_model_t *m, const char *name, void *arg) {
  static const int8_t times[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2},
                                    {1, 1, 4}, {3, 1, 1}, {1, 3, 2}, {1, 1, 1}};
  tally_t *tally = arg;
  uint64_t *seed = &tally->seed;
  tally->own = *seed;
  ptc_choice_t choice = {.chunks = 1, .recompute_turns = -1};
  choice.size[PTC_AXIS_PP] = 1;
  choice.size[PTC_AXIS_DP] = pick(seed, 3);
  choice.size[PTC_AXIS_EP] = unit_random(seed) % 4 ? 1 : 2;
  choice.size[PTC_AXIS_CP] = pick(seed, 3);
  choice.size[PTC_AXIS_TP] = pick(seed, 4) * (unit_random(seed) % 5 ? 1 : 3);
  plan_random_names(m->work, seed, &choice);
  const ptc_save_profile_t profile =
      (ptc_save_profile_t)(unit_random(seed) % PTC_NUM_SAVE_PROFILES);
  ptc_arena_t arena = {0};
  compare_choice(m, name, choice, profile, &arena, NULL, tally);
  ptc_patterns_t *patterns = ptc_patterns_new(&arena);
  for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
    ptc_choice_t other = choice;
    other.size[PTC_AXIS_DP] *= times[i][0];
    other.size[PTC_AXIS_CP] *= times[i][1];
    other.size[PTC_AXIS_TP] *= times[i][2];
    compare_choice(m, name, other, profile, &arena, patterns, tally);
  }
  ptc_patterns_end(patterns);
  ptc_arena_deinit(&arena);
}

static void test_samples(void) {
  tally_t tally = {.seed = unit_seed()};
  plan_each_sample("48", 6, compare, &tally);
  printf("\n  %d layouts ", tally.compared);
  CU_ASSERT(tally.compared > 0);
}

static const unit_test_t tests[] = {{"samples", test_samples}};
UNIT_MAIN("form", tests)
