// The pieces of a choice for every micro-batch, of one layout.
//
// Where values lie does not depend on how many samples a micro-batch has, and then every number of a piece is a constant
// and a part that grows with them, but for what lives at most: that is the largest of such sums. Two micro-batches give
// both.
#include <string.h>

#include "passes/planner/layout_impl.h"

typedef struct line_s {
  double first, second;  // bytes at the two micro-batches
} line_t;

typedef struct lines_s {
  line_t *items;
  int32_t count;
} lines_t;

// Of a kernel, what a micro-batch has a part in; and of one that is not bound by memory.
typedef struct sums_s {
  double bytes, costly, unfused;
} sums_t;

typedef struct product_s {
  int64_t batch, m, n, k, heads, kv_heads, rows, cols, qk_dim, v_dim;
  double flops;
} product_t;

// At one of the two micro-batches.
typedef struct numbers_s {
  sums_t *sums;         // per kernel
  product_t *products;  // of those that are not bound by memory
  double *net_bytes;    // per collective
} numbers_t;

struct ptc_form_s {
  const ptc_work_t *work;
  ptc_save_profile_t profile;
  ptc_choice_t choice;
  int64_t replicas;  // of samples
  bool any_dp;
  int64_t first, second;  // micro-batches; second 0: each one needs a layout of its own
  ptc_work_pieces_t at_first, at_second;
  lines_t *peaks[PTC_NUM_PEAKS];  // per piece
  ptc_work_pieces_t out;
  // In the order of pieces and phases. Forms of the same patterns have the same kernels in common, where each one
  // writes its numbers.
  ptc_kernel_work_t *kernels;
  ptc_net_item_t *nets;
  int32_t num_kernels, num_nets;
  numbers_t numbers[2];
  ptc_arena_t own;  // of the latest layout of its own
};

// --- making it

// What stays the largest for some micro-batch from the first to |most|.
static void add_line(lines_t *lines, line_t line, double steps) {
  const double end = line.first + (line.second - line.first) * steps;
  int32_t left = 0;
  for (int32_t i = 0; i < lines->count; i++) {
    const line_t *other = &lines->items[i];
    const double there = other->first + (other->second - other->first) * steps;
    if (other->first >= line.first && there >= end) return;
  }
  for (int32_t i = 0; i < lines->count; i++) {
    const line_t other = lines->items[i];
    const double there = other.first + (other.second - other.first) * steps;
    if (line.first < other.first || end < there) lines->items[left++] = other;
  }
  lines->items[left] = line;
  lines->count = left + 1;
}

static bool grows(const ptc_wvalue_t *value, const ptc_laid_t *axes) {
  uint16_t set = 0;
  for (int32_t d = 0; d < value->num_dims; d++) set |= ptc_laid_set(axes[d]);
  return set >> PTC_REF_MICRO & 1;
}

// Bytes that are known grow evenly.
static void grow_bytes(ptc_layout_t *l, double factor) {
  for (int32_t v = 0; v < l->p->num_values; v++) {
    const ptc_wvalue_t *value = &l->p->values[v];
    const ptc_laid_t *own = l->axes + value->dims;
    const ptc_laid_t *used = l->built[v] < 0 ? own : l->cache[l->built[v]].lay.axes;
    if (l->value_bytes[v] >= 0 && grows(value, own)) l->value_bytes[v] *= factor;
    if (l->used_bytes[v] >= 0 && grows(value, used)) l->used_bytes[v] *= factor;
  }
}

static void set_micro_batches(ptc_layout_t *l, int64_t from, int64_t to) {
  grow_bytes(l, (double)to / (double)from);
  l->size[PTC_REF_MICRO] = l->size[PTC_REF_MICRO] * from / to;
  for (int32_t i = 0; i < l->num_nets; i++)
    if (l->nets[i].by_micro) l->nets[i].bytes *= (double)to / (double)from;
  for (int32_t i = 0; i < l->p->num_sizes; i++)
    for (int role = 0; l->by_micro[i] && role < PTC_NUM_WROLES; role++)
      if (l->by_micro[i] >> role & 1) l->sizes[i][role] = l->sizes[i][role] / from * to;
}

static void add_peaks(ptc_form_t *form, ptc_arena_t *arena, const ptc_layout_t *l, int back,
                      const ptc_live_t *first) {
  // With any dp.
  const int64_t most = form->work->batch / form->choice.size[PTC_AXIS_EP];
  const double steps = (double)(most - form->first) / (double)(form->second - form->first);
  for (int32_t i = 0; i < form->out.count; i++) {
    ptc_live_t second;
    ptc_layout_live(l, form->profile, i, back, &second);
    lines_t lines = {PTC_ARENA_ARRAY(l->arena, line_t, second.places + 1), 0};
    for (int p = 0; p < PTC_NUM_PEAKS; p++) {
      const ptc_peak_t peak = (ptc_peak_t)p;
      if (ptc_peak_is_backward(peak) != back) continue;
      lines.count = 0;
      add_line(&lines, (line_t){0, 0}, steps);
      for (int32_t k = 0; k < second.places; k++)
        add_line(&lines, (line_t){ptc_live_at(&first[i], peak, k), ptc_live_at(&second, peak, k)},
                 steps);
      form->peaks[p][i] = (lines_t){PTC_ARENA_ARRAY(arena, line_t, lines.count), lines.count};
      memcpy(form->peaks[p][i].items, lines.items, sizeof(line_t) * (size_t)lines.count);
    }
  }
}

static int32_t count_products(const ptc_form_t *form) {
  int32_t count = 0;
  for (int32_t i = 0; i < form->num_kernels; i++) count += form->kernels[i].kind != PTC_KW_MEMORY;
  return count;
}

static product_t product_of(const ptc_kernel_work_t *k) {
  return (product_t){k->batch, k->m,    k->n,      k->k,     k->heads, k->kv_heads,
                     k->rows,  k->cols, k->qk_dim, k->v_dim, k->flops};
}

// The numbers of |from|, which lie in a layout's own memory.
static void keep_numbers(const ptc_form_t *form, ptc_arena_t *arena, const ptc_work_pieces_t *from,
                         numbers_t *out) {
  out->sums = ptc_arena_alloc_raw(arena, sizeof(*out->sums) * (size_t)(form->num_kernels + 1));
  out->products =
      ptc_arena_alloc_raw(arena, sizeof(*out->products) * (size_t)(count_products(form) + 1));
  out->net_bytes =
      ptc_arena_alloc_raw(arena, sizeof(*out->net_bytes) * (size_t)(form->num_nets + 1));
  sums_t *sums = out->sums;
  product_t *product = out->products;
  double *bytes = out->net_bytes;
  for (int32_t i = 0; i < from->count; i++)
    for (int phase = 0; phase < PTC_WORK_NUM_PHASES; phase++) {
      const ptc_phase_work_t *work = ptc_piece_phase(&from->items[i], phase);
      for (int32_t k = 0; k < work->num_kernels; k++) {
        const ptc_kernel_work_t *kernel = &work->kernels[k];
        *sums++ = (sums_t){kernel->bytes, kernel->costly, kernel->unfused_bytes};
        if (kernel->kind != PTC_KW_MEMORY) *product++ = product_of(kernel);
      }
      for (int32_t n = 0; n < work->num_nets; n++) *bytes++ = work->nets[n].bytes;
    }
}

static void keep_items(ptc_arena_t *arena, const ptc_work_pieces_t *from, ptc_work_pieces_t *to) {
  *to = *from;
  to->items = ptc_arena_alloc_raw(arena, sizeof(*to->items) * (size_t)(from->count + 1));
  memcpy(to->items, from->items, sizeof(*to->items) * (size_t)from->count);
}

static void count_items(ptc_form_t *form, const ptc_work_pieces_t *pieces) {
  for (int32_t i = 0; i < pieces->count; i++)
    for (int phase = 0; phase < PTC_WORK_NUM_PHASES; phase++) {
      form->num_kernels += ptc_piece_phase(&pieces->items[i], phase)->num_kernels;
      form->num_nets += ptc_piece_phase(&pieces->items[i], phase)->num_nets;
    }
}

// Collectives, and kernels if none of the same are at hand.
static void copy_items(ptc_form_t *form, const ptc_work_pieces_t *from, bool kernels) {
  int32_t num_kernels = 0, num_nets = 0;
  for (int32_t i = 0; i < from->count; i++)
    for (int phase = 0; phase < PTC_WORK_NUM_PHASES; phase++) {
      ptc_phase_work_t *work = ptc_piece_phase(&form->at_first.items[i], phase);
      ptc_kernel_work_t *own = form->kernels + num_kernels;
      ptc_net_item_t *nets = form->nets + num_nets;
      if (kernels && work->num_kernels > 0)
        memcpy(own, work->kernels, sizeof(*own) * (size_t)work->num_kernels);
      if (work->num_nets > 0) memcpy(nets, work->nets, sizeof(*nets) * (size_t)work->num_nets);
      work->kernels = own;
      work->nets = nets;
      num_kernels += work->num_kernels;
      num_nets += work->num_nets;
    }
}

static void keep_first(ptc_form_t *form, ptc_arena_t *arena, ptc_patterns_t *patterns,
                       const ptc_layout_t *l, const ptc_work_pieces_t *pieces) {
  count_items(form, pieces);
  const size_t kernels = sizeof(*form->kernels) * (size_t)(form->num_kernels + 1);
  form->nets = ptc_arena_alloc_raw(arena, sizeof(*form->nets) * (size_t)(form->num_nets + 1));
  form->kernels = patterns ? ptc_patterns_kernels(patterns, l) : NULL;
  const bool own = !form->kernels;
  if (own) form->kernels = ptc_arena_alloc_raw(arena, kernels);
  keep_items(arena, pieces, &form->at_first);
  copy_items(form, pieces, own);
  if (own && patterns) ptc_patterns_keep_kernels(patterns, l, form->kernels);
  keep_numbers(form, arena, pieces, &form->numbers[0]);
  form->numbers[1] = form->numbers[0];
  keep_items(arena, &form->at_first, &form->out);
}

// The next micro-batch size above |first|, as far as the batch allows: its smallest prime factor times as large.
static int64_t next_size(int64_t micro_batches, int64_t first) {
  for (int64_t p = 2; p <= micro_batches; p++)
    if (micro_batches % p == 0) return first * p;
  return 0;
}

static void add_second(ptc_form_t *form, ptc_arena_t *arena, ptc_layout_t *l) {
  ptc_live_t *lives[2];
  for (int back = 0; back < 2; back++) {
    lives[back] = PTC_ARENA_ARRAY(l->arena, ptc_live_t, form->out.count + 1);
    for (int32_t i = 0; i < form->out.count; i++)
      ptc_layout_live(l, form->profile, i, back, &lives[back][i]);
  }
  set_micro_batches(l, form->first, form->second);
  ptc_work_pieces_t pieces = {0};
  ptc_layout_measure_again(l, form->profile, &pieces);
  keep_numbers(form, arena, &pieces, &form->numbers[1]);
  keep_items(arena, &pieces, &form->at_second);
  for (int peak = 0; peak < PTC_NUM_PEAKS; peak++)
    form->peaks[peak] = PTC_ARENA_ARRAY(arena, lines_t, form->out.count + 1);
  for (int back = 0; back < 2; back++) add_peaks(form, arena, l, back, lives[back]);
}

// Where all values lie; false: nowhere.
static bool lay_values(ptc_layout_t *l, ptc_patterns_t *patterns) {
  if (patterns && ptc_patterns_find(patterns, l)) return true;
  ptc_lay_log_t log = {.arena = l->arena};
  if (patterns) l->log = &log;
  ptc_layout_make_room(l);
  const bool ok = ptc_layout_infer(l);
  if (ok && patterns) ptc_patterns_keep(patterns, l);
  l->log = NULL;
  return ok;
}

static ptc_status_t fill(ptc_form_t *form, ptc_arena_t *arena, ptc_patterns_t *patterns,
                         ptc_layout_t *l) {
  if (!l->p->has_micro) return PTC_OK;
  const char *reason;
  if (!ptc_layout_begin(l, &reason)) return PTC_INFEASIBLE;
  if (!lay_values(l, patterns)) return *l->depends ? PTC_OK : PTC_INFEASIBLE;
  ptc_layout_make_numbers(l);
  form->any_dp = !*l->depends && ptc_lay_all_on_dp(l);
  ptc_work_pieces_t pieces = {0};
  ptc_layout_measure(l, form->profile, &pieces);
  if (l->overflow) return PTC_INFEASIBLE;
  keep_first(form, arena, patterns, l, &pieces);
  // What groups of turns need is of two programs.
  const bool groups = form->choice.recompute_every > 1 && form->profile == PTC_SAVE_PTC;
  if (!*l->depends && !groups && ptc_lay_all_even(l))
    form->second = next_size(l->size[PTC_REF_MICRO], 1);
  if (form->second > 0) add_second(form, arena, l);
  return PTC_OK;
}

ptc_status_t ptc_layout_form(const ptc_work_t *work, ptc_arena_t *arena, ptc_patterns_t *patterns,
                             const ptc_choice_t *choice, ptc_save_profile_t profile,
                             ptc_form_t **out) {
  const int64_t replicas = choice->size[PTC_AXIS_DP] * choice->size[PTC_AXIS_EP];
  *out = NULL;
  if (work->batch % replicas != 0) return PTC_INFEASIBLE;
  ptc_form_t *form = PTC_ARENA_NEW(arena, ptc_form_t);
  *form = (ptc_form_t){
      .work = work, .profile = profile, .choice = *choice, .replicas = replicas, .first = 1};
  *out = form;
  form->choice.micro_batch = 1;
  bool depends = false;
  ptc_arena_t own = {0}, *scratch = patterns ? ptc_patterns_scratch(patterns) : &own;
  ptc_layout_t l = {.work = work,
                    .w = work->impl,
                    .choice = &form->choice,
                    .arena = scratch,
                    .depends = &depends,
                    .p = &work->impl->programs[choice->recompute]};
  const ptc_status_t status = fill(form, arena, patterns, &l);
  ptc_arena_deinit(&own);
  return status;
}

bool ptc_form_any_dp(const ptc_form_t *form) { return form->any_dp; }

void ptc_form_end(ptc_form_t *form) { ptc_arena_deinit(&form->own); }

// --- reading it

typedef struct between_s {
  int64_t steps, span;
} between_t;

static double mix(const between_t *b, double first, double second) {
  if (first == second) return first;
  const double more = (second - first) * (double)b->steps;
  return first + (b->span == 1 ? more : more / (double)b->span);
}

static int64_t mix_int(const between_t *b, int64_t first, int64_t second) {
  if (first == second) return first;
  return first + (b->span == 1 ? second - first : (second - first) / b->span) * b->steps;
}

static void mix_product(const between_t *b, const product_t *x, const product_t *y,
                        ptc_kernel_work_t *out) {
  out->batch = mix_int(b, x->batch, y->batch);
  out->m = mix_int(b, x->m, y->m);
  out->n = mix_int(b, x->n, y->n);
  out->k = mix_int(b, x->k, y->k);
  out->heads = mix_int(b, x->heads, y->heads);
  out->kv_heads = mix_int(b, x->kv_heads, y->kv_heads);
  out->rows = mix_int(b, x->rows, y->rows);
  out->cols = mix_int(b, x->cols, y->cols);
  out->qk_dim = x->qk_dim;
  out->v_dim = x->v_dim;
  out->flops = mix(b, x->flops, y->flops);
}

static void mix_numbers(ptc_form_t *form, const between_t *b) {
  const numbers_t *x = &form->numbers[0], *y = &form->numbers[1];
  int32_t product = 0;
  for (int32_t i = 0; i < form->num_kernels; i++) {
    ptc_kernel_work_t *out = &form->kernels[i];
    out->bytes = mix(b, x->sums[i].bytes, y->sums[i].bytes);
    out->costly = mix(b, x->sums[i].costly, y->sums[i].costly);
    out->unfused_bytes = mix(b, x->sums[i].unfused, y->sums[i].unfused);
    if (out->kind == PTC_KW_MEMORY) continue;
    mix_product(b, &x->products[product], &y->products[product], out);
    product++;
  }
  for (int32_t i = 0; i < form->num_nets; i++)
    form->nets[i].bytes = mix(b, x->net_bytes[i], y->net_bytes[i]);
}

static double highest(const lines_t *lines, const between_t *b) {
  double most = 0;
  for (int32_t i = 0; i < lines->count; i++) {
    const double bytes = mix(b, lines->items[i].first, lines->items[i].second);
    if (bytes > most) most = bytes;
  }
  return most;
}

static const ptc_work_pieces_t *pieces_at(ptc_form_t *form, int64_t micro_batch, int64_t replicas,
                                          bool memory_alone) {
  const int64_t together = replicas * micro_batch;
  if (micro_batch < 1 || form->work->batch % together != 0) return NULL;
  const between_t b = {micro_batch - form->first, form->second - form->first};
  if (micro_batch == form->first && form->at_first.items) {
    if (!memory_alone) mix_numbers(form, &(between_t){0, 1});
    return &form->at_first;
  }
  if (form->second == 0) {
    ptc_arena_deinit(&form->own);
    form->choice.micro_batch = micro_batch;
    const bool ok = ptc_layout_pieces(form->work, &form->own, &form->choice, form->profile,
                                      &form->out) == PTC_OK;
    return ok ? &form->out : NULL;
  }
  if (!memory_alone) mix_numbers(form, &b);
  form->out.micro_batches = form->work->batch / together;
  for (int32_t i = 0; i < form->out.count; i++) {
    const ptc_piece_t *x = &form->at_first.items[i], *y = &form->at_second.items[i];
    ptc_piece_t *out = &form->out.items[i];
    *out = *x;
    for (int mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
      out->saved_bytes[mode] = mix(&b, x->saved_bytes[mode], y->saved_bytes[mode]);
      out->slot_bytes[mode] = mix(&b, x->slot_bytes[mode], y->slot_bytes[mode]);
    }
    out->held_bytes = mix(&b, x->held_bytes, y->held_bytes);
    out->scores_bytes = mix(&b, x->scores_bytes, y->scores_bytes);
    out->products_bytes = mix(&b, x->products_bytes, y->products_bytes);
    out->logits = mix(&b, x->logits, y->logits);
    out->boundary_bytes = mix(&b, x->boundary_bytes, y->boundary_bytes);
    for (int peak = 0; peak < PTC_NUM_PEAKS; peak++)
      out->peak_bytes[peak] = highest(&form->peaks[peak][i], &b);
  }
  return &form->out;
}

const ptc_work_pieces_t *ptc_form_at(ptc_form_t *form, int64_t micro_batch) {
  return pieces_at(form, micro_batch, form->replicas, false);
}

const ptc_work_pieces_t *ptc_form_at_any_dp(ptc_form_t *form, int64_t micro_batch) {
  return pieces_at(form, micro_batch, form->choice.size[PTC_AXIS_EP], false);
}

const ptc_work_pieces_t *ptc_form_memory_at(ptc_form_t *form, bool any_dp, int64_t micro_batch) {
  const int64_t replicas = any_dp ? form->choice.size[PTC_AXIS_EP] : form->replicas;
  return pieces_at(form, micro_batch, replicas, true);
}

bool ptc_form_serves_all(const ptc_form_t *form) {
  return form->any_dp && form->second > 0 && form->choice.size[PTC_AXIS_DP] > 1;
}
