// Proves: every entry of the catalog is complete and plausible; names, numbers of nodes, own blocks and paths are found;
// what is not found or has no meaning is said with its id and near names; units are read right.
#include "frontend/cluster.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontend/cluster_props.h"
#include "frontend/parse.h"
#include "tests/support/unit.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b); }

typedef struct found_s {
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_ast_t program;
  ptc_cluster_t *cluster;
  ptc_status_t status;
} found_t;

static found_t *find(const char *text, const char *spec) {
  found_t *found = calloc(1, sizeof(*found));
  ptc_diag_init(&found->diag);
  ptc_arena_init(&found->arena);
  ptc_ast_init(&found->program);
  found->status = PTC_OK;
  if (text)
    found->status = ptc_parse_text(&found->diag, &found->program, "test.ptm", text, strlen(text));
  UNIT_CHECK(found->status == PTC_OK, spec);
  found->status =
      ptc_cluster_find(&found->diag, &found->arena, &found->program, spec, &found->cluster);
  return found;
}

static void drop(found_t *found) {
  ptc_ast_deinit(&found->program);
  ptc_arena_deinit(&found->arena);
  ptc_diag_deinit(&found->diag);
  free(found);
}

static void check_error(const char *text, const char *spec, const char *id, const char *words) {
  found_t *found = find(text, spec);
  UNIT_CHECK(found->status != PTC_OK && found->diag.num_errors == 1, spec);
  if (found->diag.num_items > 0) {
    UNIT_CHECK(strcmp(found->diag.items[0].id, id) == 0, spec);
    if (!strstr(found->diag.items[0].message, words)) printf("%s\n", found->diag.items[0].message);
    UNIT_CHECK(strstr(found->diag.items[0].message, words) != NULL, spec);
  }
  drop(found);
}

static void test_catalog(void) {
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_diag_init(&diag);
  ptc_arena_init(&arena);
  ptc_device_model_t **devices;
  ptc_cluster_t **clusters;
  int32_t num_devices, num_clusters;
  CU_ASSERT_FATAL(ptc_device_catalog(&diag, &arena, &devices, &num_devices) == PTC_OK);
  CU_ASSERT_FATAL(ptc_cluster_catalog(&diag, &arena, &clusters, &num_clusters) == PTC_OK);
  CU_ASSERT(num_devices >= 26 && num_clusters >= 24);
  for (int32_t i = 0; i < num_devices; i++) {
    const ptc_device_model_t *d = devices[i];
    UNIT_CHECK(d->sms >= 58 && d->sms <= 304, d->name);
    UNIT_CHECK(d->peak[PTC_PREC_F16] >= 70e12 && d->peak[PTC_PREC_F16] <= 2500e12, d->name);
    UNIT_CHECK(d->peak[PTC_PREC_F32] >= 15e12 && d->peak[PTC_PREC_F32] < d->peak[PTC_PREC_F16],
               d->name);
    UNIT_CHECK(d->memory_bytes >= 16e9 && d->memory_rate >= 300e9 && d->memory_rate <= 8e12,
               d->name);
    UNIT_CHECK(d->gemm_eff >= .4 && d->gemm_eff <= .95, d->name);
    UNIT_CHECK(d->memory_eff >= .7 && d->memory_eff <= .95, d->name);
    UNIT_CHECK(d->launch_s >= 1e-6 && d->launch_s <= 1e-5, d->name);
    for (int k = 0; k < 3; k++)
      UNIT_CHECK(d->attention_eff[k] > .2 && d->attention_eff[k] < .9 &&
                     d->attention_grad_eff[k] > .2 &&
                     d->attention_grad_eff[k] < d->attention_eff[k] + .01,
                 d->name);
    UNIT_CHECK(ptc_catalog_text(&arena, d->name) != NULL, d->name);
  }
  for (int32_t i = 0; i < num_clusters; i++) {
    const ptc_node_model_t *node = &clusters[i]->groups[0].node;
    const char *name = clusters[i]->name;
    UNIT_CHECK(clusters[i]->num_groups == 1 && clusters[i]->num_devices == node->devices, name);
    UNIT_CHECK(node->devices >= 2 && node->link_domain >= node->devices, name);
    UNIT_CHECK(node->link_busbw > 5e9 && node->link_busbw <= node->link_rate, name);
    UNIT_CHECK(node->nics >= 1 && node->nic_rate >= 3e9 && node->nic_rate <= 100e9, name);
    UNIT_CHECK(node->nic_eff >= .7 && node->nic_eff < 1 && node->fabric != PTC_FABRIC_NONE, name);
    UNIT_CHECK(node->pcie_rate > 0, name);
    UNIT_CHECK(strstr(ptc_catalog_text(&arena, name), "Source: ") != NULL, name);
  }
  CU_ASSERT(ptc_catalog_text(&arena, "no_such") == NULL);
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
}

static void test_figures(void) {
  found_t *found = find(NULL, "DGX-H100:16");
  CU_ASSERT_FATAL(found->status == PTC_OK);
  const ptc_node_model_t *node = &found->cluster->groups[0].node;
  CU_ASSERT(found->cluster->num_devices == 128 && found->cluster->groups[0].nodes == 16);
  CU_ASSERT(near(node->device->peak[PTC_PREC_BF16], 989e12) && node->device->sms == 132);
  CU_ASSERT(near(node->device->memory_bytes, 80e9) && near(node->device->memory_rate, 3350e9));
  CU_ASSERT(near(node->link_rate, 450e9) && node->link_reduces && node->link_switched);
  CU_ASSERT(node->nics == 8 && near(node->nic_rate, 50e9) && !node->host_amd);
  CU_ASSERT(node->device->arch == 90 && near(node->device->shared_bytes, 228 * 1024));
  drop(found);
  found = find(NULL, "gb200_nvl72:18");
  CU_ASSERT_FATAL(found->status == PTC_OK);
  CU_ASSERT(found->cluster->num_devices == 72 && found->cluster->groups[0].node.link_domain == 72);
  drop(found);
}

static const char mixed[] =
    "device slow { arch = ampere  memory = 40 GB  bandwidth = 1.5 TB/s  bf16 = 300 TFLOP/s }\n"
    "device h100_sxm { memory = 94 GiB }\n"
    "cluster farm(nodes = 3, fat = 8) {\n"
    "  network ib  bandwidth = 4 x 200 Gb/s  latency = 2 us\n"
    "  host memory = 1 TiB  pcie = 25 GB/s\n"
    "  node fat x h100_sxm { link nv  bandwidth = 450 GB/s  ring = 360 GB/s }\n"
    "  node 4 x slow { network eth  bandwidth = 10 GB/s  fabric = tcp  host nodes = 2  cpu = amd "
    "}\n"
    "}\n";

static void test_own(void) {
  found_t *found = find(mixed, "farm:5");
  CU_ASSERT_FATAL(found->status == PTC_OK);
  const ptc_cluster_t *farm = found->cluster;
  CU_ASSERT(farm->num_groups == 2 && farm->num_devices == 5 * 8 + 2 * 4);
  const ptc_node_model_t *fat = &farm->groups[0].node, *thin = &farm->groups[1].node;
  // What the own block of a device of the catalog does not say comes from there.
  CU_ASSERT(near(fat->device->memory_bytes, 94. * (1 << 30)));
  CU_ASSERT(near(fat->device->peak[PTC_PREC_FP8], 1979e12));
  CU_ASSERT(fat->nics == 4 && near(fat->nic_rate, 25e9) && fat->fabric == PTC_FABRIC_IB);
  CU_ASSERT(near(fat->host_bytes, 1024. * (1 << 30)) && near(fat->pcie_rate, 25e9));
  CU_ASSERT(farm->groups[1].nodes == 2 && thin->nics == 1 && near(thin->nic_rate, 10e9));
  CU_ASSERT(thin->fabric == PTC_FABRIC_TCP && thin->host_amd && near(thin->pcie_rate, 25e9));
  // Efficiencies that nobody gives are those of a typical device of its architecture.
  CU_ASSERT(thin->device->gemm_eff > .7 && thin->device->sms == 108);
  drop(found);
}

static void test_path(void) {
  char folder[32], path[64];
  unit_make_folder(folder);
  snprintf(path, sizeof(path), "%s/farm.ptm", folder);
  FILE *file = fopen(path, "w");
  CU_ASSERT_FATAL(file != NULL);
  fputs(mixed, file);
  fclose(file);
  char spec[80];
  snprintf(spec, sizeof(spec), "%s:7", path);
  found_t *found = find(NULL, spec);
  CU_ASSERT_FATAL(found->status == PTC_OK);
  CU_ASSERT(found->cluster->num_devices == 7 * 8 + 8);
  drop(found);
  snprintf(spec, sizeof(spec), "%s/none.ptm", folder);
  found = find(NULL, spec);
  CU_ASSERT(found->status == PTC_IO);
  drop(found);
  unlink(path);
  rmdir(folder);
}

static void test_errors(void) {
  static const struct {
    const char *text, *spec, *id, *words;
  } cases[] = {
      {NULL, "dgx-h10", "unknown-cluster", "did you mean \"dgx_h100\""},
      {NULL, "h100", "unknown-cluster", "did you mean \"dgx_h100\""},
      {NULL, "loca", "unknown-cluster", "did you mean \"local\""},
      {NULL, "dgx_h100:0", "cluster-nodes", "from 1 to 1048576"},
      {NULL, "dgx_h100:2.5", "cluster-nodes", "from 1 to 1048576"},
      {NULL, "dgx_h100:", "cluster-nodes", "from 1 to 1048576"},
      {"cluster c { node 2 x a100_sxm_80g { } }", "c:2", "cluster-nodes", "no parameter \"nodes\""},
      {"cluster c { node 2 x a100_sxm { } }", "c", "unknown-device",
       "did you mean \"a100_sxm_40g\""},
      {"cluster c { node 2 x q { } } device q { memory = 1 GB bandwidth = 1 GB/s }", "c",
       "cluster-figure", "device \"q\" needs the property \"f32\""},
      {"cluster c { }", "c", "cluster-figure", "has no node"},
      {"cluster c(nodes = 1) { node nodes x l4 { node 2 x l4 { } } }", "c", "cluster-figure",
       "node inside a node"},
      {"cluster c(nodes) { node 2 x l4 { } }", "c", "cluster-figure", "needs a number"},
      {"cluster c(n = 0) { node n x l4 { } }", "c", "cluster-nodes", "the number of devices"},
      {"cluster c { node 2 x l4 { link p bandwith = 3 GB/s } }", "c", "cluster-figure", "bandwith"},
      {"cluster c { node 2 x l4 { link p sharp = maybe } }", "c", "cluster-figure", "sharp"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
    check_error(cases[i].text, cases[i].spec, cases[i].id, cases[i].words);
}

static void test_units(void) {
  static const struct {
    const char *unit;
    double scale;
  } cases[] = {
      {"GB", 1e9},       {"GiB", 1073741824.}, {"B", 1},      {"b", .125},  {"Gb/s", 1.25e8},
      {"TB/s", 1e12},    {"us", 1e-6},         {"ns", 1e-9},  {"ms", 1e-3}, {"s", 1},
      {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15},    {"FLOP/s", 1}, {"MHz", 1e6}, {"W", 1},
      {"KiB/s", 1024}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
    UNIT_CHECK(near(ptc_unit_scale(cases[i].unit), cases[i].scale), cases[i].unit);
}

static const unit_test_t tests[] = {{"the catalog", test_catalog}, {"figures", test_figures},
                                    {"own blocks", test_own},      {"a path", test_path},
                                    {"errors", test_errors},       {"units", test_units}};
UNIT_MAIN("cluster", tests)
