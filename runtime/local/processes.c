// Ranks that are processes: they find each other by a file, which loses its name when all are there. Each holds a
// lock on one byte of it, which the system takes away when the process ends, however it ends.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/local/local_impl.h"

enum {
  DOOR = PTC_LOCAL_MAX_WORLD
};  // the byte that one who enters holds; ranks' bytes lie before it
static const uint64_t magic = 0x31636f6c63747001;

typedef struct entry_s {
  ptc_diag_t *diag;
  char path[512];
  int32_t rank, world;
  int fd;
  ptc_local_mapping_t *mapping;
} entry_t;

static ptc_status_t fail(const entry_t *entry, const char *what) {
  return ptc_error(entry->diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-start",
                   "rank %d cannot %s \"%s\": %s; PTC_SHM_DIR names another folder for it",
                   entry->rank, what, entry->path, strerror(errno));
}

static int lock_byte(int fd, int command, short type, int32_t byte) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  int result;
  do {
    result = fcntl(fd, command, &lock);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return -1;
  return command == F_OFD_GETLK ? lock.l_type != F_UNLCK : 0;
}

static void leave(entry_t *entry) {
  if (entry->mapping) {
    munmap(entry->mapping->world, entry->mapping->bytes);
    free(entry->mapping);
    entry->mapping = NULL;
  }
  if (entry->fd >= 0) close(entry->fd);
  entry->fd = -1;
}

// Opens the file and holds its door; again if the file has lost its name meanwhile.
static ptc_status_t open_file(entry_t *entry) {
  for (;;) {
    entry->fd = open(entry->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (entry->fd < 0) return fail(entry, "open");
    if (lock_byte(entry->fd, F_OFD_SETLKW, F_WRLCK, DOOR) != 0) return fail(entry, "lock");
    struct stat mine, named;
    if (fstat(entry->fd, &mine) == 0 && stat(entry->path, &named) == 0 &&
        mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
      return PTC_OK;
    close(entry->fd);
  }
}

static ptc_status_t map_file(entry_t *entry, int32_t size) {
  const uint64_t bytes = ptc_local_layout(size, true, NULL);
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, entry->fd, 0);
  if (memory == MAP_FAILED) return fail(entry, "map");
  entry->mapping = calloc(1, sizeof *entry->mapping);
  if (!entry->mapping) ptc_oom(sizeof *entry->mapping);
  entry->mapping->world = memory;
  entry->mapping->bytes = bytes;
  return PTC_OK;
}

// The first one in gives the file its content. What is surely used is taken from the disk at once.
static ptc_status_t fill_file(entry_t *entry) {
  const uint64_t bytes = ptc_local_layout(entry->world, true, NULL);
  ptc_local_world_t layout;
  ptc_local_layout(entry->world, true, &layout);
  if (ftruncate(entry->fd, (off_t)bytes) != 0) return fail(entry, "size");
  errno = posix_fallocate(entry->fd, 0, (off_t)layout.rings);
  if (errno != 0) {
    fail(entry, "find room for");
    unlink(entry->path);
    return PTC_DEVICE;
  }
  PTC_TRY(map_file(entry, entry->world));
  ptc_local_layout(entry->world, true, entry->mapping->world);
  entry->mapping->world->magic = magic;
  return PTC_OK;
}

// Whether ranks that were here have died: the file is left from a run that has not come about.
static bool is_stale(const entry_t *entry) {
  const ptc_local_world_t *world = entry->mapping->world;
  for (int32_t r = 0; r < world->size; r++)
    if (atomic_load(&world->records[r].state) != PTC_LOCAL_ABSENT &&
        lock_byte(entry->fd, F_OFD_GETLK, F_WRLCK, r) == 0)
      return true;
  return false;
}

// Enters an existing file; |*out_stale|: it has been removed, and a new one is to be made.
static ptc_status_t enter_file(entry_t *entry, int64_t bytes, bool *out_stale) {
  *out_stale = false;
  ptc_local_world_t head;
  // Else whoever made it has died over it.
  if (pread(entry->fd, &head, sizeof head, 0) == (ssize_t)sizeof head && head.magic == magic &&
      (uint64_t)bytes == ptc_local_layout(head.size, true, NULL)) {
    PTC_TRY(map_file(entry, head.size));
    if (!is_stale(entry)) {
      if (head.size == entry->world) return PTC_OK;
      return ptc_error(entry->diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-start",
                       "rank %d has been started as one of %d, another rank as one of %d",
                       entry->rank, entry->world, head.size);
    }
  }
  unlink(entry->path);
  leave(entry);
  *out_stale = true;
  return PTC_OK;
}

static ptc_status_t enter(entry_t *entry) {
  bool stale;
  do {
    stale = false;
    PTC_TRY(open_file(entry));
    struct stat info;
    if (fstat(entry->fd, &info) != 0) return fail(entry, "open");
    if (info.st_size == 0)
      PTC_TRY(fill_file(entry));
    else
      PTC_TRY(enter_file(entry, info.st_size, &stale));
  } while (stale);
  ptc_local_world_t *world = entry->mapping->world;
  if (atomic_load(&world->records[entry->rank].state) != PTC_LOCAL_ABSENT ||
      lock_byte(entry->fd, F_OFD_SETLK, F_WRLCK, entry->rank) != 0)
    return ptc_error(entry->diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-start",
                     "rank %d of %d has been started twice", entry->rank, entry->world);
  atomic_store(&world->records[entry->rank].state, PTC_LOCAL_PRESENT);
  if (atomic_fetch_add(&world->num_present, 1) == entry->world - 1) unlink(entry->path);
  lock_byte(entry->fd, F_OFD_SETLK, F_UNLCK, DOOR);
  return PTC_OK;
}

// Waits until all ranks are in.
static ptc_status_t wait_for_all(const entry_t *entry, double limit_s) {
  const ptc_local_world_t *world = entry->mapping->world;
  const struct timespec nap = {.tv_nsec = 1000000};
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  while (atomic_load(&world->num_present) < entry->world) {
    nanosleep(&nap, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    int32_t absent = -1;
    for (int32_t r = 0; r < entry->world; r++) {
      if (atomic_load(&world->records[r].state) == PTC_LOCAL_ABSENT)
        absent = r;
      else if (r != entry->rank && lock_byte(entry->fd, F_OFD_GETLK, F_WRLCK, r) == 0 &&
               atomic_load(&world->num_present) < entry->world)
        return ptc_error(entry->diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-lost",
                         "rank %d has died; rank %d waits for all to start", r, entry->rank);
    }
    if (absent >= 0 && limit_s > 0 && (double)(now.tv_sec - start.tv_sec) >= limit_s)
      return ptc_error(entry->diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-stuck",
                       "rank %d has waited %.0f s for rank %d to start", entry->rank, limit_s,
                       absent);
  }
  return PTC_OK;
}

ptc_status_t ptc_comm_open_process(ptc_diag_t *diag, const char *name, int32_t rank, int32_t world,
                                   double limit_s, ptc_comm_t **out_comm) {
  *out_comm = NULL;
  if (world < 1 || world > PTC_LOCAL_MAX_WORLD || rank < 0 || rank >= world)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-start",
                     "rank %d of %d on one machine; 1 to %d ranks are possible", rank, world,
                     PTC_LOCAL_MAX_WORLD);
  entry_t entry = {.diag = diag, .rank = rank, .world = world, .fd = -1};
  const char *folder = getenv("PTC_SHM_DIR");
  snprintf(entry.path, sizeof entry.path, "%s/ptc-%d-%s", folder ? folder : "/dev/shm",
           (int)getuid(), name);
  ptc_status_t status = enter(&entry);
  if (status == PTC_OK) {
    status = wait_for_all(&entry, limit_s);
    if (status != PTC_OK) unlink(entry.path);
  }
  if (status != PTC_OK) {
    leave(&entry);
    return status;
  }
  ptc_local_t *local = ptc_local_new(entry.mapping, rank, entry.fd);
  local->limit_s = limit_s;
  *out_comm = &local->comm;
  return PTC_OK;
}
