// A parsed name map, and its lines applied to tensors.
#ifndef PTC_RUNTIME_NAME_MAP_IMPL_H_
#define PTC_RUNTIME_NAME_MAP_IMPL_H_

#include "ir/base/vec.h"
#include "runtime/name_map.h"

enum { PTC_MAP_MAX_VARS = 8, PTC_MAP_MAX_RULES = 100000 };

// One entry of [...].
typedef enum ptc_map_slice_kind_e {
  PTC_MAP_ALL,    // :
  PTC_MAP_PART,   // a/b: part a of b equal ones
  PTC_MAP_RANGE,  // a:b
  PTC_MAP_INDEX,  // a; the dim goes
  PTC_MAP_VAR,    // {name}: an index that the names give, or each one; a is the variable
} ptc_map_slice_kind_t;

typedef struct ptc_map_slice_s {
  ptc_map_slice_kind_t kind;
  int64_t a, b;
} ptc_map_slice_t;

// A name of letters and {variables}: parts[0] vars[0] parts[1] vars[1] ... parts[num_vars].
typedef struct ptc_map_pattern_s {
  const char *text;
  const char *parts[PTC_MAP_MAX_VARS + 1];
  int32_t vars[PTC_MAP_MAX_VARS];  // numbers of the rule's variables
  int32_t num_vars;
} ptc_map_pattern_t;

typedef struct ptc_map_side_s {
  ptc_map_pattern_t name;
  ptc_map_slice_t slices[PTC_MAX_DIMS];
  int32_t num_slices;  // further dims are whole
} ptc_map_side_t;

// `where k = p:2 j`: our dim k is p outside of j; one of the two has its extent.
typedef struct ptc_map_split_s {
  const char *dim, *outer, *inner;
  int64_t outer_extent, inner_extent;  // one of them; the other is 0
} ptc_map_split_t;

typedef struct ptc_map_rule_s {
  ptc_loc_t loc;
  bool ignore;
  ptc_map_side_t theirs, ours;
  const char *vars[PTC_MAP_MAX_VARS];
  int32_t num_vars;
  bool has_dims;
  // Each of their dims as names of ours, outermost first; group_ends[i] is the end of dim i's names.
  const char *dims[PTC_MAX_DIMS];
  int32_t num_dims;
  int32_t group_ends[PTC_MAX_DIMS], num_groups;
  ptc_map_split_t splits[PTC_MAX_DIMS];
  int32_t num_splits;
} ptc_map_rule_t;

struct ptc_name_map_s {
  ptc_arena_t arena;
  PTC_VEC(ptc_map_rule_t) rules;
  PTC_VEC(const char *) prefixes;
};

// One dim that both sides walk.
typedef struct ptc_map_axis_s {
  int64_t extent, ours, theirs;  // strides in elements
} ptc_map_axis_t;

// Part of a dim: [first, first + extent).
typedef struct ptc_map_span_s {
  int64_t first, extent;
} ptc_map_span_t;

// A rule applied to one of our tensors: which elements are which of theirs.
typedef struct ptc_map_link_s {
  const ptc_map_rule_t *rule;  // NULL: the same name and shape
  int64_t tensor;              // of ours
  const char *theirs;          // name, in the links' arena
  ptc_map_axis_t axes[PTC_MAX_DIMS];
  int32_t num_axes;
  int64_t ours_first;                                                  // element
  ptc_map_span_t ours_spans[PTC_MAX_DIMS], their_spans[PTC_MAX_DIMS];  // the same, dim by dim
  int64_t num_elements;
  // Of the tensor of theirs, dim by dim, indices included.
  int32_t num_dims;
  ptc_map_slice_t slices[PTC_MAX_DIMS];  // variables filled in: indices
  int64_t extents[PTC_MAX_DIMS];         // of what the slice leaves; 1 for an index
  int32_t first_axes[PTC_MAX_DIMS], end_axes[PTC_MAX_DIMS];  // axes that make up the dim
} ptc_map_link_t;

typedef struct ptc_map_links_s {
  ptc_arena_t arena;
  PTC_VEC(ptc_map_link_t) links;
} ptc_map_links_t;

// A link that shares elements with another, of ours or (by |owners|: the tensor of each link) of theirs; -1: none.
// A tensor in very many parts counts as such: nobody compared them.
int64_t ptc_map_find_overlap(const ptc_map_links_t *links, const ptc_host_tensor_t *ours,
                             int64_t num_ours);
int64_t ptc_map_find_their_overlap(const ptc_map_links_t *links, const int64_t *owners,
                                   int64_t num_theirs);
// Whether |name| is one of |pattern|; then sets its variables in |vars| (-1: not set; a variable that occurs twice
// must be the same number).
bool ptc_map_match(const ptc_map_pattern_t *pattern, const char *name, int64_t *vars);
// Every rule on every tensor of ours that it is about. Diagnostics: "map-dims", "map-missing", "map-parts".
ptc_status_t ptc_map_link(ptc_diag_t *diag, const ptc_name_map_t *map,
                          const ptc_host_tensor_t *ours, int64_t count, ptc_map_links_t *out_links);
void ptc_map_links_deinit(ptc_map_links_t *links);
// Lays |link| over a tensor of theirs of |shape|: sets the strides of its axes and gives the first element. False if
// the shape is not what the link says.
bool ptc_map_lay(ptc_map_link_t *link, const int64_t *shape, int32_t num_dims, int64_t *out_first);

#endif  // PTC_RUNTIME_NAME_MAP_IMPL_H_
