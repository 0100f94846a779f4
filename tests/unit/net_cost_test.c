// Proves: the model of NCCL's tuner gives the algorithm, protocol and time of reference values; groups lie on nodes as
// their axes say; times are near measured ones, and grow with bytes and with groups that share NICs.
#include "passes/planner/net_cost.h"

#include <math.h>

#include "frontend/cluster.h"
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

// --- groups

typedef struct catalog_s {
  ptc_diag_t diag;
  ptc_arena_t arena;
} catalog_t;

static void open_catalog(catalog_t *catalog) {
  ptc_diag_init(&catalog->diag);
  ptc_arena_init(&catalog->arena);
}

static void close_catalog(catalog_t *catalog) {
  ptc_arena_deinit(&catalog->arena);
  ptc_diag_deinit(&catalog->diag);
}

static const ptc_cluster_t *named(catalog_t *catalog, const char *spec) {
  ptc_cluster_t *cluster = NULL;
  CU_ASSERT_FATAL(ptc_cluster_find(&catalog->diag, &catalog->arena, NULL, spec, &cluster) ==
                  PTC_OK);
  return cluster;
}

static uint32_t mask_of(const char *axes) {
  uint32_t mask = 0;
  for (int axis = 0; axis < PTC_NUM_DEVICE_AXES; axis++)
    if (strstr(axes, ptc_device_axis_names[axis])) mask |= 1u << axis;
  return mask;
}

static void test_shapes(void) {
  static const struct {
    const char *cluster;
    int64_t size[PTC_NUM_DEVICE_AXES];  // pp dp ep cp tp
    const char *axes;
    ptc_group_shape_t shape;
  } cases[] = {
      {"dgx_h100:16", {2, 8, 1, 1, 8}, "tp", {8, 8, 1, 1, 0}},
      {"dgx_h100:16", {2, 8, 1, 1, 8}, "dp", {8, 1, 8, 8, 0}},
      {"dgx_h100:16", {2, 8, 1, 1, 8}, "pp", {2, 1, 2, 8, 0}},
      {"dgx_h100:16", {1, 32, 1, 1, 4}, "dp", {32, 2, 16, 4, 0}},
      {"dgx_h100:16", {1, 128, 1, 1, 1}, "dp", {128, 8, 16, 1, 0}},
      {"dgx_h100:16", {1, 4, 4, 4, 2}, "dp ep cp tp", {128, 8, 16, 1, 0}},
      {"dgx_h100:16", {1, 4, 4, 4, 2}, "ep tp", {8, 2, 4, 4, 0}},
      {"dgx_h100:16", {1, 4, 4, 4, 2}, "cp", {4, 4, 1, 2, 0}},
      {"dgx_h100:2", {1, 1, 1, 1, 16}, "tp", {16, 8, 2, 1, 0}},
      {"dgx_h100", {1, 2, 1, 1, 2}, "dp", {2, 2, 1, 2, 0}},
      {"gb200_nvl72:36", {1, 2, 1, 1, 72}, "tp", {72, 72, 1, 1, 0}},
      {"gb200_nvl72:36", {1, 2, 1, 1, 72}, "dp", {2, 1, 2, 72, 0}},
      {"a100_pcie_box", {1, 2, 1, 1, 4}, "tp", {4, 4, 1, 2, 0}},
      {"a100_pcie_box", {1, 2, 1, 1, 4}, "dp", {2, 2, 1, 4, 4}},
      {"a100_pcie_box", {1, 8, 1, 1, 1}, "dp", {8, 8, 1, 1, 1}},
  };
  catalog_t catalog;
  open_catalog(&catalog);
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    const ptc_cluster_t *cluster = named(&catalog, cases[i].cluster);
    const ptc_group_shape_t got = ptc_group_shape(cluster, cases[i].size, mask_of(cases[i].axes));
    const ptc_group_shape_t want = cases[i].shape;
    char row[200];
    snprintf(row, sizeof(row),
             "%d %s over %s: %d ranks, %d per node, %d nodes, %d sharers, %d crossing", (int)i,
             cases[i].cluster, cases[i].axes, got.ranks, got.per_node, got.nodes, got.sharers,
             got.crossing);
    UNIT_CHECK(got.ranks == want.ranks && got.per_node == want.per_node &&
                   got.nodes == want.nodes && got.sharers == want.sharers &&
                   got.crossing == want.crossing,
               row);
  }
  close_catalog(&catalog);
}

// --- times

// nccl-tests on real machines, far from each other in kind and size: within 15 %.
static void test_measured(void) {
  static const struct {
    const char *cluster;
    ptc_net_kind_t kind;
    int32_t ranks, nodes;
    double mib, us;
  } cases[] = {
      {"dgx_a100", PTC_NET_ALL_REDUCE, 8, 1, 1024, 8062},
      {"dgx_a100", PTC_NET_ALL_REDUCE, 8, 1, 64, 665},
      {"dgx_h200", PTC_NET_ALL_REDUCE, 8, 1, 4096, 15560},
      {"aws_p6_b200", PTC_NET_ALL_REDUCE, 8, 1, 1024, 2400},
      {"aws_p5:4", PTC_NET_ALL_REDUCE, 32, 4, 2048, 11971},
      {"aws_p5:8", PTC_NET_ALL_GATHER, 64, 8, 64, 761},
      {"aws_p5:16", PTC_NET_ALL_GATHER, 128, 16, 2048, 8036},
      {"dgx_h100:4", PTC_NET_ALL_REDUCE, 32, 4, 512, 3281},
      {"dgx_h100:512", PTC_NET_ALL_REDUCE, 4096, 512, 16384, 99569},
  };
  catalog_t catalog;
  open_catalog(&catalog);
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    const ptc_group_shape_t shape = {.ranks = cases[i].ranks,
                                     .per_node = cases[i].ranks / cases[i].nodes,
                                     .nodes = cases[i].nodes,
                                     .sharers = 1};
    const double us = 1e6 * ptc_net_seconds(named(&catalog, cases[i].cluster), cases[i].kind, shape,
                                            cases[i].mib * 1048576, NULL);
    char row[100];
    snprintf(row, sizeof(row), "%d %s: %.0f us, measured %.0f", (int)i, cases[i].cluster, us,
             cases[i].us);
    UNIT_CHECK(fabs(us / cases[i].us - 1) < .15, row);
  }
  close_catalog(&catalog);
}

// A step to more bytes or sharers never costs less; where the tuner changes its mind, a little is allowed.
static void test_order(void) {
  static const char *const clusters[] = {
      "dgx_1v:4",   "dgx_a100:4",    "aws_p4d:4", "a100_pcie_box:4", "dgx_h100:4",  "aws_p5:4",
      "dgx_b200:4", "gcp_a3_mega:4", "aws_g5:4",  "gb200_nvl72:4",   "mi300x_box:4"};
  catalog_t catalog;
  open_catalog(&catalog);
  for (size_t c = 0; c < sizeof(clusters) / sizeof(*clusters); c++) {
    const ptc_cluster_t *cluster = named(&catalog, clusters[c]);
    const int32_t each = cluster->groups[0].node.devices;
    for (int kind = 0; kind < PTC_NUM_NET_KINDS; kind++)
      for (int32_t nodes = 1; nodes <= 4; nodes *= 2)
        for (int32_t per_node = 1; per_node <= each; per_node *= 2) {
          if (nodes * per_node < 2 || (kind == PTC_NET_SEND && nodes * per_node != 2)) continue;
          double before = 0;
          for (double bytes = 4096; bytes < 3e10; bytes *= 2) {
            ptc_group_shape_t shape = {
                .ranks = nodes * per_node, .per_node = per_node, .nodes = nodes, .sharers = 1};
            ptc_net_info_t info;
            const double one = ptc_net_seconds(cluster, (ptc_net_kind_t)kind, shape, bytes, &info);
            shape.sharers = nodes > 1 ? each / per_node : 1;
            const double shared =
                ptc_net_seconds(cluster, (ptc_net_kind_t)kind, shape, bytes, NULL);
            char row[100];
            snprintf(row, sizeof(row), "%s %s %dx%d %g: %g %g after %g", clusters[c],
                     ptc_net_kind_names[kind], nodes, per_node, bytes, one, shared, before);
            UNIT_CHECK(one > 1e-6 && one >= before * .9 && shared >= one * .9, row);
            UNIT_CHECK(info.channels >= 1 && info.channels <= 32 && info.busbw > 0, row);
            before = one;
          }
        }
    const ptc_group_shape_t alone = {.ranks = 1, .per_node = 1, .nodes = 1, .sharers = 1};
    CU_ASSERT(ptc_net_seconds(cluster, PTC_NET_ALL_REDUCE, alone, 1e9, NULL) == 0);
  }
  close_catalog(&catalog);
}

// The eight groups of one rank per node share the node's NICs, so each has one of them.
static void test_sharing(void) {
  catalog_t catalog;
  open_catalog(&catalog);
  const ptc_cluster_t *cluster = named(&catalog, "dgx_h100:8");
  const double bytes = 4e9;
  const ptc_group_shape_t whole = {.ranks = 64, .per_node = 8, .nodes = 8, .sharers = 1};
  const ptc_group_shape_t thin = {.ranks = 8, .per_node = 1, .nodes = 8, .sharers = 8};
  ptc_net_info_t info;
  const double one = ptc_net_seconds(cluster, PTC_NET_ALL_GATHER, whole, bytes, NULL);
  const double eighth = ptc_net_seconds(cluster, PTC_NET_ALL_GATHER, thin, bytes / 8, &info);
  CU_ASSERT(fabs(info.busbw - 48e9) < 1e9);
  CU_ASSERT(eighth > .8 * one && eighth < 1.2 * one);
  // A rack of 72 has the NICs of its 18 trays.
  const ptc_cluster_t *racks = named(&catalog, "gb200_nvl72:36");
  const ptc_group_shape_t across = {.ranks = 2, .per_node = 1, .nodes = 2, .sharers = 72};
  const double gather = ptc_net_seconds(racks, PTC_NET_ALL_GATHER, across, bytes, &info);
  CU_ASSERT(fabs(info.busbw - 48e9) < 1e9 && gather < 1.2 * bytes / 2 / 48e9);
  const double send = ptc_net_seconds(racks, PTC_NET_SEND, across, bytes, &info);
  CU_ASSERT(fabs(info.busbw - 48e9) < 1e9 && send < 1.1 * bytes / 48e9);
  close_catalog(&catalog);
}

static const unit_test_t tests[] = {{"the tuner's reference values", test_reference},
                                    {"shapes of groups", test_shapes},
                                    {"measured times", test_measured},
                                    {"order", test_order},
                                    {"sharing of NICs", test_sharing}};
UNIT_MAIN("net_cost", tests)
