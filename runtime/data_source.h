// Data files behind the sources of a model's inputs (`input tokens[b, s] : int from text`): mapped, seen as
// one list of numbers, or of samples, whatever their format.
#ifndef PTC_RUNTIME_DATA_SOURCE_H_
#define PTC_RUNTIME_DATA_SOURCE_H_

#include "ir/base/diag.h"
#include "runtime/cell.h"
#include "runtime/mapping.h"

// One file of a source.
typedef struct ptc_data_shard_s {
  const char *path;
  const char *format;  // "u16", "bytes", "npy", "llm.c": for diagnostics
  ptc_mapping_t mapping;
  const unsigned char *data;  // in the mapping, of any alignment
  int64_t count;              // numbers
} ptc_data_shard_t;

// Files of one format in a fixed order. Without dims it is a stream of numbers; with dims each file is a
// list of samples of that shape.
typedef struct ptc_data_source_s {
  const char *name;
  ptc_cell_t cell;
  int32_t num_dims;
  int64_t shape[PTC_MAX_DIMS];  // of one sample
  int64_t row;                  // numbers of one sample; 0: a stream
  ptc_data_shard_t *shards;
  int32_t num_shards;
} ptc_data_source_t;

typedef struct ptc_data_sources_s {
  ptc_arena_t arena;  // owns all but the mappings
  ptc_data_source_t *sources;
  int32_t num_sources;
} ptc_data_sources_t;

// Opens the files of |specs|, each `SOURCE=FILE` or `SOURCE=FILE:FORMAT`. FILE may be a pattern (*, ?, [);
// its matches, and further specs of the same source, are shards in that order. FORMAT is bytes, u16, u32,
// i32, npy or llm.c; without it: a .npy or llm.c header, else .bin and .u16 hold u16, .u32 u32, .i32 i32, and
// any other file's bytes are its numbers. A .npy of one dim is a stream, of more a list of samples.
// Diagnostics: "data-option", "read-file", "bad-npy", "data-format"; then |out_sources| is empty.
ptc_status_t ptc_data_sources_open(ptc_diag_t *diag, const char *const *specs, int32_t num_specs,
                                   ptc_data_sources_t *out_sources);
void ptc_data_sources_close(ptc_data_sources_t *sources);
// NULL if there is none.
const ptc_data_source_t *ptc_data_sources_find(const ptc_data_sources_t *sources, const char *name);

#endif  // PTC_RUNTIME_DATA_SOURCE_H_
