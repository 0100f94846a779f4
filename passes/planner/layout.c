// The axes of a choice, and how the parameters lie on them: passes/partition_seed.c and partition_search.c on numbers.
#include <string.h>

#include "ir/axes.h"
#include "passes/planner/layout_impl.h"

// A dim is padded only where a shard has this many elements (as in passes/partition_impl.h).
enum { MIN_SHARD = 4 };

double ptc_lay_elements(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_laid_t *axes) {
  double elements = 1;
  for (int32_t d = 0; d < value->num_dims; d++) {
    const int64_t extent = l->w->dims[l->p->dims[value->dims + d]].extent;
    const int64_t shards = ptc_laid_size(l, axes[d]);
    elements *= (double)ptc_lay_share(extent, shards);
  }
  return elements;
}

double ptc_lay_find_value_bytes(const ptc_layout_t *l, int32_t number) {
  const ptc_wvalue_t *value = &l->p->values[number];
  return l->value_bytes[number] = ptc_lay_elements(l, value, l->axes + value->dims) *
                                  (double)ptc_dtype_bytes((ptc_dtype_t)value->dtype);
}

double ptc_lay_find_used_bytes(const ptc_layout_t *l, int32_t number) {
  double *known = &l->used_bytes[number];
  if (l->built[number] < 0) return *known = ptc_lay_value_bytes(l, number);
  const ptc_wvalue_t *value = &l->p->values[number];
  const ptc_laid_t *axes = l->cache[l->built[number]].lay.axes;
  return *known =
             ptc_lay_elements(l, value, axes) * (double)ptc_dtype_bytes((ptc_dtype_t)value->dtype);
}

double ptc_lay_turns(const ptc_layout_t *l, int32_t block) {
  int32_t outer = block;
  while (l->p->blocks[outer].parent > 1) outer = l->p->blocks[outer].parent;
  return l->p->blocks[block].turns / l->p->blocks[outer].turns;
}

// --- axes

static int32_t add_part(ptc_layout_t *l, int64_t pre, int64_t size) {
  const int32_t tp = PTC_REF_AXIS + PTC_AXIS_TP;
  if (pre == 1 && size == l->size[tp]) return tp;
  for (int32_t i = PTC_REF_PART; i < l->num_refs; i++)
    if (l->pre[i] == pre && l->size[i] == size) return i;
  if (l->num_refs == PTC_MAX_REFS) return -1;
  const int32_t part = l->num_refs++;
  l->pre[part] = pre;
  l->size[part] = size;
  l->device |= (uint16_t)(1u << part);
  l->overlap[part] = (uint16_t)(1u << part | 1u << tp);
  l->overlap[tp] |= (uint16_t)(1u << part);
  for (int32_t i = PTC_REF_PART; i < part; i++) {
    // Parts [pre, pre * size) of the axis as a product of factors.
    const bool apart = l->pre[i] * l->size[i] <= pre || pre * size <= l->pre[i];
    if (apart) continue;
    l->overlap[part] |= (uint16_t)(1u << i);
    l->overlap[i] |= (uint16_t)(1u << part);
  }
  return part;
}

static void set_axes(ptc_layout_t *l, int64_t micro) {
  l->size[PTC_REF_MICRO] = micro;
  l->overlap[PTC_REF_MICRO] = 1u << PTC_REF_MICRO;
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++) {
    const int32_t ref = PTC_REF_AXIS + a;
    l->size[ref] = a == PTC_AXIS_PP ? 1 : l->choice->size[a];
    l->pre[ref] = 1;
    l->overlap[ref] = (uint16_t)(1u << ref);
    l->device |= (uint16_t)(1u << ref);
    if (a == PTC_AXIS_DP || a == PTC_AXIS_EP || a == PTC_AXIS_CP) l->data |= (uint16_t)(1u << ref);
  }
  l->num_refs = PTC_REF_PART;
}

// --- parameters

static int64_t parts_of(const ptc_layout_t *l, int32_t candidate) {
  const ptc_work_name_t *name = &l->work->names[candidate];
  const int64_t tp = l->size[PTC_REF_AXIS + PTC_AXIS_TP];
  return name->extent / tp >= MIN_SHARD ? tp : ptc_gcd(tp, name->extent);
}

typedef struct names_s {
  int32_t name[PTC_WORK_MAX_NAMES], ref[PTC_WORK_MAX_NAMES];
  int32_t count;
} names_t;

// The axis, or the part of it, on which each name of the set lies.
static bool find_names(ptc_layout_t *l, uint32_t set, names_t *out) {
  const int64_t tp = l->size[PTC_REF_AXIS + PTC_AXIS_TP];
  out->count = 0;
  for (int32_t i = 0; i < l->work->num_names && tp > 1; i++) {
    if (!(set >> i & 1)) continue;
    const int64_t own = parts_of(l, i);
    int64_t pre = 1, size = own < tp ? own : tp;
    for (int32_t k = 0; k < out->count; k++) {
      const int32_t other = out->ref[k];
      if (other < PTC_REF_PART || l->pre[other] != 1 || !(l->w->together[i] >> out->name[k] & 1))
        continue;
      pre = l->size[other];
      size = ptc_gcd(tp / l->size[other], own);
    }
    if (size == 1) continue;
    const int32_t ref = add_part(l, pre, size);
    if (ref < 0) return false;
    out->name[out->count] = i;
    out->ref[out->count++] = ref;
  }
  return true;
}

static bool is_free(const ptc_layout_t *l, const ptc_lay_t *lay, int32_t num_dims, int32_t ref) {
  for (int32_t d = 0; d < num_dims; d++)
    if (ptc_laid_set(lay->axes[d]) & l->overlap[ref]) return false;
  return true;
}

static void lay_dim(const ptc_layout_t *l, const ptc_wparam_t *param, ptc_lay_t *lay, int32_t d,
                    int32_t ref, int64_t min_extent) {
  if (!is_free(l, lay, param->num_dims, ref)) return;
  const int64_t extent = l->w->dims[param->dims[d]].extent, parts = l->size[ref];
  const bool divides = extent % (ptc_laid_size(l, lay->axes[d]) * parts) == 0;
  const bool pads = lay->axes[d] == 0 && extent >= min_extent * parts;
  if (divides || pads) lay->axes[d] = ptc_laid_append(lay->axes[d], (ptc_laid_t)ref);
}

static int32_t find_name(const ptc_layout_t *l, const ptc_wparam_t *param, int32_t candidate) {
  for (int32_t d = 0; d < param->num_dims; d++) {
    const ptc_wdim_t *dim = &l->w->dims[param->dims[d]];
    if (dim->name == l->w->name_of[candidate] && dim->extent == l->work->names[candidate].extent)
      return d;
  }
  return -1;
}

// The choice is written as statements, which partition follows before it lays groups on ep: ep comes innermost, but
// where a statement has it.
static void move_groups_inside(const ptc_wparam_t *param, ptc_lay_t *lay) {
  const int32_t d = param->group_dim, ep = PTC_REF_AXIS + PTC_AXIS_EP;
  if (d < 0 || param->fixed_axis[d] == PTC_AXIS_EP + 1) return;
  for (int32_t i = 0; i + 1 < ptc_laid_len(lay->axes[d]); i++) {
    if (ptc_laid_at(lay->axes[d], i) != ep) continue;
    const ptc_laid_t inside = lay->axes[d] >> (4 * (i + 1));
    lay->axes[d] =
        ptc_laid_append(ptc_laid_append(ptc_laid_first(lay->axes[d], i), inside), (ptc_laid_t)ep);
    return;
  }
}

static bool lay_params(ptc_layout_t *l) {
  names_t names = {.count = 0};
  uint32_t set = 0;
  for (int32_t i = 0; i < l->w->num_params; i++) {
    const ptc_wparam_t *param = &l->w->params[i];
    ptc_lay_t *lay = &l->params[i];
    for (int32_t d = 0; d < param->num_dims; d++) {
      const int32_t ref = PTC_REF_AXIS + param->fixed_axis[d] - 1;
      if (param->fixed_axis[d] && l->size[ref] > 1) lay_dim(l, param, lay, d, ref, 1);
    }
    if (param->group_dim >= 0 && l->size[PTC_REF_AXIS + PTC_AXIS_EP] > 1)
      lay_dim(l, param, lay, param->group_dim, PTC_REF_AXIS + PTC_AXIS_EP, 1);
    if (set != l->choice->names[param->piece] || i == 0) {
      set = l->choice->names[param->piece];
      if (!find_names(l, set, &names)) return false;
    }
    for (int32_t k = 0; k < names.count; k++) {
      const int32_t d = find_name(l, param, names.name[k]);
      if (d >= 0) lay_dim(l, param, lay, d, names.ref[k], MIN_SHARD);
    }
    move_groups_inside(param, lay);
  }
  return true;
}

// --- the choice

static bool parts_sequences(const ptc_layout_t *l) {
  const int64_t cp = l->choice->size[PTC_AXIS_CP];
  return cp == 1 || l->work->tokens_per_sample >= cp;
}

void ptc_layout_make_numbers(ptc_layout_t *l) {
  const size_t values = (size_t)l->p->num_values + 1;
  l->value_bytes = ptc_arena_alloc_raw(l->arena, values * sizeof(double));
  l->used_bytes = ptc_arena_alloc_raw(l->arena, values * sizeof(double));
  for (size_t i = 0; i < values; i++) l->value_bytes[i] = l->used_bytes[i] = -1;
}

void ptc_layout_make_room(ptc_layout_t *l) {
  const int32_t values = l->p->num_values;
  l->axes = PTC_ARENA_ARRAY(l->arena, ptc_laid_t, l->p->num_dims + 1);
  l->partial = PTC_ARENA_ARRAY(l->arena, uint16_t, values + 1);
  l->max = PTC_ARENA_ARRAY(l->arena, uint8_t, values + 1);
  l->built = PTC_ARENA_ARRAY(l->arena, int32_t, values + 1);
  l->gathered = PTC_ARENA_ARRAY(l->arena, int32_t, values + 1);
  l->viewed = PTC_ARENA_ARRAY(l->arena, int32_t, values + 1);
  memset(l->viewed, 0xff, (size_t)values * sizeof(int32_t));
  memset(l->built, 0xff, (size_t)values * sizeof(int32_t));
  memset(l->gathered, 0xff, (size_t)values * sizeof(int32_t));
  l->sizes = ptc_arena_alloc(l->arena, (size_t)(l->p->num_sizes + 1) * sizeof(*l->sizes));
  l->by_micro = PTC_ARENA_ARRAY(l->arena, uint16_t, l->p->num_sizes + 1);
  l->waits = PTC_ARENA_ARRAY(l->arena, uint8_t, l->p->num_groups + 1);
  l->cap_cache = 2 * values + 64;
  l->cap_targets = l->cap_nets = values + 64;
  l->cache = ptc_arena_alloc_raw(l->arena, (size_t)l->cap_cache * sizeof(*l->cache));
  l->targets = ptc_arena_alloc_raw(l->arena, (size_t)l->cap_targets * sizeof(*l->targets));
  l->nets = ptc_arena_alloc_raw(l->arena, (size_t)l->cap_nets * sizeof(*l->nets));
  for (int32_t i = 0; i < l->w->num_params; i++)
    if (l->p->param_values[i] >= 0) ptc_lay_set(l, l->p->param_values[i], &l->params[i]);
}

// FNV-1a.
static void mix(uint64_t *hash, uint64_t word) { *hash = (*hash ^ word) * UINT64_C(0x100000001b3); }

bool ptc_layout_params_hash(const ptc_work_t *work, const ptc_choice_t *choice, uint64_t *out) {
  ptc_arena_t arena = {0};
  ptc_layout_t l = {.work = work, .w = work->impl, .choice = choice, .arena = &arena};
  l.params = PTC_ARENA_ARRAY(&arena, ptc_lay_t, l.w->num_params + 1);
  set_axes(&l, 1);
  const bool ok = lay_params(&l);
  for (int32_t p = 0; p < PTC_MAX_PIECES; p++) out[p] = UINT64_C(0xcbf29ce484222325);
  for (int32_t i = 0; ok && i < l.w->num_params; i++) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int32_t d = 0; d < l.w->params[i].num_dims; d++) {
      // Parts are numbered in the order in which names came.
      for (ptc_laid_t axes = l.params[i].axes[d]; axes; axes >>= 4) {
        const int32_t ref = (int32_t)(axes & 15);
        mix(&hash, (uint64_t)(ref < PTC_REF_PART ? ref : PTC_REF_AXIS + PTC_AXIS_TP));
        mix(&hash, (uint64_t)l.pre[ref]);
        mix(&hash, (uint64_t)l.size[ref]);
      }
      mix(&hash, UINT64_MAX);
    }
    for (uint32_t pieces = l.w->params[i].pieces; pieces; pieces &= pieces - 1)
      mix(&out[__builtin_ctz(pieces)], hash);
  }
  ptc_arena_deinit(&arena);
  return ok;
}

bool ptc_layout_begin(ptc_layout_t *l, const char **out_reason) {
  const ptc_choice_t *c = l->choice;
  const int64_t together = c->size[PTC_AXIS_DP] * c->size[PTC_AXIS_EP] * c->micro_batch;
  if (c->micro_batch < 1 || l->work->batch % together != 0) {
    *out_reason = "the batch is no multiple of the samples that all ranks take at once";
    return false;
  }
  if (l->work->batch > together && !l->p->has_micro) {
    *out_reason = "the model mixes samples: the batch cannot be split over time";
    return false;
  }
  if (!parts_sequences(l)) {
    *out_reason = "the sequence has fewer positions than cp has ranks";
    return false;
  }
  set_axes(l, l->work->batch / together);
  l->params = PTC_ARENA_ARRAY(l->arena, ptc_lay_t, l->w->num_params + 1);
  if (lay_params(l)) return true;
  *out_reason = "tp would have too many parts";
  return false;
}
