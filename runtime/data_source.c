#include "runtime/data_source.h"

#include <glob.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/vec.h"
#include "runtime/npy.h"

// --- formats

typedef enum format_e {
  FORMAT_BYTES,
  FORMAT_U16,
  FORMAT_U32,
  FORMAT_I32,
  FORMAT_NPY,
  FORMAT_LLMC,
  NUM_FORMATS
} format_t;

static const struct {
  const char *name;
  ptc_cell_t cell;  // of the flat ones
} formats[] = {{"bytes", PTC_CELL_U8}, {"u16", PTC_CELL_U16},  {"u32", PTC_CELL_U32},
               {"i32", PTC_CELL_I32},  {"npy", PTC_NUM_CELLS}, {"llm.c", PTC_NUM_CELLS}};

static format_t parse_format(const char *name) {
  int i = 0;
  while (i < NUM_FORMATS && strcmp(formats[i].name, name) != 0) i++;
  return (format_t)i;
}

// llm.c's shards (karpathy/llm.c, dev/data/data_common.py): a header of 256 int32, of which the first are
// magic, version and the number of tokens.
enum { LLMC_HEADER_BYTES = 1024 };
static const struct {
  int32_t magic, version;
  ptc_cell_t cell;
} llmc_kinds[] = {{20240520, 1, PTC_CELL_U16}, {20240801, 7, PTC_CELL_U32}};
enum { NUM_LLMC_KINDS = sizeof(llmc_kinds) / sizeof(llmc_kinds[0]) };

static int find_llmc_kind(const ptc_mapping_t *mapping) {
  int32_t header[2];
  if (mapping->bytes < LLMC_HEADER_BYTES) return NUM_LLMC_KINDS;
  memcpy(header, mapping->data, sizeof(header));
  int i = 0;
  while (i < NUM_LLMC_KINDS &&
         (llmc_kinds[i].magic != header[0] || llmc_kinds[i].version != header[1]))
    i++;
  return i;
}

static bool ends_with(const char *text, const char *end) {
  size_t len = strlen(text), end_len = strlen(end);
  return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static format_t guess_format(const ptc_data_shard_t *shard) {
  const ptc_mapping_t *mapping = &shard->mapping;
  if (ptc_npy_is(mapping->data, mapping->bytes) || ends_with(shard->path, ".npy"))
    return FORMAT_NPY;
  if (find_llmc_kind(mapping) < NUM_LLMC_KINDS) return FORMAT_LLMC;
  if (ends_with(shard->path, ".bin") || ends_with(shard->path, ".u16")) return FORMAT_U16;
  if (ends_with(shard->path, ".u32")) return FORMAT_U32;
  if (ends_with(shard->path, ".i32")) return FORMAT_I32;
  return FORMAT_BYTES;
}

// --- one file

typedef struct opener_s {
  ptc_diag_t *diag;
  ptc_arena_t *arena;
  PTC_VEC(ptc_data_source_t) sources;
} opener_t;

static ptc_status_t bad_format(const opener_t *o, const ptc_data_shard_t *shard, const char *what) {
  return ptc_error(o->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "data-format",
                   "\"%s\", read as %s: %s; say FILE:FORMAT if the format is another (bytes, u16, "
                   "u32, i32, npy, llm.c)",
                   shard->path, shard->format, what);
}

static ptc_status_t read_flat(const opener_t *o, ptc_data_shard_t *shard, ptc_cell_t cell) {
  int64_t each = ptc_cell_bytes(cell);
  if (shard->mapping.bytes % each != 0)
    return bad_format(o, shard, "its length is no multiple of a number's");
  shard->data = shard->mapping.data;
  shard->count = shard->mapping.bytes / each;
  return PTC_OK;
}

static ptc_status_t read_llmc(const opener_t *o, ptc_data_shard_t *shard, ptc_cell_t *out_cell) {
  int kind = find_llmc_kind(&shard->mapping);
  if (kind == NUM_LLMC_KINDS) return bad_format(o, shard, "it has no header of llm.c");
  int32_t count;
  memcpy(&count, shard->mapping.data + 2 * sizeof(int32_t), sizeof(count));
  int64_t bytes = shard->mapping.bytes - LLMC_HEADER_BYTES;
  *out_cell = llmc_kinds[kind].cell;
  if (count < 0 || bytes != count * ptc_cell_bytes(*out_cell))
    return bad_format(o, shard, "its length is not what its header says");
  shard->data = shard->mapping.data + LLMC_HEADER_BYTES;
  shard->count = count;
  return PTC_OK;
}

// |out_kind|: what the source is like by this file: cell, shape, row.
static ptc_status_t read_npy(const opener_t *o, ptc_data_shard_t *shard,
                             ptc_data_source_t *out_kind) {
  ptc_npy_t npy;
  PTC_TRY(ptc_npy_parse(o->diag, shard->path, shard->mapping.data, shard->mapping.bytes, &npy));
  if (npy.num_dims == 0) return bad_format(o, shard, "it holds a single number without dims");
  out_kind->cell = npy.cell;
  out_kind->num_dims = npy.num_dims - 1;
  if (out_kind->num_dims) out_kind->row = 1;
  for (int32_t d = 0; d < out_kind->num_dims; d++) {
    out_kind->shape[d] = npy.shape[d + 1];
    if (out_kind->shape[d] == 0) return bad_format(o, shard, "its samples are empty");
    if (__builtin_mul_overflow(out_kind->row, out_kind->shape[d], &out_kind->row))
      return bad_format(o, shard, "its samples are too large");
  }
  shard->data = npy.data;
  shard->count = npy.num_elements;
  return PTC_OK;
}

static bool same_kind(const ptc_data_source_t *a, const ptc_data_source_t *b) {
  if (a->cell != b->cell || a->num_dims != b->num_dims) return false;
  for (int32_t d = 0; d < a->num_dims; d++)
    if (a->shape[d] != b->shape[d]) return false;
  return true;
}

static ptc_data_source_t *source_named(opener_t *o, const char *name) {
  for (int64_t i = 0; i < o->sources.len; i++)
    if (strcmp(o->sources.data[i].name, name) == 0) return &o->sources.data[i];
  ptc_data_source_t source = {.name = name};
  PTC_VEC_PUSH(&o->sources, source);
  return &o->sources.data[o->sources.len - 1];
}

// |format|: NUM_FORMATS if it is to be guessed.
static ptc_status_t add_file(opener_t *o, const char *name, const char *path, format_t format) {
  ptc_data_source_t *source = source_named(o, name), kind = {.name = name};
  const int32_t num_shards = source->num_shards;
  if ((num_shards & (num_shards - 1)) ==
      0) {  // full: what the list leaves behind stays in the arena
    ptc_data_shard_t *shards = PTC_ARENA_ARRAY(o->arena, ptc_data_shard_t, 2 * num_shards + 1);
    if (num_shards) memcpy(shards, source->shards, (size_t)num_shards * sizeof(*shards));
    source->shards = shards;
  }
  ptc_data_shard_t *shard = &source->shards[num_shards];
  shard->path = ptc_arena_strdup(o->arena, path);
  PTC_TRY(ptc_mapping_open(o->diag, path, &shard->mapping));
  source->num_shards++;
  if (format == NUM_FORMATS) format = guess_format(shard);
  shard->format = formats[format].name;
  kind.cell = formats[format].cell;
  if (format == FORMAT_NPY)
    PTC_TRY(read_npy(o, shard, &kind));
  else if (format == FORMAT_LLMC)
    PTC_TRY(read_llmc(o, shard, &kind.cell));
  else
    PTC_TRY(read_flat(o, shard, kind.cell));
  kind.shards = source->shards;
  kind.num_shards = source->num_shards;
  if (source->num_shards > 1 && !same_kind(&kind, source)) {
    ptc_str_t what = {0};
    ptc_str_printf(&what, "\"%s\" of the same source has numbers or samples of another kind",
                   source->shards[0].path);
    ptc_status_t status = bad_format(o, shard, what.data);
    ptc_str_deinit(&what);
    return status;
  }
  *source = kind;
  return PTC_OK;
}

// --- options

static ptc_status_t add_pattern(opener_t *o, const char *name, const char *pattern,
                                format_t format) {
  if (!strpbrk(pattern, "*?[") || access(pattern, F_OK) == 0)
    return add_file(o, name, pattern, format);
  glob_t matches;
  if (glob(pattern, 0, NULL, &matches) != 0)
    return ptc_error(o->diag, (ptc_loc_t){0}, PTC_IO, "read-file",
                     "cannot read \"%s\": no file matches", pattern);
  ptc_status_t status = PTC_OK;
  for (size_t i = 0; i < matches.gl_pathc && status == PTC_OK; i++)
    status = add_file(o, name, matches.gl_pathv[i], format);
  globfree(&matches);
  return status;
}

static ptc_status_t add_spec(opener_t *o, const char *spec) {
  const char *equals = strchr(spec, '=');
  if (!equals || equals == spec || !equals[1])
    return ptc_error(o->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "data-option",
                     "\"%s\" does not name a source and its file (SOURCE=FILE or "
                     "SOURCE=FILE:FORMAT)",
                     spec);
  const char *name = ptc_arena_strndup(o->arena, spec, (size_t)(equals - spec));
  char *path = ptc_arena_strdup(o->arena, equals + 1), *colon = strrchr(path, ':');
  format_t format = NUM_FORMATS;
  // A colon that no format follows belongs to the file's name.
  if (colon && colon > path && parse_format(colon + 1) < NUM_FORMATS) {
    format = parse_format(colon + 1);
    *colon = '\0';
  }
  return add_pattern(o, name, path, format);
}

ptc_status_t ptc_data_sources_open(ptc_diag_t *diag, const char *const *specs, int32_t num_specs,
                                   ptc_data_sources_t *out_sources) {
  *out_sources = (ptc_data_sources_t){0};
  opener_t o = {.diag = diag, .arena = &out_sources->arena};
  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < num_specs && status == PTC_OK; i++) status = add_spec(&o, specs[i]);
  out_sources->num_sources = (int32_t)o.sources.len;
  out_sources->sources = PTC_ARENA_ARRAY(o.arena, ptc_data_source_t, o.sources.len);
  if (o.sources.len)
    memcpy(out_sources->sources, o.sources.data, (size_t)o.sources.len * sizeof(*o.sources.data));
  PTC_VEC_FREE(&o.sources);
  if (status != PTC_OK) ptc_data_sources_close(out_sources);
  return status;
}

void ptc_data_sources_close(ptc_data_sources_t *sources) {
  for (int32_t i = 0; i < sources->num_sources; i++)
    for (int32_t k = 0; k < sources->sources[i].num_shards; k++)
      ptc_mapping_close(&sources->sources[i].shards[k].mapping);
  ptc_arena_deinit(&sources->arena);
  *sources = (ptc_data_sources_t){0};
}

const ptc_data_source_t *ptc_data_sources_find(const ptc_data_sources_t *sources,
                                               const char *name) {
  for (int32_t i = 0; i < sources->num_sources; i++)
    if (strcmp(sources->sources[i].name, name) == 0) return &sources->sources[i];
  return NULL;
}
