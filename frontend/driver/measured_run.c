#include "frontend/driver/measured_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct reader_s {
  const ptc_csv_table_t *table;
  int32_t row;
  ptc_arena_t *arena;
  ptc_measured_run_t *run;
} reader_t;

static const char *cell(const reader_t *r, const char *column) {
  return ptc_csv_table_cell(r->table, r->row, column);
}

static double number(const reader_t *r, const char *column, double otherwise) {
  double value;
  return ptc_csv_table_number(r->table, r->row, column, &value) ? value : otherwise;
}

static int64_t whole(const reader_t *r, const char *column, int64_t otherwise) {
  const double value = number(r, column, (double)otherwise);
  return value >= 0 && value < 1e15 ? (int64_t)value : otherwise;
}

// The form of vTrain's runs, of Megatron-DeepSpeed.
static bool is_short_form(const reader_t *r) {
  return !*r->run->source && ptc_csv_table_find(r->table, "step_time_ms") >= 0;
}

static void refuse(const reader_t *r, const char *reason) {
  if (!r->run->reason) r->run->reason = reason;
}

// --- which framework ran

// The first row whose words all stand in the source, or that has no words, and whose years hold the row's.
static const struct {
  const char *words[2];
  int32_t from, to;
  const char *stack;
} stacks[] = {
    {{"llm-foundry", NULL}, 0, 9999, "fsdp"},
    {{"torchtitan", NULL}, 0, 2024, "torchtitan"},
    {{"torchtitan", NULL}, 0, 9999, "torchtitan-2025"},
    {{"functional_tests", NULL}, 0, 9999, "megatron-deterministic"},
    {{"InternEvo", NULL}, 0, 9999, "internevo"},
    {{"NeMo-Megatron-Launcher", NULL}, 0, 9999, "nemo-megatron-2022"},
    {{"2205.05198", NULL}, 0, 9999, "megatron-2022"},
    {{"Korthikanti", NULL}, 0, 9999, "megatron-2022"},
    {{"tables.tex", NULL}, 0, 9999, "megatron-2020"},
    {{"bigscience", NULL}, 0, 9999, "megatron-deepspeed-2021"},
    {{"Megatron-LM", NULL}, 0, 2022, "megatron-2021"},
    {{"2104.04473", NULL}, 0, 9999, "megatron-2021"},
    {{"Megatron-Bridge", "[25.09"}, 0, 9999, "nemo"},
    {{"Megatron-Bridge", "[25.11"}, 0, 9999, "megatron-bridge"},
    {{"Megatron-Bridge", "[26.02"}, 0, 9999, "megatron-bridge"},
    {{"Megatron-Bridge", "[26.04"}, 0, 9999, "megatron-bridge"},
    {{"Megatron-Bridge", NULL}, 0, 9999, "megatron-bridge-26.06"},
    {{"MoE-ModelZoo", NULL}, 0, 9999, "megatron-moe"},
    {{"NeMo", NULL}, 0, 9999, "nemo"},
    {{"nemo", NULL}, 0, 9999, "nemo"},
    {{"dgxc", NULL}, 0, 9999, "nemo"},
    {{"Megatron", NULL}, 0, 9999, "nemo"},
    {{NULL, NULL}, 0, 2020, "megatron-2020"},
    {{NULL, NULL}, 0, 2022, "megatron-2021"},
    {{NULL, NULL}, 0, 9999, "nemo"},
};

static const ptc_stack_t *find_stack(const reader_t *r) {
  const int64_t year = whole(r, "year", 2021), zero = whole(r, "zero_or_fsdp_stage", 0);
  if (is_short_form(r)) return ptc_stack_find("megatron-deepspeed");
  // Parameters that no axis of the model shares, of those days: DeepSpeed.
  if (year <= 2022 && zero == 3 && whole(r, "tp", 1) == 1 && whole(r, "pp", 1) == 1 &&
      !strstr(r->run->source, "llm-foundry"))
    return ptc_stack_find("deepspeed-zero3");
  for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++) {
    bool all = year >= stacks[i].from && year <= stacks[i].to;
    for (int w = 0; w < 2 && all; w++)
      all = !stacks[i].words[w] || strstr(r->run->source, stacks[i].words[w]) != NULL;
    if (all) return ptc_stack_find(stacks[i].stack);
  }
  return NULL;
}

// --- the model

// Of every second layer, as "alternate sliding-window(128)/full attention" says; 0: none, or parts of the pipeline that do not
// hold pairs of layers.
static int64_t window(const reader_t *r, const char *notes) {
  const char *at = strstr(notes, "alternate sliding-window(");
  const int64_t parts = whole(r, "pp", 1) * (whole(r, "pp", 1) > 1 ? whole(r, "vp", 1) : 1);
  if (!at || parts < 1 || r->run->shape.layers % (2 * parts)) return 0;
  return strtol(at + strlen("alternate sliding-window("), NULL, 10);
}

static void read_shape(reader_t *r) {
  ptc_run_shape_t *m = &r->run->shape;
  const bool is_short = ptc_csv_table_find(r->table, "step_time_ms") >= 0;
  m->layers = whole(r, "layers", 0);
  m->d = whole(r, "hidden", 0);
  m->heads = whole(r, "heads", 0);
  m->seq = whole(r, "seq_len", 0);
  m->batch = whole(r, "global_batch_seqs", 0);
  if (!m->layers || !m->d || !m->heads || !m->seq || !m->batch) {
    refuse(r, "layers, hidden, heads, seq_len or global_batch_seqs is not given");
    return;
  }
  m->kv_heads = whole(r, "kv_heads", m->heads);
  m->head_dim = whole(r, "head_dim", m->d / m->heads);
  m->ffn = whole(r, "ffn_hidden", 4 * m->d);
  m->vocab = whole(r, "vocab", 51200);
  // Megatron pads it; whole, that of vTrain's runs (GPT-2's) takes as long as products with odd rows do.
  const int64_t tp = whole(r, "tp", 1), parts = 128 * tp;
  if (is_short) m->vocab = 50257;
  const bool pads = tp > 0 && r->run->stack && r->run->stack->saves == PTC_SAVE_MEGATRON;
  if (pads && (!is_short || tp > 1)) m->vocab = (m->vocab + parts - 1) / parts * parts;
  m->experts = whole(r, "n_experts", 0);
  m->topk = whole(r, "topk", 1);
  m->expert_ffn = whole(r, "moe_ffn_hidden", m->ffn);
  m->shared_experts = whole(r, "shared_experts", 0);
  const char *kind = cell(r, "ffn_type");
  m->ffn_kind = strcmp(kind, "swiglu") == 0 || strcmp(kind, "geglu") == 0 ? PTC_FFN_GATED
                : strcmp(kind, "squared-relu") == 0                       ? PTC_FFN_SQUARED_RELU
                                                                          : PTC_FFN_GELU;
  const char *notes = cell(r, "notes");
  m->tied = m->ffn_kind == PTC_FFN_GELU && !strstr(notes, "untied");
  // GPT-OSS: biases of experts, gate and value bounded (its public reference).
  m->clamps = m->experts > 1 && strncmp(r->run->model, "GPT-OSS", 7) == 0;
  m->window = window(r, notes);
  m->dropout = is_short || whole(r, "year", 2021) <= 2022 || strstr(notes, "dropout default");
  if (m->kv_heads == 0 || m->heads % m->kv_heads) refuse(r, "heads do not divide into kv_heads");
}

// --- the split

static ptc_recompute_mode_t recompute(reader_t *r) {
  const char *text = cell(r, "recompute");
  if (ptc_csv_table_find(r->table, "recompute") < 0) return PTC_RECOMPUTE_FULL;
  // A file of defaults at the time is a guess, too.
  r->run->recompute_unknown = strcmp(text, "unknown") == 0 || !*text ||
                              strstr(cell(r, "derived_fields"), "config from default");
  if (strcmp(text, "full") == 0) return PTC_RECOMPUTE_FULL;
  return strcmp(text, "selective") == 0 ? PTC_RECOMPUTE_SELECTIVE : PTC_RECOMPUTE_NONE;
}

static void cut_equally(reader_t *r) {
  ptc_choice_t *c = &r->run->choice;
  const int64_t parts = c->size[PTC_AXIS_PP] * c->chunks, layers = r->run->shape.layers;
  if (parts <= 1) return;
  if (parts > layers) {
    refuse(r, "more parts of the pipeline than layers");
    return;
  }
  int64_t *cuts = PTC_ARENA_ARRAY(r->arena, int64_t, parts);
  const int64_t of_turn = r->run->shape.window > 0 ? 2 : 1;
  for (int64_t p = 1; p < parts; p++) cuts[p - 1] = layers * p / parts / of_turn;
  c->cuts = cuts;
  c->num_cuts = (int32_t)parts - 1;
}

static void read_choice(reader_t *r) {
  ptc_measured_run_t *run = r->run;
  ptc_choice_t *c = &run->choice;
  run->devices = whole(r, "n_gpus", 0);
  int64_t dp = whole(r, "dp", 0), ep = whole(r, "ep", 1);
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) c->size[a] = 1;
  c->size[PTC_AXIS_PP] = whole(r, "pp", 1);
  c->size[PTC_AXIS_CP] = whole(r, "cp", 1);
  c->size[PTC_AXIS_TP] = whole(r, "tp", 1);
  const int64_t others = c->size[PTC_AXIS_PP] * c->size[PTC_AXIS_CP] * c->size[PTC_AXIS_TP];
  if (!run->devices || others < 1 || run->devices % others) {
    refuse(r, "n_gpus is no multiple of tp * pp * cp");
    return;
  }
  dp = run->devices / others;
  if (ep < 1) ep = 1;
  if (ep > dp) ep = dp;  // experts over ranks of tp, too: those are kept apart here
  if (dp % ep) {
    refuse(r, "ep does not divide dp");
    return;
  }
  c->size[PTC_AXIS_DP] = dp / ep;
  c->size[PTC_AXIS_EP] = ep;
  c->zero = whole(r, "zero_or_fsdp_stage", run->stack ? run->stack->zero : 0);
  c->micro_batch = whole(r, "micro_batch", 0);
  c->sequence_parallel = strcmp(cell(r, "sp"), "yes") == 0;
  c->chunks = whole(r, "vp", 1);
  if (c->chunks < 1 || c->size[PTC_AXIS_PP] == 1) c->chunks = 1;
  c->schedule = c->chunks > 1 ? PTC_SCHEDULE_INTERLEAVED : PTC_SCHEDULE_1F1B;
  c->recompute = recompute(r);
  c->recompute_turns = -1;
  if (run->shape.batch % dp) refuse(r, "the batch does not divide by dp");
  if (c->micro_batch > 0 && run->shape.batch % (dp * c->micro_batch)) {
    if (run->shape.batch / dp < c->micro_batch)
      c->micro_batch = run->shape.batch / dp;
    else
      refuse(r, "the batch does not divide by dp * micro_batch");
  }
  if (!run->reason) cut_equally(r);
}

// --- the machine

// Bytes/s per device and way, from words such as "4x100Gb", "8x200Gb/s per node", "1600 Gb/s per node",
// "400Gb/s per GPU", "8x50GB/s". 0: they say nothing of it.
static double read_nics(const char *text, int64_t per_node) {
  double best = 0;
  for (const char *at = text; *at; at++) {
    if (*at < '0' || *at > '9' || (at > text && at[-1] >= '0' && at[-1] <= '9')) continue;
    char *end;
    double value = strtod(at, &end), count = 0;
    if (*end == 'x') {
      count = value;
      value = strtod(end + 1, &end);
    }
    while (*end == ' ') end++;
    const bool bits = strncmp(end, "Gb", 2) == 0, bytes = strncmp(end, "GB", 2) == 0;
    if (!bits && !bytes) continue;
    const char *unit = end + 2;
    const bool in_node = strstr(unit, "per node") && !strstr(unit, "per GPU");
    double rate = value * 1e9 / (bits ? 8 : 1);
    if (count > 0)
      rate *= count / (double)per_node;
    else if (in_node)
      rate /= (double)per_node;
    else if (!bits)
      continue;  // a link inside the node
    if (rate > best) best = rate;
  }
  return best;
}

static void read_machine(reader_t *r) {
  ptc_measured_run_t *run = r->run;
  run->gpu = cell(r, "gpu");
  if (!*run->gpu) run->gpu = "A100-80G-SXM";
  run->devices_per_node = whole(r, "gpus_per_node", 8);
  if (run->devices_per_node < 1) run->devices_per_node = 8;
  run->nic_rate = read_nics(cell(r, "interconnect"), run->devices_per_node);
  // The short form is of nodes with four HDR adapters (vTrain, arXiv:2312.12391, section IV).
  if (run->nic_rate == 0 && is_short_form(r)) run->nic_rate = 12.5e9;
  run->precision = cell(r, "precision");
  if (!*run->precision) run->precision = "fp16";
}

static void read_measures(reader_t *r) {
  ptc_measured_run_t *run = r->run;
  run->step_s = number(r, "step_time_s", 0);
  if (run->step_s <= 0) run->step_s = number(r, "derived_step_time_s", 0);
  if (run->step_s <= 0) run->step_s = number(r, "step_time_ms", 0) / 1e3;
  const double per_device = number(r, "tokens_per_s_per_gpu", 0);
  if (run->step_s <= 0 && per_device > 0 && run->devices > 0)
    run->step_s = (double)(run->shape.batch * run->shape.seq) / (per_device * (double)run->devices);
  run->memory_bytes = number(r, "peak_mem_gib", 0) * 1024 * 1024 * 1024;
  const char *metric = cell(r, "mem_metric");
  run->memory_kind = strstr(metric, "allocated")  ? PTC_MEMORY_ALLOCATED
                     : strstr(metric, "reserved") ? PTC_MEMORY_RESERVED
                                                  : PTC_MEMORY_USED;
  run->memory_of_last = strstr(metric, "last rank") != NULL;
  if (run->step_s <= 0 && run->memory_bytes <= 0) refuse(r, "neither a time nor a memory is given");
}

static const char *group_of(reader_t *r) {
  const char *group = cell(r, "group");
  if (*group) return group;
  char text[256];
  snprintf(text, sizeof(text), "%s|%s|%s layers|%s GPUs|batch %s", cell(r, "setup"),
           cell(r, "hidden"), cell(r, "layers"), cell(r, "n_gpus"), cell(r, "global_batch_seqs"));
  return ptc_arena_strndup(r->arena, text, strlen(text));
}

ptc_status_t ptc_measured_runs_read(ptc_diag_t *diag, ptc_arena_t *arena,
                                    const ptc_csv_table_t *table, const ptc_stack_t *stack,
                                    ptc_measured_run_t **out_runs, int32_t *out_count) {
  static const char *const needed[] = {
      "id",          "n_gpus", "layers", "hidden", "heads", "seq_len", "global_batch_seqs",
      "micro_batch", "tp",     "pp"};
  for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
    if (ptc_csv_table_find(table, needed[i]) < 0)
      return ptc_error(
          diag, (ptc_loc_t){table->path, 1, 0}, PTC_INVALID_INPUT, "column",
          "there is no column \"%s\"; a row of measured runs has at least id, n_gpus, layers, "
          "hidden, "
          "heads, seq_len, global_batch_seqs, micro_batch, tp, pp and step_time_s or step_time_ms",
          needed[i]);
  *out_count = table->num_rows;
  *out_runs = PTC_ARENA_ARRAY(arena, ptc_measured_run_t, table->num_rows + 1);
  for (int32_t i = 0; i < table->num_rows; i++) {
    ptc_measured_run_t *run = &(*out_runs)[i];
    reader_t r = {table, i, arena, run};
    run->id = cell(&r, "id");
    run->source = cell(&r, "source");
    run->quality = cell(&r, "quality");
    run->model = cell(&r, "model_name");
    run->line = table->lines[i];
    run->group = group_of(&r);
    run->stack = stack ? stack : find_stack(&r);
    read_shape(&r);
    if (!run->reason) read_choice(&r);
    read_machine(&r);
    if (!run->reason) read_measures(&r);
  }
  return PTC_OK;
}
