// What an op needs of its operands: the rules of passes/partition_rules.c on numbers.
#include "passes/planner/layout_impl.h"

enum { MAX_FACTORS = 64, MAX_OPERANDS = 64 };

typedef struct factor_s {
  ptc_laid_t axes;
  double bytes;
  bool weight;
} factor_t;

// --- sums

static bool is_free(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_lay_t *lay,
                    uint16_t set) {
  const uint16_t overlap = ptc_lay_overlap(l, set);
  if (lay->partial & overlap) return false;
  for (int32_t d = 0; d < value->num_dims; d++)
    if (ptc_laid_set(lay->axes[d]) & overlap) return false;
  return true;
}

// On the first sequence that divides, or may be padded.
static void scatter_sequence(const ptc_layout_t *l, const ptc_wvalue_t *value, ptc_lay_t *lay,
                             int32_t ref, bool pads) {
  for (int32_t d = 0; d < value->num_dims; d++) {
    const ptc_wdim_t *dim = &l->w->dims[l->p->dims[value->dims + d]];
    if (!l->w->is_sequence[dim->name] || ptc_laid_len(lay->axes[d]) >= PTC_LAID_MAX) continue;
    if (!ptc_lay_divides(l, dim->extent, lay->axes[d], ref) && !(pads && !lay->axes[d])) continue;
    lay->axes[d] = ptc_laid_append(lay->axes[d], (ptc_laid_t)ref);
    return;
  }
}

void ptc_lay_reduce(const ptc_layout_t *l, const ptc_wvalue_t *value, ptc_lay_t *lay,
                    uint16_t axes) {
  const bool sum = !lay->max;
  const uint16_t tp = 1u << (PTC_REF_AXIS + PTC_AXIS_TP), cp = 1u << (PTC_REF_AXIS + PTC_AXIS_CP);
  lay->partial &= (uint16_t)~axes;
  if (!lay->partial) lay->max = false;
  // Each device of cp keeps its part of the sequence, with sequence parallelism each of tp.
  if (!sum || !value->activation) return;
  if (axes & cp) scatter_sequence(l, value, lay, PTC_REF_AXIS + PTC_AXIS_CP, true);
  if (axes & tp && l->choice->sequence_parallel)
    scatter_sequence(l, value, lay, PTC_REF_AXIS + PTC_AXIS_TP, false);
}

// Both operands of a sum are partial over the same axes: those that both have. A zero is partial over anything.
static void add_partials(const ptc_layout_t *l, const ptc_wop_t *op, ptc_lay_t *lays) {
  if (op->num_operands != 2) return;
  const ptc_wvalue_t *v[2] = {&l->p->values[op->operands[0]], &l->p->values[op->operands[1]]};
  const uint16_t sets[2] = {lays[0].partial & l->device, lays[1].partial & l->device};
  if (!sets[0] && !sets[1]) return;
  for (int t = 0; t < 2; t++) {
    const bool flexible = v[t]->zero || v[t]->starts_zero;
    if (!flexible || v[1 - t]->activation || lays[1 - t].max) continue;
    lays[t].partial = lays[1 - t].partial;
    return;
  }
  const bool sums = !lays[0].max && !lays[1].max;
  for (int t = 0; t < 2; t++) {
    const uint16_t gone = sums ? sets[t] & (uint16_t)~sets[1 - t] : sets[t];
    if (gone) ptc_lay_reduce(l, v[t], &lays[t], gone);
  }
}

static void base_lays(const ptc_layout_t *l, const ptc_wop_t *op, ptc_lay_t *lays) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    ptc_lay_get(l, op->operands[i], &lays[i]);
    const bool passes = op->wclass == PTC_WCLASS_ADD || op->passes == PTC_WPASS_ALL ||
                        (op->passes == PTC_WPASS_SUMS && !lays[i].max);
    if (!passes) ptc_lay_resolve(l, &l->p->values[op->operands[i]], &lays[i]);
  }
  if (op->wclass == PTC_WCLASS_ADD) add_partials(l, op, lays);
}

// --- factors

static void add_dim(factor_t *f, ptc_laid_t axes, double bytes, bool weight) {
  if (!axes) return;
  if (f->axes == axes) {
    f->bytes += bytes;
    f->weight |= weight;
    return;
  }
  // Going on to finer parts costs nothing.
  const bool finer = f->axes == 0 || ptc_laid_begins(axes, f->axes);
  const bool coarser = ptc_laid_begins(f->axes, axes);
  if (!finer && coarser) return;
  const bool wins = weight != f->weight ? weight : bytes > f->bytes;
  if (finer || wins) *f = (factor_t){axes, bytes, weight};
}

typedef struct ceding_s {
  uint64_t cedes, beside;  // sets of factors
} ceding_t;

// What gather looks up in data: the axes of the dims that are walked along go to dims beside them, or stay, and then
// every device has sums of the whole result. What moves less is done.
static ceding_t find_ceding(const ptc_layout_t *l, const ptc_wop_t *op, const ptc_lay_t *lays) {
  if (op->opcode != PTC_OP_GATHER || !op->split.gathers || op->num_operands == 0)
    return (ceding_t){0};
  const ptc_wvalue_t *x = &l->p->values[op->operands[0]];
  if (x->weight) return (ceding_t){0};
  ceding_t c = {0};
  ptc_laid_t walked[PTC_MAX_DIMS];
  int32_t num_walked = 0;
  double staying = l->p->values[op->results].bytes;
  for (int32_t d = 0; d < x->num_dims; d++) {
    const uint64_t bit = UINT64_C(1) << op->places[d];
    if (op->whole & bit)
      walked[num_walked++] = lays[0].axes[d], c.cedes |= bit;
    else
      c.beside |= bit;
  }
  for (int32_t i = 1; i < op->num_operands; i++) staying += l->p->values[op->operands[i]].bytes;
  if (ptc_lay_compare(l, x->bytes, walked, num_walked, staying) > 0) return (ceding_t){0};
  return c;
}

// Whether factor |a| keeps an axis that |b| wants too.
static bool keeps(const ptc_wop_t *op, const ceding_t *c, const factor_t *f, int32_t a, int32_t b) {
  if ((c->cedes >> a & 1) && (c->beside >> b & 1)) return false;
  if ((c->cedes >> b & 1) && (c->beside >> a & 1)) return true;
  if (f[a].weight != f[b].weight) return f[a].weight;
  const bool sum_a = op->summed >> a & 1, sum_b = op->summed >> b & 1;
  if (sum_a != sum_b) return sum_b;
  return f[a].bytes >= f[b].bytes;
}

static void resolve_pair(const ptc_layout_t *l, const ptc_wop_t *op, const ceding_t *c, factor_t *f,
                         int32_t i, int32_t j) {
  for (int32_t x = 0; x < ptc_laid_len(f[i].axes); x++) {
    for (int32_t y = 0; y < ptc_laid_len(f[j].axes); y++) {
      const int32_t a = ptc_laid_at(f[i].axes, x), b = ptc_laid_at(f[j].axes, y);
      if (!(l->overlap[a] >> b & 1)) continue;
      // A dim loses axes from the inside.
      if (keeps(op, c, f, i, j))
        f[j].axes = ptc_laid_first(f[j].axes, y);
      else
        f[i].axes = ptc_laid_first(f[i].axes, x);
    }
  }
}

static void resolve_conflicts(const ptc_layout_t *l, const ptc_wop_t *op, const ceding_t *c,
                              factor_t *f) {
  uint16_t used = 0;
  bool conflict = false;
  for (int32_t i = 0; i < op->num_factors; i++) {
    if (!f[i].axes) continue;
    const uint16_t set = ptc_laid_set(f[i].axes);
    conflict |= (ptc_lay_overlap(l, set) & used) != 0;
    used |= set;
  }
  for (int32_t i = 0; conflict && i < op->num_factors; i++)
    for (int32_t j = i + 1; j < op->num_factors; j++) resolve_pair(l, op, c, f, i, j);
}

static void find_factors(const ptc_layout_t *l, const ptc_wop_t *op, const ptc_lay_t *lays,
                         bool split, factor_t *f) {
  for (int32_t i = 0; i < op->num_factors; i++) f[i] = (factor_t){0};
  const int8_t *place = op->places;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_wvalue_t *v = &l->p->values[op->operands[i]];
    for (int32_t d = 0; d < v->num_dims; d++, place++)
      if (lays[i].axes[d] && *place >= 0) add_dim(&f[*place], lays[i].axes[d], v->bytes, v->weight);
  }
  if (!split)
    for (int32_t i = 0; i < op->num_factors; i++)
      if (op->whole >> i & 1) f[i].axes = 0;
  const ceding_t c = find_ceding(l, op, lays);
  resolve_conflicts(l, op, &c, f);
}

// --- results

static void apply(const ptc_layout_t *l, const ptc_wop_t *op, const factor_t *f, ptc_lay_t *lays) {
  const int8_t *place = op->places;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_wvalue_t *v = &l->p->values[op->operands[i]];
    for (int32_t d = 0; d < v->num_dims; d++, place++)
      if (*place >= 0) lays[i].axes[d] = f[*place].axes;
  }
}

static ptc_laid_t axes_of(const ptc_layout_t *l, const factor_t *f, int8_t place) {
  if (place >= 0) return f[place].axes;
  return place == PTC_WORK_MICRO_FACTOR && l->p->has_micro ? PTC_REF_MICRO : 0;
}

static bool uses_axis_twice(const ptc_layout_t *l, const ptc_wvalue_t *value,
                            const ptc_lay_t *lay) {
  uint16_t used = lay->partial;
  for (int32_t d = 0; d < value->num_dims; d++) {
    const uint16_t set = ptc_laid_set(lay->axes[d]);
    if (ptc_lay_overlap(l, set) & used) return true;
    used |= set;
  }
  return false;
}

static bool shape_fits(const ptc_layout_t *l, const ptc_wop_t *op, const factor_t *f,
                       const ptc_lay_t *lays) {
  if (op->wclass == PTC_WCLASS_SPLIT) {
    const ptc_wvalue_t *x = &l->p->values[op->operands[0]];
    const ptc_wvalue_t *y = &l->p->values[op->results];
    // The outermost of the new dims has the old one's place.
    const int8_t *to = op->places + x->num_dims;
    for (int32_t d = 0; d < y->num_dims; d++) {
      const int64_t extent = l->w->dims[l->p->dims[y->dims + d]].extent;
      if (to[d] >= 0 && extent == op->split_outer && !ptc_lay_divides(l, extent, f[to[d]].axes, 0))
        return false;
    }
  }
  if (op->wclass == PTC_WCLASS_MERGE) {
    const ptc_wvalue_t *x = &l->p->values[op->operands[0]];
    for (int32_t d = 0; d < x->num_dims; d++) {
      const int8_t at = op->places[d];
      if (!lays[0].axes[d]) continue;
      if (op->merge_inner >> at & 1) return false;
      const int64_t extent = l->w->dims[l->p->dims[x->dims + d]].extent;
      if (at == op->merge_outer && !ptc_lay_divides(l, extent, lays[0].axes[d], 0)) return false;
    }
  }
  return true;
}

static void scatter_result(const ptc_layout_t *l, const ptc_wop_t *op, ptc_lay_t *result) {
  const ptc_wvalue_t *y = &l->p->values[op->results];
  const ptc_lay_t *home = &l->params[op->scatter_param];
  for (int32_t d = 0; d < y->num_dims; d++) {
    const int8_t at = op->scatter_dims[d];
    if (at < 0 || !home->axes[at]) continue;
    if (is_free(l, y, result, ptc_laid_set(home->axes[at]))) result->axes[d] = home->axes[at];
    return;
  }
}

static bool find_results(const ptc_layout_t *l, const ptc_wop_t *op, const factor_t *f,
                         const ptc_lay_t *lays, bool split, ptc_lay_t *results) {
  const int8_t *place = op->places;
  uint16_t partial = 0;
  bool max = false;
  for (int32_t i = 0; i < op->num_operands; i++) {
    place += l->p->values[op->operands[i]].num_dims;
    if (!partial && lays[i].partial) {
      partial = lays[i].partial;
      max = lays[i].max;
    }
  }
  // A split form's results are complete, but gather's: a sum over the axes of the dims that it looks up.
  if (split) {
    partial = op->split.gathers ? lays[0].partial : 0;
    max = false;
    for (int32_t i = 0; op->split.gathers && i < op->num_factors; i++)
      if (op->whole >> i & 1) partial |= ptc_laid_set(f[i].axes);
  }
  for (int32_t r = 0; r < op->num_results; r++) {
    const ptc_wvalue_t *y = &l->p->values[op->results + r];
    ptc_lay_t *out = &results[r];
    out->partial = partial;
    out->max = max;
    for (int32_t d = 0; d < y->num_dims; d++) out->axes[d] = axes_of(l, f, *place++);
    for (int32_t i = 0; !split && op->missing[r] && i < op->num_factors; i++)
      if (op->missing[r] >> i & 1) out->partial |= ptc_laid_set(f[i].axes);
    if (op->reduces == PTC_REDUCE_MAX && out->partial) out->max = true;
    if (uses_axis_twice(l, y, out)) return false;
  }
  if (op->scatter_param >= 0) scatter_result(l, op, &results[0]);
  return true;
}

static bool is_split_needed(const ptc_layout_t *l, const ptc_wop_t *op, const factor_t *f) {
  (void)l;
  for (int32_t i = 0; i < op->num_factors; i++)
    if ((op->whole >> i & 1) && f[i].axes) return true;
  return false;
}

// Without device axes; |keep_batch|: but for the samples' dim. Time axes come first.
static void make_whole(const ptc_layout_t *l, const ptc_wvalue_t *value, ptc_lay_t *lay,
                       bool keep_batch) {
  for (int32_t d = 0; d < value->num_dims; d++) {
    if (keep_batch && l->w->dims[l->p->dims[value->dims + d]].name == l->w->batch_name) continue;
    lay->axes[d] = ptc_laid_at(lay->axes[d], 0) == PTC_REF_MICRO ? PTC_REF_MICRO : 0;
  }
}

typedef enum attempt_e { TRY_SPLIT, TRY_NATURAL, TRY_SAMPLES, TRY_WHOLE, NUM_ATTEMPTS } attempt_t;

bool ptc_lay_rule(const ptc_layout_t *l, const ptc_wop_t *op, ptc_lay_t *operands,
                  ptc_lay_t *results, bool *out_split) {
  factor_t factors[MAX_FACTORS];
  *out_split = false;
  ptc_lay_attention_t attention;
  if (ptc_lay_attention_way(l, op, &attention)) {
    base_lays(l, op, operands);
    ptc_lay_attention_bare(l, op, &attention, operands);
    find_factors(l, op, operands, false, factors);
    apply(l, op, factors, operands);
    ptc_lay_attention_laid(l, op, &attention, operands);
    ptc_lay_attention_results(l, op, &attention, operands, results);
    return true;
  }
  for (int attempt = op->split.exists ? TRY_SPLIT : TRY_NATURAL; attempt < NUM_ATTEMPTS;
       attempt++) {
    base_lays(l, op, operands);
    for (int32_t i = 0; attempt >= TRY_SAMPLES && i < op->num_operands; i++)
      make_whole(l, &l->p->values[op->operands[i]], &operands[i], attempt == TRY_SAMPLES);
    find_factors(l, op, operands, attempt == TRY_SPLIT, factors);
    if (attempt == TRY_SPLIT && !is_split_needed(l, op, factors)) {
      // No dim that is to be whole lies in parts: the natural form, unless one is padded away by conflicts.
      attempt = TRY_NATURAL;
    }
    apply(l, op, factors, operands);
    const bool split = attempt == TRY_SPLIT;
    if (!split && !shape_fits(l, op, factors, operands)) continue;
    if (!find_results(l, op, factors, operands, split, results)) continue;
    *out_split = split;
    return true;
  }
  return false;
}
