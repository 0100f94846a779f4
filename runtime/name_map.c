#include "runtime/name_map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/map.h"
#include "runtime/name_map_impl.h"

// --- copying between layouts

// Numbers of one side.
typedef struct lane_s {
  unsigned char *data;  // its first element
  ptc_cell_t cell;
  ptc_dtype_t dtype;  // of what is written
} lane_t;

typedef struct walk_s {
  int64_t extent, from, to;  // strides in elements
} walk_t;

static int larger_first(const void *a, const void *b) {
  const walk_t *x = a, *y = b;
  return (x->to < y->to) - (x->to > y->to);
}

static void copy_strided(const unsigned char *from, int64_t from_bytes, unsigned char *to,
                         int64_t to_bytes, int64_t each, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    memcpy(to + i * to_bytes, from + i * from_bytes, (size_t)each);
}

// |count| numbers along one dim: gathered, converted, scattered; what is dense is not moved twice.
static void copy_run(const unsigned char *from, ptc_cell_t cell, int64_t from_stride,
                     unsigned char *to, ptc_dtype_t dtype, int64_t to_stride, int64_t count) {
  enum { PIECE = 512 };
  unsigned char gathered[8 * PIECE], converted[8 * PIECE];
  const int64_t in = ptc_cell_bytes(cell), out = ptc_dtype_bytes(dtype);
  if (from_stride == 1 && to_stride == 1) {
    ptc_cell_convert(cell, from, dtype, to, count);
    return;
  }
  for (int64_t i = 0; i < count; i += PIECE) {
    int64_t n = count - i < PIECE ? count - i : PIECE;
    const unsigned char *source = from + i * from_stride * in;
    unsigned char *target = to + i * to_stride * out;
    if (from_stride != 1) {
      copy_strided(source, from_stride * in, gathered, in, in, n);
      source = gathered;
    }
    ptc_cell_convert(cell, source, dtype, to_stride == 1 ? target : converted, n);
    if (to_stride != 1) copy_strided(converted, out, target, to_stride * out, out, n);
  }
}

static void copy_walks(const walk_t *walks, int32_t num_walks, const lane_t *from, int64_t from_at,
                       const lane_t *to, int64_t to_at) {
  if (num_walks <= 1) {
    const walk_t walk = num_walks ? walks[0] : (walk_t){1, 1, 1};
    copy_run(from->data + from_at * ptc_cell_bytes(from->cell), from->cell, walk.from,
             to->data + to_at * ptc_dtype_bytes(to->dtype), to->dtype, walk.to, walk.extent);
    return;
  }
  for (int64_t i = 0; i < walks[0].extent; i++)
    copy_walks(walks + 1, num_walks - 1, from, from_at + i * walks[0].from, to,
               to_at + i * walks[0].to);
}

// Writes |to| in its order. |import|: from theirs to ours.
static void copy_link(const ptc_map_link_t *link, bool import, const lane_t *from,
                      const lane_t *to) {
  walk_t walks[PTC_MAX_DIMS];
  if (link->num_elements == 0) return;
  for (int32_t a = 0; a < link->num_axes; a++) {
    const ptc_map_axis_t *axis = &link->axes[a];
    walks[a] = import ? (walk_t){axis->extent, axis->theirs, axis->ours}
                      : (walk_t){axis->extent, axis->ours, axis->theirs};
  }
  if (link->num_axes) qsort(walks, (size_t)link->num_axes, sizeof(*walks), larger_first);
  copy_walks(walks, link->num_axes, from, 0, to, 0);
}

// --- diagnostics

static ptc_loc_t loc_of(const ptc_map_link_t *link) {
  return link->rule ? link->rule->loc : (ptc_loc_t){0};
}

static ptc_status_t bad_shape(ptc_diag_t *diag, const ptc_map_link_t *link,
                              const ptc_host_tensor_t *ours, const int64_t *shape,
                              int32_t num_dims) {
  ptc_str_t has = {0}, wants = {0};
  for (int32_t d = 0; d < num_dims; d++)
    ptc_str_printf(&has, "%s%" PRId64, d ? ", " : "", shape[d]);
  for (int32_t d = 0; d < link->num_dims; d++) {
    const ptc_map_slice_t slice = link->slices[d];
    ptc_str_append(&wants, d ? ", " : "");
    if (slice.kind == PTC_MAP_ALL)
      ptc_str_printf(&wants, "%" PRId64, link->extents[d]);
    else if (slice.kind == PTC_MAP_PART)
      ptc_str_printf(&wants, "%" PRId64 " * %" PRId64, slice.b, link->extents[d]);
    else
      ptc_str_printf(&wants, "more than %" PRId64,
                     slice.kind == PTC_MAP_RANGE ? slice.b - 1 : slice.a);
  }
  ptc_status_t status =
      ptc_error(diag, loc_of(link), PTC_INVALID_INPUT, "map-shape",
                "\"%s\" has the shape [%s], but for \"%s\" it must be [%s]", link->theirs,
                has.data ? has.data : "", ours->name, wants.data ? wants.data : "");
  ptc_str_deinit(&has);
  ptc_str_deinit(&wants);
  return status;
}

// --- import

typedef struct import_s {
  ptc_diag_t *diag;
  const ptc_name_map_t *map;
  const ptc_safetensors_t *files;
  int32_t num_files;
  bool **used;  // by file and entry
} import_t;

static const ptc_tensor_entry_t *find_as(const import_t *m, const char *name, int32_t *out_file) {
  const ptc_tensor_entry_t *entry = NULL;
  for (*out_file = 0; *out_file < m->num_files; ++*out_file) {
    entry = ptc_safetensors_find(&m->files[*out_file], name);
    if (entry) break;
  }
  return entry;
}

// By its name, or that with one of the optional prefixes.
static const ptc_tensor_entry_t *find_entry(const import_t *m, const char *name,
                                            int32_t *out_file) {
  const ptc_tensor_entry_t *entry = find_as(m, name, out_file);
  for (int64_t i = 0; m->map && !entry && i < m->map->prefixes.len; i++) {
    ptc_str_t longer = {0};
    ptc_str_printf(&longer, "%s%s", m->map->prefixes.data[i], name);
    entry = find_as(m, longer.data, out_file);
    ptc_str_deinit(&longer);
  }
  return entry;
}

static ptc_status_t import_link(const import_t *m, ptc_map_link_t *link,
                                const ptc_host_tensor_t *ours) {
  int32_t file;
  int64_t first;
  const ptc_tensor_entry_t *entry = find_entry(m, link->theirs, &file);
  if (!entry)
    return ptc_error(m->diag, loc_of(link), PTC_INVALID_INPUT, "map-missing",
                     "\"%s\" has no tensor \"%s\", which \"%s\" comes from",
                     m->num_files ? m->files[0].path : "", link->theirs, ours->name);
  m->used[file][entry - m->files[file].entries] = true;
  if (entry->cell == PTC_NUM_CELLS)
    return ptc_error(m->diag, loc_of(link), PTC_INVALID_INPUT, "bad-tensor-file",
                     "\"%s\": %s: no dtype that can be read", m->files[file].path, entry->name);
  if (!ptc_map_lay(link, entry->shape, entry->num_dims, &first))
    return bad_shape(m->diag, link, ours, entry->shape, entry->num_dims);
  lane_t from = {(unsigned char *)(uintptr_t)entry->data + first * ptc_cell_bytes(entry->cell),
                 entry->cell, 0};
  lane_t to = {(unsigned char *)ours->data + link->ours_first * ptc_dtype_bytes(ours->dtype), 0,
               ours->dtype};
  copy_link(link, true, &from, &to);
  return PTC_OK;
}

static bool is_ignored(const ptc_name_map_t *map, const char *name) {
  for (int64_t p = -1; p < map->prefixes.len; p++) {
    const char *rest = name;
    if (p >= 0) {
      size_t len = strlen(map->prefixes.data[p]);
      if (strncmp(name, map->prefixes.data[p], len) != 0) continue;
      rest += len;
    }
    for (int64_t r = 0; r < map->rules.len; r++) {
      int64_t vars[PTC_MAP_MAX_VARS] = {-1, -1, -1, -1, -1, -1, -1, -1};
      const ptc_map_rule_t *rule = &map->rules.data[r];
      if (rule->ignore && ptc_map_match(&rule->theirs.name, rest, vars)) return true;
    }
  }
  return false;
}

// A file may hold more than is needed; that is worth a word.
static void report_unused(const import_t *m) {
  const char *first = NULL, *path = NULL;
  int64_t count = 0;
  for (int32_t f = 0; f < m->num_files; f++)
    for (int64_t i = 0; i < m->files[f].count; i++) {
      const char *name = m->files[f].entries[i].name;
      if (m->used[f][i] || (m->map && is_ignored(m->map, name))) continue;
      if (count++) continue;
      first = name;
      path = m->files[f].path;
    }
  if (count == 1)
    ptc_warning(m->diag, (ptc_loc_t){0}, "map-unused", "\"%s\" of \"%s\" is not used", first, path);
  if (count > 1)
    ptc_warning(m->diag, (ptc_loc_t){0}, "map-unused",
                "\"%s\" of \"%s\" and %" PRId64 " other tensors are not used", first, path,
                count - 1);
}

ptc_status_t ptc_name_map_import(ptc_diag_t *diag, const ptc_name_map_t *map,
                                 const ptc_safetensors_t *files, int32_t num_files,
                                 const ptc_host_tensor_t *ours, int64_t count) {
  ptc_map_links_t links;
  PTC_TRY(ptc_map_link(diag, map, ours, count, &links));
  ptc_arena_t arena = {0};
  import_t m = {diag, map, files, num_files, PTC_ARENA_ARRAY(&arena, bool *, num_files)};
  for (int32_t f = 0; f < num_files; f++) m.used[f] = PTC_ARENA_ARRAY(&arena, bool, files[f].count);
  ptc_status_t status = PTC_OK;
  for (int64_t i = 0; i < links.links.len; i++) {
    ptc_map_link_t *link = &links.links.data[i];
    ptc_status_t imported = import_link(&m, link, &ours[link->tensor]);
    if (imported != PTC_OK) status = imported;
  }
  if (status == PTC_OK) report_unused(&m);
  ptc_arena_deinit(&arena);
  ptc_map_links_deinit(&links);
  return status;
}

// --- export

typedef struct export_s {
  ptc_diag_t *diag;
  ptc_arena_t arena;
  ptc_map_links_t links;
  const ptc_host_tensor_t *ours;
  PTC_VEC(ptc_host_tensor_t) theirs;
  int64_t *their_index;  // of each link
  int64_t *first,
      *next;  // of each tensor of theirs its first link, of each link the next; -1: none
} export_t;

// What |link| says of the extents of its tensor.
static bool grow_shape(const ptc_map_link_t *link, ptc_host_tensor_t *tensor) {
  if (tensor->num_dims != link->num_dims) return false;
  for (int32_t d = 0; d < link->num_dims; d++) {
    const ptc_map_slice_t slice = link->slices[d];
    int64_t extent = slice.kind == PTC_MAP_ALL     ? link->extents[d]
                     : slice.kind == PTC_MAP_RANGE ? slice.b
                                                   : slice.a + 1;
    if (slice.kind == PTC_MAP_PART && __builtin_mul_overflow(link->extents[d], slice.b, &extent))
      return false;
    if (extent > tensor->shape[d]) tensor->shape[d] = extent;
  }
  return true;
}

static ptc_status_t collect(export_t *x, ptc_dtype_t dtype) {
  ptc_interner_t names;
  ptc_map_t index = {0};
  ptc_interner_init(&names, &x->arena);
  x->their_index = PTC_ARENA_ARRAY(&x->arena, int64_t, x->links.links.len);
  ptc_status_t status = PTC_OK;
  for (int64_t i = 0; i < x->links.links.len && status == PTC_OK; i++) {
    const ptc_map_link_t *link = &x->links.links.data[i];
    const ptc_host_tensor_t *ours = &x->ours[link->tensor];
    const char *name = ptc_intern(&names, link->theirs);
    int64_t found = (int64_t)(intptr_t)ptc_map_get(&index, name) - 1;
    if (found < 0) {
      found = x->theirs.len;
      bool cast = dtype != PTC_NUM_DTYPES && ptc_dtype_is_float(ours->dtype);
      ptc_host_tensor_t tensor = {
          .name = name, .dtype = cast ? dtype : ours->dtype, .num_dims = link->num_dims};
      PTC_VEC_PUSH(&x->theirs, tensor);
      ptc_map_set(&index, name, (void *)(intptr_t)(found + 1));
    }
    x->their_index[i] = found;
    ptc_host_tensor_t *tensor = &x->theirs.data[found];
    if (!grow_shape(link, tensor))
      status = bad_shape(x->diag, link, ours, tensor->shape, tensor->num_dims);
  }
  ptc_map_deinit(&index);
  ptc_interner_deinit(&names);
  return status;
}

static void chain_links(export_t *x) {
  x->first = PTC_ARENA_ARRAY(&x->arena, int64_t, x->theirs.len);
  x->next = PTC_ARENA_ARRAY(&x->arena, int64_t, x->links.links.len);
  for (int64_t i = 0; i < x->theirs.len; i++) x->first[i] = -1;
  for (int64_t i = x->links.links.len - 1; i >= 0; i--) {
    x->next[i] = x->first[x->their_index[i]];
    x->first[x->their_index[i]] = i;
  }
}

// Every link fits the shape that all give together, and they fill it.
static ptc_status_t check_export(export_t *x) {
  int64_t *filled = PTC_ARENA_ARRAY(&x->arena, int64_t, x->theirs.len);
  for (int64_t i = 0; i < x->links.links.len; i++) {
    ptc_map_link_t *link = &x->links.links.data[i];
    const ptc_host_tensor_t *tensor = &x->theirs.data[x->their_index[i]];
    int64_t first;
    if (ptc_host_tensor_bytes(tensor) < 0 ||
        !ptc_map_lay(link, tensor->shape, tensor->num_dims, &first))
      return bad_shape(x->diag, link, &x->ours[link->tensor], tensor->shape, tensor->num_dims);
    filled[x->their_index[i]] += link->num_elements;
  }
  for (int64_t i = 0; i < x->theirs.len; i++) {
    int64_t wanted = ptc_host_tensor_num_elements(&x->theirs.data[i]);
    if (filled[i] != wanted)
      return ptc_error(x->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "map-parts",
                       "the lines give %" PRId64 " elements of \"%s\", which has %" PRId64,
                       filled[i], x->theirs.data[i].name, wanted);
  }
  int64_t twice = ptc_map_find_their_overlap(&x->links, x->their_index, x->theirs.len);
  if (twice < 0) return PTC_OK;
  const ptc_map_link_t *link = &x->links.links.data[twice];
  return ptc_error(x->diag, loc_of(link), PTC_INVALID_INPUT, "map-parts",
                   "elements of \"%s\" are given twice, or in too many parts", link->theirs);
}

static void fill(export_t *x, int64_t index, unsigned char *data) {
  const ptc_host_tensor_t *tensor = &x->theirs.data[index];
  for (int64_t i = x->first[index]; i >= 0; i = x->next[i]) {
    ptc_map_link_t *link = &x->links.links.data[i];
    const ptc_host_tensor_t *ours = &x->ours[link->tensor];
    int64_t first = 0;
    (void)ptc_map_lay(link, tensor->shape, tensor->num_dims, &first);
    const int64_t each = ptc_dtype_bytes(ours->dtype);
    lane_t from = {(unsigned char *)ours->data + link->ours_first * each,
                   ptc_cell_of_dtype(ours->dtype), 0};
    lane_t to = {data + first * ptc_dtype_bytes(tensor->dtype), 0, tensor->dtype};
    copy_link(link, false, &from, &to);
  }
}

static ptc_status_t write_file(export_t *x, const char *path) {
  ptc_safetensors_writer_t writer;
  ptc_status_t status =
      ptc_safetensors_create(x->diag, path, x->theirs.data, x->theirs.len, &writer);
  for (int64_t i = 0; i < x->theirs.len && status == PTC_OK; i++) {
    const int64_t bytes = ptc_host_tensor_bytes(&x->theirs.data[i]);
    unsigned char *data = ptc_xmalloc((size_t)bytes + 1);
    fill(x, i, data);
    status = ptc_safetensors_put(&writer, data, bytes);
    free(data);
  }
  if (status == PTC_OK) status = ptc_safetensors_finish(&writer);
  ptc_safetensors_writer_deinit(&writer);
  return status;
}

ptc_status_t ptc_name_map_export(ptc_diag_t *diag, const ptc_name_map_t *map,
                                 const ptc_host_tensor_t *ours, int64_t count, ptc_dtype_t dtype,
                                 const char *path) {
  export_t x = {.diag = diag, .ours = ours};
  PTC_TRY(ptc_map_link(diag, map, ours, count, &x.links));
  ptc_status_t status = collect(&x, dtype);
  if (status == PTC_OK) status = check_export(&x);
  if (status == PTC_OK) {
    chain_links(&x);
    status = write_file(&x, path);
  }
  PTC_VEC_FREE(&x.theirs);
  ptc_map_links_deinit(&x.links);
  ptc_arena_deinit(&x.arena);
  return status;
}
