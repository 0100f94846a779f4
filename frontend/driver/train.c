#include "frontend/driver/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/token_data.h"
#include "ir/base/clock.h"

enum { MAX_VAL_BATCHES = 32 };

typedef struct train_s {
  ptc_module_t *module;
  const ptc_run_options_t *run;
  const ptc_train_options_t *options;
  ptc_interp_t *interp;
  ptc_token_data_t data, val;
  uint64_t seed;
} train_t;

static ptc_status_t fail(const train_t *t, const char *id, const char *what) {
  return ptc_error(t->module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, id, "%s", what);
}

// Result of |func| named |name|, or of that role if |name| is NULL; -1 if there is none.
static int32_t find_result(const ptc_func_t *func, const char *role, const char *name) {
  for (int32_t i = 0; i < func->num_results; i++) {
    const ptc_result_t *result = &func->results[i];
    if (result->kind == PTC_RESULT_VALUE && strcmp(result->role, role) == 0 &&
        (!name || strcmp(result->name, name) == 0))
      return i;
  }
  return -1;
}

// The sum of all losses of the last run of |func|.
static double loss_of(const train_t *t, const ptc_func_t *func) {
  double loss = 0;
  for (int32_t i = 0; i < func->num_results; i++)
    if (func->results[i].kind == PTC_RESULT_VALUE && strcmp(func->results[i].role, "loss") == 0)
      loss += ptc_interp_result(t->interp, i)->data[0];
  return loss;
}

// --- training

// Tokens of a step: the elements of the largest input that is read from a source.
static int64_t tokens_per_step(const ptc_module_t *module) {
  int64_t most = 0;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *input = module->globals[g];
    if (input->kind != PTC_GLOBAL_INPUT || !ptc_attrs_find(&input->attrs, "source")) continue;
    int64_t count = ptc_type_num_elements(input->type);
    if (count > most) most = count;
  }
  return most;
}

static ptc_status_t train(train_t *t) {
  const ptc_func_t *func = ptc_module_find_func(t->module, "train");
  if (!func) return fail(t, "unknown-function", "the module has no function \"train\"");
  const bool terminal = isatty(STDERR_FILENO);
  const int64_t tokens = tokens_per_step(t->module), steps = t->options->steps;
  const double interval = terminal ? 0.1 : 2, begin = ptc_now_s();
  double shown_at = begin;
  int64_t shown_steps = 0, samples;
  for (int64_t step = 0; step < steps; step++) {
    PTC_TRY(ptc_token_data_fill(&t->data, t->interp, t->module, t->seed, step, &samples));
    PTC_TRY(ptc_interp_run(t->interp, "train"));
    const double loss = loss_of(t, func), at = ptc_now_s();
    const bool last = step + 1 == steps, bad = !isfinite(loss);
    if (!t->options->quiet && (step == 0 || last || bad || at - shown_at >= interval)) {
      double rate = (double)((step + 1 - shown_steps) * tokens) / fmax(at - shown_at, 1e-9);
      fprintf(stderr, "%sstep %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s%s",
              terminal ? "\r\033[K" : "", step + 1, steps, loss, rate,
              terminal && !last && !bad ? "" : "\n");
      shown_at = at;
      shown_steps = step + 1;
    }
    if (bad)
      return ptc_error(t->module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "non-finite-loss",
                       "the loss of step %" PRId64 " is not finite; a lower learning rate may help",
                       step + 1);
  }
  return PTC_OK;
}

static ptc_status_t evaluate(train_t *t) {
  const ptc_func_t *func = ptc_module_find_func(t->module, "eval");
  if (!func) return fail(t, "unknown-function", "the module has no function \"eval\"");
  int64_t batches = ptc_data_num_batches(t->val.data);
  if (batches < 1) batches = 1;
  if (batches > MAX_VAL_BATCHES) batches = MAX_VAL_BATCHES;
  double sum = 0;
  int64_t total = 0;
  for (int64_t i = 0; i < batches; i++) {
    int64_t samples;
    PTC_TRY(ptc_token_data_fill(&t->val, t->interp, t->module, t->seed, i, &samples));
    PTC_TRY(ptc_interp_run(t->interp, "eval"));
    sum += loss_of(t, func) * (double)samples;  // a short batch counts for what it has
    total += samples;
  }
  if (t->run->print_to)
    fprintf(t->run->print_to, "held-out loss %.6f over %" PRId64 " batches\n",
            total ? sum / (double)total : NAN, batches);
  return PTC_OK;
}

// --- sampling: one full forward per byte, the logits of the window's last place

typedef struct sampler_s {
  const ptc_global_t *input;          // of smallest offset; its first row is the window
  int64_t length;                     // of the window
  int32_t logits;                     // which result of @eval
  int64_t stride_s, stride_v, vocab;  // of the logits
} sampler_t;

static ptc_status_t open_sampler(train_t *t, sampler_t *s) {
  const ptc_func_t *func = ptc_module_find_func(t->module, "eval");
  s->logits = func ? find_result(func, "output", "logits") : -1;
  if (s->logits < 0) return fail(t, "cannot-sample", "to sample, the model needs `output logits`");
  const ptc_global_t *input = NULL;
  for (int64_t g = 0; g < t->module->num_globals; g++) {
    const ptc_global_t *global = t->module->globals[g];
    if (global->kind != PTC_GLOBAL_INPUT || !ptc_attrs_find(&global->attrs, "source")) continue;
    if (!input ||
        ptc_attrs_int(&global->attrs, "offset", 0) < ptc_attrs_int(&input->attrs, "offset", 0))
      input = global;
  }
  const ptc_type_t *type = ptc_func_return(func)->operands[s->logits]->type;
  int32_t batch_at = -1, seq_at = -1, vocab_at = -1;
  for (int32_t d = 0; input && type->num_dims == 3 && d < 3; d++) {
    if (type->dims[d].name == input->type->dims[0].name)
      batch_at = d;
    else if (type->dims[d].name == input->type->dims[1].name)
      seq_at = d;
    else
      vocab_at = d;
  }
  if (!input || input->type->num_dims != 2 || batch_at < 0 || seq_at < 0 || vocab_at < 0)
    return fail(t, "cannot-sample",
                "to sample, the logits must have the input's two dims and the "
                "vocabulary's");
  int64_t strides[3] = {0, 0, 1};
  strides[1] = type->dims[2].extent;
  strides[0] = strides[1] * type->dims[1].extent;
  s->input = input;
  s->length = input->type->dims[1].extent;
  s->stride_s = strides[seq_at];
  s->stride_v = strides[vocab_at];
  s->vocab = type->dims[vocab_at].extent < 256 ? type->dims[vocab_at].extent : 256;
  return PTC_OK;
}

// Draws an index by softmax(logits / temperature), |u| in [0, 1).
static int64_t draw(const double *logits, int64_t stride, int64_t count, double temperature,
                    double u) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; i++)
    if (logits[i * stride] > logits[best * stride]) best = i;
  if (temperature <= 0) return best;
  const double top = logits[best * stride];
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += exp((logits[i * stride] - top) / temperature);
  double left = u * sum;
  for (int64_t i = 0; i < count; i++) {
    left -= exp((logits[i * stride] - top) / temperature);
    if (left < 0) return i;
  }
  return best;
}

static ptc_status_t sample(train_t *t) {
  sampler_t s;
  PTC_TRY(open_sampler(t, &s));
  ptc_str_t text = {0};
  ptc_str_append(&text, t->options->prompt && t->options->prompt[0] ? t->options->prompt : "\n");
  const uint32_t hash = ptc_path_hash("sample", NULL, 0);
  ptc_status_t status = PTC_OK;
  for (int64_t i = 0; i < t->options->sample && status == PTC_OK; i++) {
    const int64_t used = (int64_t)text.len < s.length ? (int64_t)text.len : s.length;
    const char *from = text.data + text.len - used;
    ptc_tensor_t *tokens;
    const ptc_tensor_t *logits;
    status = ptc_interp_whole(t->interp, s.input, &tokens);
    if (status != PTC_OK) break;
    for (int64_t j = 0; j < s.length; j++) tokens->data[j] = j < used ? (unsigned char)from[j] : 0;
    ptc_interp_spread(t->interp, s.input);
    status = ptc_interp_run(t->interp, "eval");
    if (status == PTC_OK) status = ptc_interp_whole_result(t->interp, s.logits, &logits);
    if (status != PTC_OK) break;
    const double *row = logits->data + (used - 1) * s.stride_s;
    double u = (ptc_philox(t->seed, (uint64_t)i, 0, hash) >> 8) * 0x1p-24;
    char byte = (char)draw(row, s.stride_v, s.vocab, t->options->temperature, u);
    ptc_str_append_n(&text, &byte, 1);
  }
  if (status == PTC_OK && t->run->print_to) {
    fprintf(t->run->print_to, "sample\n");
    for (size_t i = 0; i < text.len; i++) {  // an untrained model draws any byte
      unsigned char byte = (unsigned char)text.data[i];
      fputc((byte >= 0x20 && byte < 0x7f) || byte == '\n' || byte == '\t' ? byte : '?',
            t->run->print_to);
    }
    fputc('\n', t->run->print_to);
  }
  ptc_str_deinit(&text);
  return status;
}

// --- all together

static ptc_status_t run_all(train_t *t) {
  const ptc_train_options_t *options = t->options;
  PTC_TRY(ptc_token_data_open(t->module, "--data", options->data, options->num_data,
                              PTC_DATA_SHUFFLED, &t->data));
  if (options->num_val)
    PTC_TRY(ptc_token_data_open(t->module, "--val", options->val, options->num_val,
                                PTC_DATA_IN_ORDER, &t->val));
  sampler_t sampler;
  if (options->sample) PTC_TRY(open_sampler(t, &sampler));  // before the work, not after it
  if (t->run->init && ptc_module_find_func(t->module, "init"))
    PTC_TRY(ptc_interp_run(t->interp, "init"));
  ptc_func_t *func = ptc_module_find_func(t->module, "train");
  if (func) PTC_TRY(ptc_run_load(t->interp, t->module, func, t->run));
  const ptc_global_t *seed = ptc_module_find_global(t->module, "seed");
  if (seed) t->seed = (uint64_t)ptc_interp_global(t->interp, seed)->data[0];
  PTC_TRY(train(t));
  if (t->run->print_to) ptc_run_print_scalars(t->interp, func, t->run->print_to);
  if (t->run->dump_path) PTC_TRY(ptc_run_dump(t->interp, func, t->run->mode, t->run->dump_path));
  if (options->num_val) PTC_TRY(evaluate(t));
  return options->sample ? sample(t) : PTC_OK;
}

ptc_status_t ptc_train_module(ptc_module_t *module, const ptc_run_options_t *run,
                              const ptc_train_options_t *options) {
  train_t t = {.module = module, .run = run, .options = options};
  t.interp = ptc_interp_create(module, run->mode);
  ptc_status_t status = run_all(&t);
  ptc_interp_destroy(t.interp);
  ptc_token_data_close(&t.data);
  ptc_token_data_close(&t.val);
  return status;
}
