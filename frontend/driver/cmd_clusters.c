// `ptc clusters`: the catalog, and what one of its entries says.
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/cluster.h"
#include "frontend/driver/commands.h"
#include "frontend/driver/local_cluster.h"
#include "frontend/driver/options.h"
#include "ir/base/str.h"

static const char usage[] =
    "usage: ptc clusters [NAME...] [options]\n"
    "Lists the clusters and devices that --cluster knows, or prints the blocks of those named: "
    "each\n"
    "figure with its source. `local` is this machine, measured once. A cluster block of your own "
    "may stand in any .ptm file.\n"
    "\n"
    "options\n"
    "  --format=FORMAT        table (the default), csv or json\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            no notes\n"
    "  -h, --help             this text\n";

enum { OPT_FORMAT = 1 };
static const struct option long_options[] = {
    {"format", required_argument, NULL, OPT_FORMAT},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

typedef enum format_e { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON } format_t;

static const char *const fabric_names[PTC_NUM_FABRICS] = {"-", "ib", "efa", "tcpx", "tcp"};

// The best 16-bit rate.
static double half_peak(const ptc_device_model_t *device) {
  const double bf16 = device->peak[PTC_PREC_BF16], f16 = device->peak[PTC_PREC_F16];
  return bf16 > 0 ? bf16 : f16;
}

static void print_clusters(ptc_cluster_t *const *clusters, int32_t num, format_t format) {
  if (format == FORMAT_TABLE)
    printf("%-18s %-16s %7s %9s %9s %5s %9s %6s\n", "cluster", "device", "devices", "link GB/s",
           "ring GB/s", "NICs", "NIC GB/s", "fabric");
  else
    printf("cluster,device,devices_per_node,link_gbps,ring_gbps,nics,nic_gbps,fabric\n");
  for (int32_t i = 0; i < num; i++) {
    const ptc_node_model_t *node = &clusters[i]->groups[0].node;
    printf(format == FORMAT_TABLE ? "%-18s %-16s %7" PRId32 " %9.4g %9.4g %5" PRId32 " %9.4g %6s\n"
                                  : "%s,%s,%" PRId32 ",%g,%g,%" PRId32 ",%g,%s\n",
           clusters[i]->name, node->device->name, node->devices, node->link_rate * 1e-9,
           node->link_busbw * 1e-9, node->nics, node->nic_rate * 1e-9, fabric_names[node->fabric]);
  }
}

static void print_devices(ptc_device_model_t *const *devices, int32_t num, format_t format) {
  if (format == FORMAT_TABLE)
    printf("\n%-16s %5s %5s %9s %9s %9s %6s %7s %7s %8s\n", "device", "arch", "SMs", "16-bit TF",
           "memory GB", "mem. GB/s", "gemm", "stream", "power W", "USD/hour");
  else
    printf("\ndevice,arch,sms,tflops_16bit,memory_gb,memory_gbps,gemm,stream,power_w,price\n");
  for (int32_t i = 0; i < num; i++) {
    const ptc_device_model_t *d = devices[i];
    printf(format == FORMAT_TABLE ? "%-16s %5" PRId32 " %5" PRId32
                                    " %9.4g %9.4g %9.4g %6.3g %7.3g %7g %8g\n"
                                  : "%s,%" PRId32 ",%" PRId32 ",%g,%g,%g,%g,%g,%g,%g\n",
           d->name, d->arch, d->sms, half_peak(d) * 1e-12, d->memory_bytes * 1e-9,
           d->memory_rate * 1e-9, d->gemm_eff, d->memory_eff, d->power, d->price_per_hour);
  }
}

static void print_json(ptc_cluster_t *const *clusters, int32_t num_clusters,
                       ptc_device_model_t *const *devices, int32_t num_devices) {
  json_t *all = json_object(), *list = json_array(), *types = json_array();
  for (int32_t i = 0; i < num_clusters; i++) {
    const ptc_node_model_t *node = &clusters[i]->groups[0].node;
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:i, s:f, s:f, s:i, s:f, s:s}", "cluster", clusters[i]->name,
                        "device", node->device->name, "devices_per_node", (int)node->devices,
                        "link_bytes_per_s", node->link_rate, "ring_bytes_per_s", node->link_busbw,
                        "nics", (int)node->nics, "nic_bytes_per_s", node->nic_rate, "fabric",
                        fabric_names[node->fabric]));
  }
  for (int32_t i = 0; i < num_devices; i++) {
    const ptc_device_model_t *d = devices[i];
    json_array_append_new(
        types, json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "device", d->name,
                         "arch", (int)d->arch, "sms", (int)d->sms, "flops_16bit", half_peak(d),
                         "memory_bytes", d->memory_bytes, "memory_bytes_per_s", d->memory_rate,
                         "gemm", d->gemm_eff, "stream", d->memory_eff, "power_w", d->power,
                         "price_per_hour", d->price_per_hour));
  }
  json_object_set_new(all, "clusters", list);
  json_object_set_new(all, "devices", types);
  json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  printf("\n");
  json_decref(all);
}

static ptc_status_t list_all(ptc_diag_t *diag, ptc_arena_t *arena, format_t format) {
  ptc_cluster_t **clusters;
  ptc_device_model_t **devices;
  int32_t num_clusters, num_devices;
  PTC_TRY(ptc_cluster_catalog(diag, arena, &clusters, &num_clusters));
  PTC_TRY(ptc_device_catalog(diag, arena, &devices, &num_devices));
  if (format == FORMAT_JSON) {
    print_json(clusters, num_clusters, devices, num_devices);
  } else {
    print_clusters(clusters, num_clusters, format);
    print_devices(devices, num_devices, format);
  }
  return PTC_OK;
}

static ptc_status_t show_local(ptc_diag_t *diag, ptc_arena_t *arena) {
  const char *path;
  char *text;
  size_t len;
  PTC_TRY(ptc_driver_local_file(diag, arena, false, &path));
  if (ptc_read_file(path, &text, &len) != PTC_OK)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "cache-folder", "cannot read \"%s\"", path);
  printf("# %s\n%s", path, text);
  free(text);
  return PTC_OK;
}

// A cluster's block and its device's, or a device's block.
static ptc_status_t show_one(ptc_diag_t *diag, ptc_arena_t *arena, const char *name) {
  if (strcmp(name, "local") == 0) return show_local(diag, arena);
  const char *bare = ptc_arena_strndup(arena, name, strcspn(name, ":"));
  const char *text = ptc_catalog_text(arena, bare);
  ptc_cluster_t *cluster;
  if (text && strstr(text, "\ndevice ")) {
    printf("%s", text);
    return PTC_OK;
  }
  PTC_TRY(ptc_cluster_find(diag, arena, NULL, name, &cluster));
  if (text) printf("%s\n", text);
  const char *device = ptc_catalog_text(arena, cluster->groups[0].node.device->name);
  if (device) printf("%s", device);
  return PTC_OK;
}

int ptc_clusters_main(int argc, char **argv) {
  static ptc_common_options_t common;
  format_t format = FORMAT_TABLE;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1;) {
    if (option == OPT_FORMAT) {
      if (strcmp(optarg, "csv") == 0)
        format = FORMAT_CSV;
      else if (strcmp(optarg, "json") == 0)
        format = FORMAT_JSON;
      else if (strcmp(optarg, "table") != 0)
        return ptc_options_usage_error("ptc clusters", "--format is table, csv or json, not",
                                       optarg);
      continue;
    }
    const int exit_status =
        ptc_options_read_common(&common, option, "ptc clusters", usage, argv, long_options);
    if (exit_status >= 0) return exit_status;
  }
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_diag_init(&diag);
  ptc_arena_init(&arena);
  ptc_status_t status = PTC_OK;
  if (optind == argc) status = list_all(&diag, &arena, format);
  for (int i = optind; i < argc && status == PTC_OK; i++) status = show_one(&diag, &arena, argv[i]);
  ptc_options_print_diagnostics(&common, &diag);
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
  if (status == PTC_OK) status = ptc_options_close_stdout();
  return ptc_status_exit_code(status);
}
