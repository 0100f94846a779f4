// Finding and loading the module, and the endpoint.
#include "runtime/mpi/endpoint.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/mpi/mpi_impl.h"

#ifndef PTC_MPI_FOLDER
#define PTC_MPI_FOLDER "/../lib/ptc"  // from the program's folder, where it is installed
#endif

enum { PATH_BYTES = 1024 };

static void *zeros(size_t count, size_t bytes) {
  void *memory = calloc(count, bytes);
  if (!memory) ptc_oom(count * bytes);
  return memory;
}

// --- the module

// The file |name| beside the program, in the folder above (a test's), or among ptc's installed libraries.
static void *load_from_folders(const char *name) {
  static const char *const folders[] = {"", "/..", PTC_MPI_FOLDER};
  char self[PATH_BYTES / 2], path[PATH_BYTES];
  const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  self[len > 0 ? len : 0] = '\0';
  char *slash = strrchr(self, '/');
  if (slash) *slash = '\0';
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    snprintf(path, sizeof path, "%s%s/%s", self, folders[i], name);
    // MPI libraries load parts of themselves that look for their symbols everywhere.
    if (access(path, R_OK) == 0) return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  }
  return NULL;
}

static void *load_library(void) {
  const char *named = getenv("PTC_MPI_MODULE");
  if (named) return dlopen(named, RTLD_NOW | RTLD_GLOBAL);
  const bool is_openmpi = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
  void *library = load_from_folders(is_openmpi ? "ptc_mpi_openmpi.so" : "ptc_mpi_mpich.so");
  return library ? library : load_from_folders("ptc_mpi.so");
}

static ptc_status_t load_module(ptc_diag_t *diag, ptc_mpi_t *mpi) {
  mpi->library = load_library();
  const char *why = mpi->library ? NULL : dlerror();
  mpi->module = mpi->library ? dlsym(mpi->library, PTC_MPI_MODULE_SYMBOL) : NULL;
  if (mpi->module && mpi->module->version == PTC_MPI_MODULE_VERSION) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "mpi-missing",
                   "the MPI module cannot be loaded%s%s; build ptc where mpicc is, or set "
                   "PTC_MPI_MODULE; PTC_COMM=local does without MPI on one machine",
                   mpi->library ? ": it is another version's"
                   : why        ? ": "
                                : "",
                   !mpi->library && why ? why : "");
}

// --- groups and numbers

static ptc_status_t make_group(ptc_comm_t *comm, ptc_diag_t *diag, const int32_t *ranks,
                               int32_t count, int32_t *out_group) {
  (void)diag;
  ptc_mpi_t *mpi = (ptc_mpi_t *)comm;
  const size_t bytes = (size_t)count * sizeof *ranks;
  for (int32_t i = 0; i < mpi->num_groups; i++) {
    if (mpi->groups[i].size != count || memcmp(mpi->groups[i].ranks, ranks, bytes) != 0) continue;
    *out_group = i;
    return PTC_OK;
  }
  const size_t total = (size_t)(mpi->num_groups + 1) * sizeof *mpi->groups;
  mpi->groups = realloc(mpi->groups, total);
  if (!mpi->groups) ptc_oom(total);
  ptc_mpi_group_t group = {.size = count, .ranks = zeros((size_t)count, sizeof *ranks)};
  memcpy(group.ranks, ranks, bytes);
  while (ranks[group.me] != comm->rank) group.me++;
  // All members find the same tag by themselves. That two groups may share one is no harm: all ranks have one order
  // of calls.
  uint32_t hash = 2166136261u;
  for (int32_t i = 0; i < count; i++) hash = (hash ^ (uint32_t)ranks[i]) * 16777619u;
  group.tag = (int)(hash % 16000) * 2;
  mpi->groups[mpi->num_groups] = group;
  *out_group = mpi->num_groups++;
  return PTC_OK;
}

static void set_context(ptc_comm_t *comm, const char *step, ptc_loc_t loc) {
  ptc_mpi_t *mpi = (ptc_mpi_t *)comm;
  mpi->loc = loc;
  ptc_comm_describe_context(step, loc, mpi->context);
}

static void set_limit(ptc_comm_t *comm, double seconds) { ((ptc_mpi_t *)comm)->limit_s = seconds; }

static int64_t count_bytes(const ptc_comm_t *comm, int32_t group, ptc_collective_kind_t kind) {
  return ((const ptc_mpi_t *)comm)->groups[group].bytes[kind];
}

static int64_t count_received(const ptc_comm_t *comm, int32_t peer) {
  return ((const ptc_mpi_t *)comm)->received[peer];
}

// --- start and end

static void free_endpoint(ptc_mpi_t *mpi) {
  for (int32_t i = 0; i < mpi->num_groups; i++) free(mpi->groups[i].ranks);
  free(mpi->groups);
  free(mpi->received);
  free(mpi->sent);
  free(mpi->stage);
  free(mpi->arrived);
  free(mpi->ins);
  free(mpi->sum_ins);
  free(mpi->sizes);
  free(mpi->walks);
  free(mpi->calls);
  free(mpi);
}

// The library stays: MPI cannot start twice. After a failure its end is left to the launcher, since it would wait for
// ranks that may never come.
static void close_endpoint(ptc_comm_t *comm) {
  ptc_mpi_t *mpi = (ptc_mpi_t *)comm;
  ptc_mpi_flush(mpi);
  if (!mpi->has_ended || mpi->state) mpi->module->finish(mpi->state);
  free_endpoint(mpi);
}

static const ptc_comm_vtable_t mpi_vtable = {.group = make_group,
                                             .collective = ptc_mpi_collective,
                                             .send = ptc_mpi_send_message,
                                             .recv = ptc_mpi_recv_message,
                                             .barrier = ptc_mpi_barrier,
                                             .poll = ptc_mpi_poll,
                                             .abort = ptc_mpi_abort,
                                             .set_context = set_context,
                                             .set_limit = set_limit,
                                             .bytes = count_bytes,
                                             .received = count_received,
                                             .close = close_endpoint};

static void make_scratch(ptc_mpi_t *mpi) {
  const size_t n = (size_t)mpi->comm.world;
  mpi->received = zeros(n, sizeof *mpi->received);
  mpi->stage = zeros(1, PTC_MPI_STAGE_BYTES);
  mpi->arrived = zeros(n, PTC_MPI_STAGE_BYTES);
  mpi->ins = zeros(n, sizeof *mpi->ins);
  mpi->sum_ins = zeros(n, sizeof *mpi->sum_ins);
  mpi->sizes = zeros(2 * n, sizeof *mpi->sizes);
  mpi->walks = zeros(2 * n, sizeof *mpi->walks);
  mpi->calls = zeros(n, sizeof *mpi->calls);
  int32_t *ranks = zeros(n, sizeof *ranks), group;
  for (int32_t r = 0; r < mpi->comm.world; r++) ranks[r] = r;
  make_group(&mpi->comm, NULL, ranks, mpi->comm.world, &group);
  free(ranks);
}

ptc_comm_t *ptc_mpi_new(const ptc_mpi_module_t *module, void *state, const char *name, int32_t rank,
                        int32_t world, double limit_s) {
  ptc_mpi_t *mpi = zeros(1, sizeof *mpi);
  *mpi = (ptc_mpi_t){.comm = {&mpi_vtable, rank, world},
                     .module = module,
                     .state = state,
                     .name = name,
                     .limit_s = limit_s};
  make_scratch(mpi);
  return &mpi->comm;
}

ptc_status_t ptc_comm_open_mpi(ptc_diag_t *diag, int32_t rank, int32_t world, double limit_s,
                               ptc_comm_t **out_comm) {
  *out_comm = NULL;
  ptc_mpi_t *mpi = zeros(1, sizeof *mpi);
  mpi->limit_s = limit_s;
  mpi->name = "MPI";
  ptc_status_t status = load_module(diag, mpi);
  int my_rank = 0, my_world = 1;
  if (status == PTC_OK)
    status = ptc_mpi_try(mpi, diag, mpi->module->start(mpi->state, &my_rank, &my_world), "start");
  if (status == PTC_OK && (my_rank != rank || my_world != world))
    status = ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-start",
                       "rank %d of %d was started, and MPI says that it is rank %d of %d: the "
                       "module is for another MPI than the launcher",
                       rank, world, my_rank, my_world);
  if (status != PTC_OK) {
    free_endpoint(mpi);
    return status;
  }
  mpi->comm = (ptc_comm_t){&mpi_vtable, rank, world};
  make_scratch(mpi);
  *out_comm = &mpi->comm;
  return PTC_OK;
}
