// The part of a whole tensor that one rank holds: which of its elements lie where in the whole.
#ifndef PTC_RUNTIME_SHARDS_H_
#define PTC_RUNTIME_SHARDS_H_

#include "ir/plan.h"
#include "runtime/communicator.h"
#include "runtime/safetensors.h"

enum { PTC_SHARD_RUNS = 2 };  // of a dim: one of a block, two of a zigzag

// Elements [local, local + count) of a dim are elements [whole, whole + count) of the whole.
typedef struct ptc_shard_run_s {
  int64_t whole, local, count;
} ptc_shard_run_t;

typedef struct ptc_shard_s {
  ptc_host_tensor_t whole;                             // of its name, dtype and shape; no data
  char *data;                                          // the part, row-major, padding included
  int64_t extents[PTC_MAX_DIMS];                       // of the part
  ptc_shard_run_t runs[PTC_MAX_DIMS][PTC_SHARD_RUNS];  // without padding; count 0: none
  bool is_whole;                                       // the part is all of it
  bool is_owner;  // of all ranks with this part, this one writes it
} ptc_shard_t;

// The part of |buffer| that |rank| has at |data|; |name| and the buffer's texts must live as long.
ptc_shard_t ptc_shard_of(const ptc_plan_t *plan, const ptc_buffer_t *buffer, int64_t rank,
                         const char *name, void *data);

// Calls |fn| for every run of bytes: where it lies in the whole, and in the part. Stops at the first error.
typedef ptc_status_t (*ptc_shard_fn_t)(void *arg, int64_t whole_at, char *part, int64_t bytes);
ptc_status_t ptc_shard_walk(const ptc_shard_t *shard, ptc_shard_fn_t fn, void *arg);
// Takes the part out of the whole tensor at |whole|.
void ptc_shard_load(const ptc_shard_t *shard, const void *whole);

// What a tensor file has, for a manifest.
typedef struct ptc_shards_file_s {
  int64_t bytes;
  uint32_t crc,
      *tensor_crcs;  // CRC-32; the caller frees the list, which is NULL on ranks other than 0
} ptc_shards_file_t;

// Writes the safetensors file |path| of whole tensors: every rank of |comm| calls it with its parts of the same
// tensors in the same order, and their owners write them. The file is synced, and complete when this returns on
// any rank; after an error it may be anything. "write-file" (PTC_IO).
ptc_status_t ptc_shards_write(ptc_diag_t *diag, ptc_comm_t *comm, const char *path,
                              const ptc_shard_t *shards, int64_t count,
                              ptc_shards_file_t *out_file);

#endif  // PTC_RUNTIME_SHARDS_H_
