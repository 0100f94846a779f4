// Predicted memory beside the arenas of the plans: room_bench MODEL LAYERS BATCH PRECISION PARALLEL [--set NAME=VALUE]...
// prints one row; with --peak also what lives at the arena's peak. LAYERS, BATCH, PRECISION may be "-": the model's.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/plan_life.h"
#include "tests/support/room_case.h"

static const char *given(const char *text) { return strcmp(text, "-") == 0 ? NULL : text; }

static int by_bytes(const void *a, const void *b) {
  const ptc_life_t *x = *(const ptc_life_t *const *)a, *y = *(const ptc_life_t *const *)b;
  return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : x < y ? -1 : x > y;
}

static void print_peak(const ptc_plan_t *plan, int64_t bytes[PTC_NUM_BUFFER_CLASSES],
                       bool details) {
  ptc_plan_life_t life;
  ptc_plan_life_init(plan, ptc_plan_find_task(plan, "train"), &life);
  room_values(plan, &life.peak_moment);
  ptc_plan_life_classes(plan, &life, life.peak_moment, bytes);
  if (details) {
    const ptc_step_t *step = life.steps[life.peak_moment];
    printf("  peak: step %" PRId64 " of %" PRId64 ", %s\n", life.peak_moment, life.num_moments,
           step->kind == PTC_STEP_LAUNCH ? plan->kernels[step->kernel].about : "no kernel");
    const ptc_life_t **lives = ptc_xmalloc(sizeof *lives * (size_t)(life.num_lives + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < life.num_lives; i++) {
      const ptc_life_t *l = &life.lives[i];
      if (l->first <= life.peak_moment && l->last >= life.peak_moment) lives[count++] = l;
    }
    qsort(lives, (size_t)count, sizeof *lives, by_bytes);
    for (int64_t i = 0; i < count; i++) {
      const ptc_buffer_t *b = &plan->buffers[lives[i]->buffer];
      printf("  %9" PRId64 " %-9s %s", lives[i]->bytes, ptc_buffer_class_name(b->cls), b->name);
      for (int32_t d = 0; d < b->num_dims; d++)
        printf("%s%s=%" PRId64, d ? "," : "[", b->dim_names[d], b->extents[d]);
      printf("%s #%" PRId64 " %s:%d  [%" PRId64 ",%" PRId64 "]\n", b->num_dims ? "]" : "",
             lives[i]->instance, b->loc_file ? b->loc_file : "", (int)b->loc_line, lives[i]->first,
             lives[i]->last);
    }
    free(lives);
  }
  ptc_plan_life_deinit(&life);
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr,
            "usage: room_bench MODEL LAYERS BATCH PRECISION PARALLEL [--peak] [NAME=VALUE]...\n");
    return 2;
  }
  const room_case_t c = {.model = small_model_find(argv[1]),
                         .layers = given(argv[2]),
                         .batch = given(argv[3]),
                         .precision = given(argv[4]),
                         .parallel = argv[5]};
  if (!c.model) {
    fprintf(stderr, "room_bench: no model \"%s\"\n", argv[1]);
    return 2;
  }
  ptc_override_t more[SMALL_MODEL_SETTINGS];
  int num_more = 0;
  bool details = false;
  for (int i = 6; i < argc; i++) {
    char *equals = strchr(argv[i], '=');
    if (strcmp(argv[i], "--peak") == 0) details = true;
    if (!equals || num_more == SMALL_MODEL_SETTINGS) continue;
    *equals = '\0';
    more[num_more++] = (ptc_override_t){argv[i], equals + 1};
  }
  room_result_t r;
  const bool made = room_case_make(&c, more, num_more, &r);
  if (!made) {
    printf("%-12s %-4s %-64s -  %s\n", argv[1], argv[4], argv[5],
           r.diag.num_items ? r.diag.items[0].message : "");
    room_result_end(&r);
    return 0;
  }
  const ptc_prediction_t *p = room_predicted(&r);
  const int32_t stage = room_largest(&r);
  const ptc_plan_t *plan = r.emitted[stage].plan;
  int64_t bytes[PTC_NUM_BUFFER_CLASSES];
  const double all = p->allocated_bytes, arena = (double)plan->arena_bytes;
  const double values = (double)room_values(plan, NULL);
  printf("%-12s %-4s %-64s %10.0f %10.0f %+7.2f %% %10.0f %+7.2f %% ", argv[1], argv[4], argv[5],
         all, arena, 100 * (all / arena - 1), values, 100 * (all / values - 1));
  print_peak(plan, bytes, false);
  const int64_t globals = bytes[PTC_BUFFER_INPUT] + bytes[PTC_BUFFER_PARAM] +
                          bytes[PTC_BUFFER_MOMENT] + bytes[PTC_BUFFER_SCALAR];
  printf(
      "stage %d/%d  predicted: params %.0f states %.0f grads %.0f saved %.0f temp %.0f  plan: "
      "globals %" PRId64 " grads %" PRId64 " saved %" PRId64 " temp %" PRId64 " bound %" PRId64
      "\n",
      p->worst_stage, (int)stage, p->params_bytes, p->states_bytes, p->grads_bytes, p->saved_bytes,
      p->temp_bytes, globals, bytes[PTC_BUFFER_GRAD], bytes[PTC_BUFFER_SAVED],
      bytes[PTC_BUFFER_TEMP] + bytes[PTC_BUFFER_RESULT] + bytes[PTC_BUFFER_WORKSPACE],
      plan->bound_bytes);
  if (details) print_peak(plan, bytes, true);
  room_result_end(&r);
  return 0;
}
