#include "frontend/driver/run_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/driver/evaluate.h"
#include "frontend/driver/profile_report.h"
#include "frontend/driver/progress.h"
#include "frontend/driver/run_state.h"
#include "ir/base/clock.h"
#include "runtime/agree.h"
#include "runtime/cpu/memory_map.h"
#include "runtime/metrics.h"

typedef struct run_s {
  ptc_session_t *session;
  const ptc_run_plan_options_t *options;
  ptc_data_t *data, *val;
  ptc_metrics_writer_t metrics;
  ptc_progress_t progress;
  int64_t step, num_steps;  // done; in all
  int64_t saved_step;       // of the last checkpoint, -1: none
  int64_t num_measured;     // steps of the profile
  double measured_s;
  bool has_loss;  // a step was made
  bool quiet;     // or another rank speaks
  double loss, begin;
} run_t;

static ptc_status_t fail(run_t *run, ptc_status_t status, const char *id, const char *what) {
  return ptc_error(run->session->diag, (ptc_loc_t){.file = run->session->path}, status, id, "%s",
                   what);
}

// --- before the first step

static ptc_status_t apply_settings(run_t *run) {
  for (int32_t i = 0; i < run->options->num_sets; i++)
    PTC_TRY(ptc_session_set(run->session, run->options->sets[i].name, run->options->sets[i].text));
  if (run->options->seed < 0) return PTC_OK;
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, run->options->seed);
  return ptc_session_set(run->session, "train.seed", text);
}

static ptc_status_t open_data(run_t *run) {
  ptc_session_t *session = run->session;
  const ptc_run_plan_options_t *options = run->options;
  PTC_TRY(ptc_session_open_data(session, "--data", options->data, options->num_data,
                                PTC_DATA_SHUFFLED, &run->data));
  if (options->num_val == 0) return PTC_OK;
  if (!session->eval)
    return fail(run, PTC_INVALID_INPUT, "no-task", "the plan has no task \"eval\" for --val");
  return ptc_session_open_data(session, "--val", options->val, options->num_val, PTC_DATA_IN_ORDER,
                               &run->val);
}

// On rank 0, before the others look.
static ptc_status_t open_run_dir(run_t *run) {
  const char *path = run->options->run_dir;
  if (mkdir(path, 0777) != 0 && errno != EEXIST)
    return ptc_error(run->session->diag, (ptc_loc_t){.file = path}, PTC_IO, "run-folder",
                     "cannot make the run's folder: %s", strerror(errno));
  if (run->options->restart) PTC_TRY(ptc_run_state_remove(run->session->diag, path));
  if (!run->options->resume && ptc_run_state_exists(path))
    return ptc_error(run->session->diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "run-exists",
                     "checkpoints of a run lie here: --resume goes on with it, --restart removes "
                     "them, --run-dir names another folder");
  return PTC_OK;
}

// The state of the first step: of a checkpoint, or from the task init and perhaps a file.
static ptc_status_t make_state(run_t *run) {
  ptc_session_t *session = run->session;
  const ptc_run_plan_options_t *options = run->options;
  if (options->resume && ptc_run_state_exists(options->run_dir)) {
    PTC_TRY(ptc_run_state_load(session, options->run_dir, options->fall_back, &run->step));
    run->saved_step = run->step;
    return apply_settings(run);  // the command line has the last word
  }
  if (session->init) PTC_TRY(ptc_executor_run(session->diag, session->executor, session->init));
  return options->init ? ptc_run_state_init(session, options->init, options->map) : PTC_OK;
}

// --- steps

enum { MAX_NUMBERS = 128 };
typedef struct numbers_s {
  ptc_metrics_number_t items[MAX_NUMBERS];
  int32_t count;
} numbers_t;

static void add_number(numbers_t *losses, numbers_t *metrics, const ptc_plan_result_t *result,
                       double value) {
  numbers_t *list = strcmp(result->role, "loss") == 0     ? losses
                    : strcmp(result->role, "metric") == 0 ? metrics
                                                          : NULL;
  if (list && list->count < MAX_NUMBERS)
    list->items[list->count++] = (ptc_metrics_number_t){result->name, value};
}

static ptc_status_t save(run_t *run) {
  if (run->saved_step == run->step) return PTC_OK;
  if (ptc_session_is_root(run->session))
    PTC_TRY(ptc_metrics_sync(run->session->diag, &run->metrics));
  PTC_TRY(ptc_run_state_save(run->session, run->options->run_dir, run->step));
  run->saved_step = run->step;
  return PTC_OK;
}

static ptc_status_t validate(run_t *run) {
  ptc_evaluation_t e;
  PTC_TRY(ptc_evaluate(run->session, run->val, 0, &e));
  if (e.interrupted || !ptc_session_is_root(run->session)) return PTC_OK;
  numbers_t losses = {0}, metrics = {0};
  for (int32_t i = 0; i < e.num_values; i++)
    add_number(&losses, &metrics, e.results[i], e.values[i]);
  const ptc_metrics_record_t record = {.kind = "eval",
                                       .step = run->step,
                                       .loss = e.loss,
                                       .losses = losses.items,
                                       .num_losses = losses.count,
                                       .metrics = metrics.items,
                                       .num_metrics = metrics.count,
                                       .lr = -1};
  PTC_TRY(ptc_metrics_write(run->session->diag, &run->metrics, &record));
  if (run->quiet) return PTC_OK;
  ptc_progress_break(&run->progress);
  fprintf(stderr, "step %" PRId64 "  val loss %.4f (%" PRId64 " batches)\n", run->step, e.loss,
          e.num_batches);
  return PTC_OK;
}

// One line of metrics for the step that is done.
static ptc_status_t record_step(run_t *run, double seconds) {
  const ptc_session_t *session = run->session;
  numbers_t losses = {0}, metrics = {0};
  double lr = -1;
  for (int32_t i = 0; i < session->train->num_results; i++) {
    const ptc_plan_result_t *result = &session->train->results[i];
    if (session->plan->buffers[result->buffer].num_dims) continue;
    const double value = ptc_executor_result_number(session->executor, result);
    add_number(&losses, &metrics, result, value);
    if (strcmp(result->role, "metric") == 0 && strcmp(result->name, "lr") == 0) lr = value;
  }
  const ptc_metrics_record_t record = {
      .kind = "train",
      .step = run->step,
      .loss = run->loss,
      .losses = losses.items,
      .num_losses = losses.count,
      .metrics = metrics.items,
      .num_metrics = metrics.count,
      .lr = lr,
      .tokens_per_s = (double)run->progress.tokens_per_step / fmax(seconds, 1e-9),
      .seconds = ptc_now_s() - run->begin,
      .peak_bytes = ptc_memory_peak()};
  return ptc_metrics_write(session->diag, &run->metrics, &record);
}

static ptc_status_t one_step(run_t *run) {
  ptc_session_t *session = run->session;
  const double begin = ptc_now_s();
  int64_t samples;
  PTC_TRY(ptc_session_fill(session, run->data, run->step, &samples));
  const double filled = ptc_now_s();
  ptc_status_t status = ptc_executor_run(session->diag, session->executor, session->train);
  if (status != PTC_OK) {
    ptc_note(session->diag, (ptc_loc_t){0}, "in step %" PRId64, run->step + 1);
    return status;
  }
  run->loss = ptc_session_loss(session, session->train);
  run->measured_s += ptc_now_s() - filled;
  run->num_measured++;
  if (run->options->profile && !run->has_loss && run->step + 1 < run->num_steps) {
    // In the first step the system still hands out the memory: it is not counted where others follow.
    ptc_executor_set_profile(session->executor, true);
    run->num_measured = 0;
    run->measured_s = 0;
  }
  run->has_loss = true;
  if (run->step == 0 && run->options->dump_grads)
    PTC_TRY(ptc_run_state_dump_grads(session, run->options->dump_grads));
  run->step++;
  const bool bad = !isfinite(run->loss);
  ptc_progress_step(&run->progress, run->step, run->loss, bad && !run->options->keep_going);
  if (ptc_session_is_root(session)) PTC_TRY(record_step(run, ptc_now_s() - begin));
  if (!bad || run->options->keep_going) return PTC_OK;
  return ptc_error(session->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "non-finite-loss",
                   "the loss of step %" PRId64
                   " is %g; a lower train.lr, a warmup or clip may "
                   "help; --keep-going goes on",
                   run->step, run->loss);
}

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static ptc_status_t all_steps(run_t *run) {
  const ptc_run_plan_options_t *options = run->options;
  int64_t validated = -1;
  bool interrupted;
  PTC_TRY(ptc_session_interrupted(run->session, &interrupted));
  while (run->step < run->num_steps && !interrupted) {
    PTC_TRY(one_step(run));
    if (run->val && is_due(run->step, options->eval_every)) {
      PTC_TRY(validate(run));
      validated = run->step;
    }
    if (is_due(run->step, options->save_every)) PTC_TRY(save(run));
    PTC_TRY(ptc_session_interrupted(run->session, &interrupted));
  }
  if (interrupted && run->step < run->num_steps) {
    ptc_progress_step(&run->progress, run->step, run->loss, true);
    PTC_TRY(save(run));
    if (!run->quiet)
      fprintf(stderr, "stopped after step %" PRId64 "; --resume goes on\n", run->step);
    return PTC_OK;
  }
  if (run->val && validated != run->step) PTC_TRY(validate(run));
  return save(run);
}

// --- all together

static ptc_status_t report_profile(run_t *run) {
  const ptc_session_t *session = run->session;
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/profile.json", run->options->run_dir);
  ptc_profile_print(session->plan, session->executor, run->num_measured, run->measured_s, stderr);
  ptc_status_t status = ptc_profile_write(session->diag, session->plan, session->executor,
                                          run->num_measured, run->measured_s, path.data);
  ptc_str_deinit(&path);
  return status;
}

static ptc_status_t open_metrics(run_t *run) {
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/metrics.jsonl", run->options->run_dir);
  ptc_status_t status = ptc_metrics_open(run->session->diag, path.data, run->step, &run->metrics);
  ptc_str_deinit(&path);
  return status;
}

// A stage may hold no parameter of its own.
static bool keeps_grads(const ptc_session_t *session) {
  const ptc_plan_folder_t *folder = &session->program->folder;
  for (int32_t s = 0; s < folder->num_stages; s++) {
    const ptc_task_t *task = ptc_plan_find_task(folder->plans[s], session->train->name);
    if (task && ptc_session_result(task, "grad", NULL)) return true;
  }
  return false;
}

// Whether the device launches steps as one, and if not, why.
static ptc_status_t report_graph(const run_t *run) {
  const ptc_session_t *session = run->session;
  int64_t count;
  const char *refusal = ptc_executor_replay_refusal(session->executor, session->train, &count);
  if (refusal && run->options->needs_graph)
    return ptc_error(session->diag, (ptc_loc_t){.file = session->path}, PTC_UNSUPPORTED, "no-graph",
                     "--graph=on: the step cannot be launched as one graph: %s", refusal);
  if (run->quiet || run->options->no_graph || !ptc_plan_target_is_cuda(session->plan->target))
    return PTC_OK;
  if (refusal)
    fprintf(stderr, "no CUDA graph: %s\n", refusal);
  else
    fprintf(stderr,
            "CUDA graph: from its second run on, the step is one launch instead of %" PRId64 "\n",
            count);
  return PTC_OK;
}

static ptc_status_t train(run_t *run) {
  ptc_session_t *session = run->session;
  const ptc_run_plan_options_t *options = run->options;
  const bool root = ptc_session_is_root(session);
  if (!session->train)
    return fail(run, PTC_INVALID_INPUT, "no-task", "the plan has no task \"train\"");
  if (options->dump_grads && !keeps_grads(session))
    return fail(run, PTC_INVALID_INPUT, "no-grads",
                "the plan keeps no gradients: compile it with --keep-grads");
  PTC_TRY(apply_settings(run));
  PTC_TRY(open_data(run));
  PTC_TRY(ptc_agree_status(session->comm, session->diag, root ? open_run_dir(run) : PTC_OK));
  ptc_progress_memory(run->quiet, session->plan->arena_bytes * ptc_plan_world(session->plan));
  ptc_executor_populate(session->executor);
  PTC_TRY(make_state(run));
  run->num_steps =
      options->steps ? options->steps : (int64_t)ptc_session_setting(session, "steps", 1000);
  if (root) PTC_TRY(open_metrics(run));
  ptc_progress_init(&run->progress, run->quiet, run->step, run->num_steps,
                    ptc_session_tokens(session));
  if (options->profile) ptc_executor_set_profile(session->executor, true);
  PTC_TRY(report_graph(run));
  ptc_status_t status = all_steps(run);
  ptc_progress_break(&run->progress);
  if (!root) return status;
  if (status == PTC_OK && options->profile && run->num_measured) status = report_profile(run);
  if (status == PTC_OK && run->has_loss) printf("loss %.9g\n", run->loss);
  return status;
}

ptc_status_t ptc_run_plan(ptc_session_t *session, const ptc_run_plan_options_t *options) {
  run_t run = {.session = session,
               .options = options,
               .quiet = options->quiet || !ptc_session_is_root(session),
               .saved_step = -1,
               .metrics.fd = -1,
               .begin = ptc_now_s()};
  ptc_status_t status = train(&run);
  ptc_metrics_close(&run.metrics);
  ptc_data_close(run.data);
  ptc_data_close(run.val);
  return status;
}
