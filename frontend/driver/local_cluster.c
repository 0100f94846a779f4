#include "frontend/driver/local_cluster.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/str.h"
#include "runtime/cpu/cores.h"
#include "runtime/cpu/object_cache.h"
#include "runtime/measure.h"

static const ptc_loc_t no_place = {0};

// The first line of the file: a folder that several machines share has the file of the last one, which is no other's.
static char *first_line(ptc_arena_t *arena) {
  char model[128] = "unknown processor", line[256];
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && fgets(line, sizeof(line), file)) {
    if (strncmp(line, "model name", 10) != 0 || !strchr(line, ':')) continue;
    snprintf(model, sizeof(model), "%.100s", strchr(line, ':') + 2);
    model[strcspn(model, "\n")] = '\0';
    break;
  }
  if (file) fclose(file);
  for (char *c = model; *c; c++)
    if (!isprint((unsigned char)*c)) *c = '?';
  return ptc_arena_printf(arena, "# Measured by ptc " PTC_VERSION " on %s, %" PRId32 " cores.",
                          model, ptc_num_cores());
}

static bool is_of_this_machine(const char *path, const char *line) {
  char *text;
  size_t len;
  if (ptc_read_file(path, &text, &len) != PTC_OK) return false;
  const bool same = strncmp(text, line, strlen(line)) == 0 && text[strlen(line)] == '\n';
  free(text);
  return same;
}

// 0 where the system does not tell.
static long last_cache_kib(void) {
  long kib = 0;
  for (int index = 2; index <= 3; index++) {
    char path[80];
    long size = 0;
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%ldK", &size) == 1 && size > kib) kib = size;
    if (file) fclose(file);
  }
  return kib;
}

// What the printed kernels reach of the measured peaks: fitted on their times, one core, in the cores' own time
// (passes/planner/README.md).
static void print_file(ptc_str_t *out, const char *line, const ptc_machine_t *m) {
  ptc_str_printf(out, "%s\n", line);
  ptc_str_append(out,
                 "# The rates are those of all cores; `local:RANKS` divides them. Delete this file "
                 "to measure again.\n");
  ptc_str_printf(out, "device local_cpu {\n  arch = cpu  sms = %" PRId32 "\n", m->cores);
  ptc_str_printf(out, "  f32 = %.1f GFLOP/s  # multiply-adds, %.1f on one core\n",
                 m->fma_flops * m->cores * 1e-9, m->fma_flops * 1e-9);
  ptc_str_printf(out, "  memory = %.1f GB\n", m->memory_bytes * 1e-9);
  ptc_str_printf(out, "  bandwidth = %.2f GB/s  # triad, 12 bytes an element; one core: %.2f\n",
                 m->stream_all * 1e-9, m->stream_one * 1e-9);
  ptc_str_printf(out, "  launch = %.2f us  # of a kernel, of which %.2f us meet the threads\n",
                 1 + m->launch_s * 1e6, m->launch_s * 1e6);
  ptc_str_append(out,
                 "  gemm = 0.86  gemm_tile = 2 us\n"
                 "  attention_64 = 0.74  attention_128 = 0.7  attention_256 = 0.7\n"
                 "  attention_grad_64 = 0.6  attention_grad_128 = 0.58  attention_grad_256 = 0.58\n"
                 "  attention_half = 48  stream = 0.75\n");
  const long cache = last_cache_kib();
  if (cache > 0) ptc_str_printf(out, "  l2 = %ld KiB  # the last cache\n", cache);
  ptc_str_append(out, "}\n");
  ptc_str_append(out, "cluster local {\n  node 1 x local_cpu {\n");
  ptc_str_printf(
      out,
      "    link memory  bandwidth = %.2f GB/s  latency = %.2f us  ring = %.2f GB/s"
      "  # all_reduce of two ranks\n  }\n  host memory = %.1f GB  bandwidth = %.2f GB/s\n}\n",
      m->comm_rate * 1e-9, m->comm_latency_s * 1e6, m->comm_rate * 1e-9, m->memory_bytes * 1e-9,
      m->stream_all * 1e-9);
}

// Whole or not at all, since others may read it meanwhile.
static ptc_status_t write_file(ptc_diag_t *diag, ptc_arena_t *arena, const char *path,
                               const ptc_str_t *text) {
  const char *part = ptc_arena_printf(arena, "%s.%ld", path, (long)getpid());
  FILE *file = fopen(part, "w");
  bool ok = file && fwrite(text->data, 1, text->len, file) == text->len;
  if (file && fclose(file) != 0) ok = false;
  if (ok && rename(part, path) == 0) return PTC_OK;
  const int error = errno;
  (void)unlink(part);
  return ptc_error(diag, no_place, PTC_IO, "cache-folder", "cannot write \"%s\": %s", path,
                   strerror(error));
}

ptc_status_t ptc_driver_local_file(ptc_diag_t *diag, ptc_arena_t *arena, bool quiet,
                                   const char **out_path) {
  ptc_object_cache_t cache = {0};
  PTC_TRY(ptc_object_cache_open(diag, NULL, &cache));
  const char *path = ptc_arena_printf(arena, "%s/local.ptm", cache.folder);
  const char *line = first_line(arena);
  ptc_status_t status = PTC_OK;
  if (!is_of_this_machine(path, line)) {
    if (!quiet) fprintf(stderr, "ptc: measuring this machine (once)\n");
    ptc_machine_t machine;
    status = ptc_object_cache_prepare(diag, &cache);
    if (status == PTC_OK) status = ptc_machine_measure(diag, &machine);
    if (status == PTC_OK) {
      ptc_str_t text = {0};
      print_file(&text, line, &machine);
      status = write_file(diag, arena, path, &text);
      ptc_str_deinit(&text);
    }
  }
  ptc_object_cache_close(&cache);
  *out_path = path;
  return status;
}

// Cores, bandwidth and memory go to the ranks in equal parts.
static void share(ptc_arena_t *arena, ptc_cluster_t *cluster, int32_t ranks) {
  ptc_node_model_t *node = &cluster->groups[0].node;
  ptc_device_model_t *part = PTC_ARENA_NEW(arena, ptc_device_model_t);
  *part = *node->device;
  const int32_t cores = part->sms;
  for (int i = 0; i < PTC_NUM_PRECS; i++) part->peak[i] /= ranks;
  part->memory_bytes /= ranks;
  part->memory_rate /= ranks;
  if (ranks > cores) {
    node->link_busbw *= (double)cores / ranks;
    node->link_across = node->link_busbw;
  }
  part->sms = cores / ranks > 1 ? cores / ranks : 1;
  node->device = part;
  node->devices = ranks;
  node->link_domain = ranks;
  cluster->num_devices = ranks;
}

ptc_status_t ptc_driver_find_cluster(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_ast_t *program,
                                     const char *spec, bool quiet, ptc_cluster_t **out_cluster) {
  *out_cluster = NULL;
  if (strcmp(spec, "local") != 0 && strncmp(spec, "local:", 6) != 0)
    return ptc_cluster_find(diag, arena, program, spec, out_cluster);
  long ranks = 1;
  if (spec[5]) {
    char *end;
    ranks = strtol(spec + 6, &end, 10);
    if (!isdigit((unsigned char)spec[6]) || *end || ranks < 1 || ranks > 1024)
      return ptc_error(diag, no_place, PTC_INVALID_INPUT, "cluster-nodes",
                       "cluster \"%s\": after the colon stands the number of ranks, from 1 to 1024",
                       spec);
  }
  const char *path;
  PTC_TRY(ptc_driver_local_file(diag, arena, quiet, &path));
  PTC_TRY(ptc_cluster_find(diag, arena, NULL, path, out_cluster));
  share(arena, *out_cluster, (int32_t)ranks);
  return PTC_OK;
}
