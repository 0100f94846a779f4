// Random collectives, and what they give by definition: element by element, without looking at pieces and streams.
#ifndef PTC_TESTS_SUPPORT_COMM_CASE_H_
#define PTC_TESTS_SUPPORT_COMM_CASE_H_

#include "runtime/communicator.h"

enum { COMM_CASE_MAX_PARTS = 4 };

// One tensor: [outer][extent][inner] for all kinds but ALL_TO_ALL, where it is [outer][first][middle][second][inner] and
// the split moves from dim |from| (0: first) to the other one. Extents are whole.
typedef struct comm_tensor_s {
  int64_t outer, extents[2], middle, inner;
  int32_t from;
} comm_tensor_t;

typedef struct comm_case_s {
  ptc_collective_t collective;
  ptc_collective_part_t parts[COMM_CASE_MAX_PARTS];
  comm_tensor_t tensors[COMM_CASE_MAX_PARTS];
  bool in_place;
  uint64_t seed;
  int32_t size;  // of the group
} comm_case_t;

// Where arrays lie: memory that the host can read and write once |finish| has waited for the device.
typedef struct comm_memory_s {
  void *(*alloc)(void *arg, size_t bytes);
  void (*free)(void *arg, void *memory);
  ptc_status_t (*finish)(void *arg, ptc_diag_t *diag);
  void *arg;
} comm_memory_t;

// A random collective of a group of |size|; the same for all that have the same |seed|.
void comm_case_random(comm_case_t *test, uint64_t seed, int32_t size);
// Member |me| calls it in |group|; how many bytes of its results are wrong, and one more if it failed or if the bytes that
// were counted are not those that the definition has. Guard bytes lie around the results. |memory| NULL: the host's.
int64_t comm_case_run(const comm_case_t *test, ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                      int32_t me, const comm_memory_t *memory);

enum { COMM_PARTITION_MAX = 16 };
// All ranks of |world| in a random order, cut into groups at random places: those of the one that |rank| is in, as many as
// are returned, and its number.
int32_t comm_partition(uint64_t seed, int32_t world, int32_t rank, int32_t *out_ranks,
                       int32_t *out_number);

#endif  // PTC_TESTS_SUPPORT_COMM_CASE_H_
