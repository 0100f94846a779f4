// The machine of a measured run, out of the catalog.
#include <ctype.h>
#include <string.h>

#include "frontend/cluster.h"
#include "frontend/driver/measured_run.h"

// Whether every word of |name| ("a100_sxm_80g") begins a word of |gpu| ("A100-80G-SXM4").
static int words_in(const char *name, const char *gpu) {
  int words = 0;
  for (const char *at = name; *at;) {
    size_t len = strcspn(at, "_");
    bool found = false;
    for (const char *g = gpu; *g && !found; g++) {
      if (g > gpu && isalnum((unsigned char)g[-1])) continue;
      size_t same = 0;
      while (same < len && tolower((unsigned char)g[same]) == at[same]) same++;
      found =
          same == len && !(isdigit((unsigned char)at[len - 1]) && isdigit((unsigned char)g[same]));
    }
    if (!found) return 0;
    words++;
    at += len;
    at += *at == '_';
  }
  return words;
}

static const ptc_device_model_t *find_device(const ptc_measured_catalog_t *catalog,
                                             const char *gpu) {
  const ptc_device_model_t *best = NULL;
  int best_words = 0;
  for (int32_t i = 0; i < catalog->num_devices; i++) {
    const int words = words_in(catalog->devices[i]->name, gpu);
    if (words <= best_words) continue;
    best_words = words;
    best = catalog->devices[i];
  }
  return best;
}

// The first node with such devices; else one whose device differs by its memory alone.
static const ptc_node_model_t *find_node(const ptc_measured_catalog_t *catalog,
                                         const ptc_device_model_t *device) {
  const ptc_node_model_t *near = NULL;
  const size_t family = strcspn(device->name, "_");
  for (int32_t i = 0; i < catalog->num_clusters; i++) {
    const ptc_node_model_t *node = &catalog->clusters[i]->groups[0].node;
    if (strcmp(node->device->name, device->name) == 0) return node;
    if (!near && node->device->arch == device->arch &&
        strncmp(node->device->name, device->name, family) == 0)
      near = node;
  }
  return near;
}

ptc_status_t ptc_measured_catalog_read(ptc_diag_t *diag, ptc_arena_t *arena,
                                       ptc_measured_catalog_t *out) {
  PTC_TRY(ptc_device_catalog(diag, arena, &out->devices, &out->num_devices));
  return ptc_cluster_catalog(diag, arena, &out->clusters, &out->num_clusters);
}

const ptc_cluster_t *ptc_measured_run_cluster(const ptc_measured_catalog_t *catalog,
                                              ptc_arena_t *arena, const ptc_measured_run_t *run) {
  const ptc_device_model_t *device = find_device(catalog, run->gpu);
  const ptc_node_model_t *node = device ? find_node(catalog, device) : NULL;
  if (!node) return NULL;
  ptc_cluster_t *cluster = PTC_ARENA_NEW(arena, ptc_cluster_t);
  *cluster = (ptc_cluster_t){.name = run->gpu, .num_groups = 1};
  ptc_cluster_group_t *group = &cluster->groups[0];
  group->node = *node;
  group->node.device = device;
  // Where links span nodes the catalog's node is the whole domain.
  if (node->link_domain <= node->devices && run->devices_per_node < node->devices)
    group->node.devices = (int32_t)run->devices_per_node;
  if (run->nic_rate > 0) {
    group->node.nics = group->node.devices;
    group->node.nic_rate = run->nic_rate;
  }
  group->nodes = (int32_t)((run->devices + group->node.devices - 1) / group->node.devices);
  cluster->num_devices = (int64_t)group->nodes * group->node.devices;
  return cluster;
}
