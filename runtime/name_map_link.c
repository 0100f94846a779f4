// Rules of a name map on tensors of ours.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/name_map_impl.h"

enum { MAX_LINKS = 1 << 20 };

// --- names

bool ptc_map_match(const ptc_map_pattern_t *pattern, const char *name, int64_t *vars) {
  for (int32_t i = 0;; i++) {
    size_t len = strlen(pattern->parts[i]);
    if (strncmp(name, pattern->parts[i], len) != 0) return false;
    name += len;
    if (i == pattern->num_vars) return !*name;
    size_t digits = strspn(name, "0123456789");
    // Numbers as they are printed, so that one name is one tensor.
    if (digits == 0 || digits > 18 || (digits > 1 && name[0] == '0')) return false;
    int64_t value = strtoll(name, NULL, 10), *var = &vars[pattern->vars[i]];
    if (*var >= 0 && *var != value) return false;
    *var = value;
    name += digits;
  }
}

static const char *print_name(ptc_arena_t *arena, const ptc_map_pattern_t *pattern,
                              const int64_t *vars) {
  ptc_str_t text = {0};
  for (int32_t i = 0; i < pattern->num_vars; i++)
    ptc_str_printf(&text, "%s%" PRId64, pattern->parts[i], vars[pattern->vars[i]]);
  ptc_str_append(&text, pattern->parts[pattern->num_vars]);
  const char *copy = ptc_arena_strdup(arena, text.data);
  ptc_str_deinit(&text);
  return copy;
}

// --- dims

// A dim of ours that the slices leave.
typedef struct dim_s {
  const char *name;  // NULL: unknown
  int32_t position;  // among all dims; -1: made by a split
  int64_t extent, stride;
  bool used;
} dim_t;

typedef struct linker_s {
  ptc_diag_t *diag;
  ptc_map_links_t *links;
  const ptc_map_rule_t *rule;
  const ptc_host_tensor_t *tensor;
  int64_t index;  // of the tensor
  dim_t dims[2 * PTC_MAX_DIMS];
  int32_t num_dims;
} linker_t;

static ptc_status_t bad_dims(const linker_t *l, const char *what, const char *dim) {
  ptc_str_t shape = {0};
  for (int32_t d = 0; d < l->tensor->num_dims; d++)
    ptc_str_printf(&shape, "%s%s%s%" PRId64, d ? ", " : "",
                   l->tensor->dim_names ? l->tensor->dim_names[d] : "",
                   l->tensor->dim_names ? "=" : "", l->tensor->shape[d]);
  ptc_status_t status =
      ptc_error(l->diag, l->rule->loc, PTC_INVALID_INPUT, "map-dims", "\"%s\" is [%s]: %s%s%s%s",
                l->tensor->name, shape.data ? shape.data : "", what, dim ? " \"" : "",
                dim ? dim : "", dim ? "\"" : "");
  ptc_str_deinit(&shape);
  return status;
}

static bool is_called(const dim_t *dim, const char *name) {
  if (dim->name) return strcmp(dim->name, name) == 0;
  char position[16];
  snprintf(position, sizeof(position), "%d", dim->position);
  return dim->position >= 0 && strcmp(position, name) == 0;
}

static dim_t *find_dim(linker_t *l, const char *name) {
  for (int32_t i = 0; i < l->num_dims; i++)
    if (is_called(&l->dims[i], name)) return &l->dims[i];
  return NULL;
}

// Dims that the slices do not reach are whole.
static ptc_map_slice_t slice_at(const ptc_map_side_t *side, int32_t dim) {
  return dim < side->num_slices ? side->slices[dim] : (ptc_map_slice_t){PTC_MAP_ALL, 0, 0};
}

// The dims that the rule's slices leave of our tensor, and where |link| begins. False: it has not these parts.
static bool slice_ours(linker_t *l, const int64_t *vars, ptc_map_link_t *link) {
  const ptc_map_side_t *side = &l->rule->ours;
  int64_t stride = 1;
  l->num_dims = 0;
  for (int32_t d = l->tensor->num_dims - 1; d >= 0; d--) {
    const ptc_map_slice_t slice = slice_at(side, d);
    const int64_t extent = l->tensor->shape[d];
    int64_t first = 0, left = extent;
    if (slice.kind == PTC_MAP_PART) {
      if (extent % slice.b != 0) return false;
      left = extent / slice.b;
      first = slice.a * left;
    } else if (slice.kind == PTC_MAP_RANGE) {
      if (slice.b > extent) return false;
      first = slice.a;
      left = slice.b - slice.a;
    } else if (slice.kind != PTC_MAP_ALL) {
      first = slice.kind == PTC_MAP_VAR ? vars[slice.a] : slice.a;
      left = 1;
      if (first >= extent) return false;
    }
    link->ours_first += first * stride;
    link->ours_spans[d] = (ptc_map_span_t){first, left};
    if (slice.kind <= PTC_MAP_RANGE)
      l->dims[l->num_dims++] =
          (dim_t){l->tensor->dim_names ? l->tensor->dim_names[d] : NULL, d, left, stride, false};
    stride *= extent;
  }
  for (int32_t i = 0; i < l->num_dims / 2; i++) {  // outermost first
    dim_t swapped = l->dims[i];
    l->dims[i] = l->dims[l->num_dims - 1 - i];
    l->dims[l->num_dims - 1 - i] = swapped;
  }
  return true;
}

static ptc_status_t split_dims(linker_t *l) {
  for (int32_t i = 0; i < l->rule->num_splits; i++) {
    const ptc_map_split_t *split = &l->rule->splits[i];
    dim_t *dim = find_dim(l, split->dim);
    if (!dim) return bad_dims(l, "it has no dim", split->dim);
    int64_t given = split->outer_extent ? split->outer_extent : split->inner_extent;
    if (dim->extent % given != 0) return bad_dims(l, "the split does not divide dim", split->dim);
    if (l->num_dims == 2 * PTC_MAX_DIMS) return bad_dims(l, "too many splits", NULL);
    int64_t inner = split->outer_extent ? dim->extent / given : given;
    l->dims[l->num_dims++] = (dim_t){split->inner, -1, inner, dim->stride, false};
    *dim = (dim_t){split->outer, -1, dim->extent / (inner ? inner : 1), dim->stride * inner, false};
    if (inner == 0) dim->extent = given;  // of a dim without elements
  }
  return PTC_OK;
}

// --- one link

static ptc_status_t add_axis(linker_t *l, ptc_map_link_t *link, dim_t *dim) {
  if (link->num_axes == PTC_MAX_DIMS) return bad_dims(l, "it has too many dims", NULL);
  link->axes[link->num_axes++] = (ptc_map_axis_t){dim->extent, dim->stride, 0};
  link->num_elements *= dim->extent;
  dim->used = true;
  return PTC_OK;
}

// The axes of each of their dims, from the names in the rule, or one by one.
static ptc_status_t add_axes(linker_t *l, ptc_map_link_t *link, int32_t *out_ends,
                             int32_t *out_num_groups) {
  const ptc_map_rule_t *rule = l->rule;
  int32_t group = 0;
  if (!rule->has_dims) {
    for (; group < l->num_dims && group < PTC_MAX_DIMS; group++) {
      PTC_TRY(add_axis(l, link, &l->dims[group]));
      out_ends[group] = link->num_axes;
    }
  }
  for (int32_t i = 0; i < rule->num_dims; i++) {
    dim_t *dim = find_dim(l, rule->dims[i]);
    if (!dim) return bad_dims(l, "it has no dim", rule->dims[i]);
    if (dim->used) return bad_dims(l, "the line names a dim twice, dim", rule->dims[i]);
    PTC_TRY(add_axis(l, link, dim));
    if (i + 1 == rule->group_ends[group]) out_ends[group++] = link->num_axes;
  }
  for (int32_t i = 0; i < l->num_dims; i++)
    if (!l->dims[i].used)
      return bad_dims(l, "the line leaves out dim", l->dims[i].name ? l->dims[i].name : "?");
  *out_num_groups = group;
  return PTC_OK;
}

static ptc_status_t slice_theirs(linker_t *l, ptc_map_link_t *link, const int64_t *vars,
                                 const int32_t *ends, int32_t num_groups) {
  const ptc_map_side_t *side = &l->rule->theirs;
  int32_t group = 0, d = 0;
  for (; d < side->num_slices || group < num_groups; d++) {
    ptc_map_slice_t slice = slice_at(side, d);
    if (slice.kind == PTC_MAP_VAR)
      slice = (ptc_map_slice_t){PTC_MAP_INDEX, vars[side->slices[d].a], 0};
    if (d == PTC_MAX_DIMS) return bad_dims(l, "their tensor has too many dims", NULL);
    link->slices[d] = slice;
    link->extents[d] = 1;
    link->first_axes[d] = link->end_axes[d] = group ? ends[group - 1] : 0;
    link->their_spans[d] = (ptc_map_span_t){slice.a, 1};
    if (slice.kind == PTC_MAP_INDEX) continue;
    if (group == num_groups)
      return bad_dims(l, "their tensor has more dims than ours give it", NULL);
    link->end_axes[d] = ends[group++];
    for (int32_t a = link->first_axes[d]; a < link->end_axes[d]; a++)
      link->extents[d] *= link->axes[a].extent;
    int64_t first = slice.kind == PTC_MAP_ALL ? 0 : slice.a, whole;
    if (slice.kind == PTC_MAP_PART) {
      if (__builtin_mul_overflow(slice.b, link->extents[d], &whole))
        return bad_dims(l, "their tensor is too large", NULL);
      first *= link->extents[d];
    }
    link->their_spans[d] = (ptc_map_span_t){first, link->extents[d]};
  }
  link->num_dims = d;
  return PTC_OK;
}

static ptc_status_t add_link(linker_t *l, const int64_t *vars) {
  ptc_map_link_t link = {.rule = l->rule, .tensor = l->index, .num_elements = 1};
  if (!slice_ours(l, vars, &link)) return bad_dims(l, "it has not the line's part", NULL);
  PTC_TRY(split_dims(l));
  int32_t ends[PTC_MAX_DIMS] = {0}, num_groups = 0;
  PTC_TRY(add_axes(l, &link, ends, &num_groups));
  PTC_TRY(slice_theirs(l, &link, vars, ends, num_groups));
  link.theirs = print_name(&l->links->arena, &l->rule->theirs.name, vars);
  if (l->links->links.len == MAX_LINKS) return bad_dims(l, "the map makes too many parts", NULL);
  PTC_VEC_PUSH(&l->links->links, link);
  return PTC_OK;
}

// Variables that our name does not give run over the dims that they index, from slice |first| on.
static ptc_status_t add_links(linker_t *l, int64_t *vars, int32_t first) {
  const ptc_map_side_t *side = &l->rule->ours;
  for (int32_t d = first; d < side->num_slices; d++) {
    if (side->slices[d].kind != PTC_MAP_VAR || vars[side->slices[d].a] >= 0) continue;
    int64_t *var = &vars[side->slices[d].a];
    ptc_status_t status = PTC_OK;
    for (*var = 0; *var < l->tensor->shape[d] && status == PTC_OK; ++*var)
      status = add_links(l, vars, d + 1);
    *var = -1;
    return status;
  }
  return add_link(l, vars);
}

static ptc_status_t link_rule(linker_t *l) {
  int64_t vars[PTC_MAP_MAX_VARS];
  for (int32_t i = 0; i < PTC_MAP_MAX_VARS; i++) vars[i] = -1;
  if (!ptc_map_match(&l->rule->ours.name, l->tensor->name, vars)) return PTC_OK;
  if (l->rule->ours.num_slices > l->tensor->num_dims)
    return bad_dims(l, "the line gives it more dims", NULL);
  return add_links(l, vars, 0);
}

// The same name and shape.
static void link_same(linker_t *l) {
  const ptc_host_tensor_t *tensor = l->tensor;
  ptc_map_link_t link = {.tensor = l->index,
                         .theirs = tensor->name,
                         .num_axes = tensor->num_dims,
                         .num_dims = tensor->num_dims,
                         .num_elements = 1};
  for (int32_t d = tensor->num_dims - 1; d >= 0; d--) {
    link.axes[d] = (ptc_map_axis_t){tensor->shape[d], link.num_elements, 0};
    link.extents[d] = tensor->shape[d];
    link.ours_spans[d] = link.their_spans[d] = (ptc_map_span_t){0, tensor->shape[d]};
    link.first_axes[d] = d;
    link.end_axes[d] = d + 1;
    link.num_elements *= tensor->shape[d];
  }
  PTC_VEC_PUSH(&l->links->links, link);
}

// --- overlaps

static bool overlap(const ptc_map_span_t *a, const ptc_map_span_t *b, int32_t num_dims) {
  for (int32_t d = 0; d < num_dims; d++)
    if (a[d].first >= b[d].first + b[d].extent || b[d].first >= a[d].first + a[d].extent)
      return false;
  return true;
}

// |links| of one tensor, chained by |next| from |first| on.
static int64_t find_overlap(const ptc_map_link_t *links, int64_t first, const int64_t *next,
                            bool ours, int32_t num_dims) {
  enum { MAX_PARTS = 4096 };
  int64_t parts = 0;
  for (int64_t i = first; i >= 0; i = next[i]) {
    if (++parts > MAX_PARTS) return i;
    for (int64_t k = next[i]; k >= 0; k = next[k])
      if (ours ? overlap(links[i].ours_spans, links[k].ours_spans, num_dims)
               : overlap(links[i].their_spans, links[k].their_spans, links[i].num_dims))
        return k;
  }
  return -1;
}

static int64_t find_overlaps(const ptc_map_links_t *links, const int64_t *owners,
                             int64_t num_owners, const ptc_host_tensor_t *ours) {
  ptc_arena_t scratch = {0};
  int64_t *first = PTC_ARENA_ARRAY(&scratch, int64_t, num_owners), found = -1;
  int64_t *next = PTC_ARENA_ARRAY(&scratch, int64_t, links->links.len);
  for (int64_t i = 0; i < num_owners; i++) first[i] = -1;
  for (int64_t i = links->links.len - 1; i >= 0; i--) {
    int64_t owner = owners ? owners[i] : links->links.data[i].tensor;
    next[i] = first[owner];
    first[owner] = i;
  }
  for (int64_t i = 0; i < num_owners && found < 0; i++)
    found = find_overlap(links->links.data, first[i], next, ours, ours ? ours[i].num_dims : 0);
  ptc_arena_deinit(&scratch);
  return found;
}

int64_t ptc_map_find_overlap(const ptc_map_links_t *links, const ptc_host_tensor_t *ours,
                             int64_t num_ours) {
  return find_overlaps(links, NULL, num_ours, ours);
}

int64_t ptc_map_find_their_overlap(const ptc_map_links_t *links, const int64_t *owners,
                                   int64_t num_theirs) {
  return find_overlaps(links, owners, num_theirs, NULL);
}

// --- all links

// Each element of ours is in one link.
static ptc_status_t check_parts(ptc_diag_t *diag, const ptc_map_links_t *links,
                                const ptc_host_tensor_t *ours, int64_t count) {
  int64_t *given = ptc_xmalloc((size_t)(count + 1) * sizeof(*given));
  const ptc_map_rule_t **rules = ptc_xmalloc((size_t)(count + 1) * sizeof(*rules));
  for (int64_t i = 0; i < count; i++) given[i] = -1;
  for (int64_t i = 0; i < links->links.len; i++) {
    const ptc_map_link_t *link = &links->links.data[i];
    if (given[link->tensor] < 0) given[link->tensor] = 0;
    given[link->tensor] += link->num_elements;
    rules[link->tensor] = link->rule;
  }
  ptc_status_t status = PTC_OK;
  for (int64_t i = 0; i < count; i++) {
    int64_t wanted = ptc_host_tensor_num_elements(&ours[i]);
    if (given[i] == wanted) continue;
    status = given[i] < 0
                 ? ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "map-missing",
                             "no line of the map gives \"%s\"", ours[i].name)
                 : ptc_error(diag, rules[i] ? rules[i]->loc : (ptc_loc_t){0}, PTC_INVALID_INPUT,
                             "map-parts",
                             "the lines give %" PRId64 " elements of \"%s\", which has %" PRId64,
                             given[i], ours[i].name, wanted);
  }
  free(given);
  free(rules);
  int64_t twice = status == PTC_OK ? ptc_map_find_overlap(links, ours, count) : -1;
  if (twice < 0) return status;
  const ptc_map_link_t *link = &links->links.data[twice];
  return ptc_error(diag, link->rule ? link->rule->loc : (ptc_loc_t){0}, PTC_INVALID_INPUT,
                   "map-parts", "elements of \"%s\" are given twice, or in too many parts",
                   ours[link->tensor].name);
}

ptc_status_t ptc_map_link(ptc_diag_t *diag, const ptc_name_map_t *map,
                          const ptc_host_tensor_t *ours, int64_t count,
                          ptc_map_links_t *out_links) {
  *out_links = (ptc_map_links_t){0};
  linker_t l = {.diag = diag, .links = out_links};
  ptc_status_t status = PTC_OK;
  for (int64_t i = 0; i < count; i++) {
    l.tensor = &ours[i];
    l.index = i;
    if (!map) link_same(&l);
    for (int64_t r = 0; map && r < map->rules.len; r++) {
      l.rule = &map->rules.data[r];
      ptc_status_t linked = l.rule->ignore ? PTC_OK : link_rule(&l);
      if (linked != PTC_OK) status = linked;
    }
  }
  if (status == PTC_OK) status = check_parts(diag, out_links, ours, count);
  if (status != PTC_OK) ptc_map_links_deinit(out_links);
  return status;
}

void ptc_map_links_deinit(ptc_map_links_t *links) {
  PTC_VEC_FREE(&links->links);
  ptc_arena_deinit(&links->arena);
}

// --- their shape

bool ptc_map_lay(ptc_map_link_t *link, const int64_t *shape, int32_t num_dims, int64_t *out_first) {
  *out_first = 0;
  if (num_dims != link->num_dims) return false;
  int64_t stride = 1;
  for (int32_t d = num_dims - 1; d >= 0; d--) {
    const ptc_map_slice_t slice = link->slices[d];
    const int64_t extent = link->extents[d];
    int64_t whole, first = slice.a;
    switch (slice.kind) {
      case PTC_MAP_ALL:
        first = 0;
        if (shape[d] != extent) return false;
        break;
      case PTC_MAP_PART:
        if (__builtin_mul_overflow(extent, slice.b, &whole) || shape[d] != whole) return false;
        first = slice.a * extent;
        break;
      case PTC_MAP_RANGE:
        if (slice.b > shape[d] || slice.b - slice.a != extent) return false;
        break;
      default:
        if (slice.a >= shape[d]) return false;
        break;
    }
    *out_first += first * stride;
    int64_t inner = stride;
    for (int32_t a = link->end_axes[d] - 1; a >= link->first_axes[d]; a--) {
      link->axes[a].theirs = inner;
      inner *= link->axes[a].extent;
    }
    // A file may claim any extents beside one of 0.
    if (__builtin_mul_overflow(stride, shape[d], &stride)) return false;
  }
  return true;
}
