#include "runtime/cpu/object_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "runtime/hash.h"

// After the shared object proper stands the seal: the magic, then the hash of all before it. A loader does
// not look there.
static const char magic[] = "ptc-object-1:";
enum { MAGIC_CHARS = sizeof magic - 1, SEAL_BYTES = MAGIC_CHARS + PTC_HASH_CHARS };
static const int64_t max_bytes = INT64_C(256) << 20;
enum { KEEP_SECONDS = 3600, LEFTOVER_SECONDS = 24 * 3600 };

static char *join(const char *folder, const char *name) {
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/%s", folder, name);
  return path.data;
}

// --- opening

// malloc'ed; NULL if the user has no home.
static char *default_folder(void) {
  const char *own = getenv("PTC_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (own && *own) return strdup(own);
  if (xdg && xdg[0] == '/') return join(xdg, "ptc");
  const struct passwd *user = home && *home ? NULL : getpwuid(getuid());
  if (user) home = user->pw_dir;
  return home && *home ? join(home, ".cache/ptc") : NULL;
}

// mkdir -p, for this user alone. False: errno tells.
static bool make_folders(const char *path) {
  char *copy = strdup(path);
  if (!copy) ptc_oom(strlen(path) + 1);
  bool ok = true;
  for (char *at = copy + 1; ok; at++) {
    if (*at != '/' && *at != '\0') continue;
    const char end = *at;
    *at = '\0';
    ok = mkdir(copy, 0700) == 0 || errno == EEXIST;
    *at = end;
    if (end == '\0') break;
  }
  const int error = errno;
  free(copy);
  errno = error;
  return ok;
}

ptc_status_t ptc_object_cache_open(ptc_diag_t *diag, const char *folder,
                                   ptc_object_cache_t *out_cache) {
  *out_cache = (ptc_object_cache_t){.folder = folder ? strdup(folder) : default_folder()};
  if (!out_cache->folder)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "cache-folder",
                     "there is no home folder for compiled kernels: set PTC_CACHE");
  return PTC_OK;
}

ptc_status_t ptc_object_cache_prepare(ptc_diag_t *diag, ptc_object_cache_t *cache) {
  char *work = join(cache->folder, "tmp-XXXXXX");
  if (make_folders(cache->folder) && mkdtemp(work)) {
    cache->work = work;
    return PTC_OK;
  }
  ptc_status_t status = ptc_error(
      diag, (ptc_loc_t){.file = cache->folder}, PTC_IO, "cache-folder",
      "cannot keep compiled kernels here: %s; PTC_CACHE names another folder", strerror(errno));
  free(work);
  return status;
}

static void remove_folder(const char *path) {
  DIR *dir = opendir(path);
  if (!dir) return;
  for (const struct dirent *entry; (entry = readdir(dir));)
    unlinkat(dirfd(dir), entry->d_name, 0);  // fails for . and ..
  closedir(dir);
  rmdir(path);
}

void ptc_object_cache_close(ptc_object_cache_t *cache) {
  if (cache->work) {
    remove_folder(cache->work);
    ptc_object_cache_trim(cache, max_bytes);
  }
  free(cache->work);
  free(cache->folder);
  *cache = (ptc_object_cache_t){0};
}

// --- objects

char *ptc_object_cache_path(const ptc_object_cache_t *cache, const char *key) {
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/%s.so", cache->folder, key);
  return path.data;
}

// The bytes of an open file, mapped; NULL if it is empty or cannot be.
static void *map_file(int fd, size_t *out_len) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0) return NULL;
  *out_len = (size_t)info.st_size;
  void *data = mmap(NULL, *out_len, PROT_READ, MAP_PRIVATE, fd, 0);
  return data == MAP_FAILED ? NULL : data;
}

static bool is_sealed(const char *data, size_t len) {
  if (len <= SEAL_BYTES) return false;
  const char *seal = data + len - SEAL_BYTES;
  char hash[PTC_HASH_CHARS + 1];
  if (memcmp(seal, magic, MAGIC_CHARS) != 0) return false;
  ptc_hash(data, len - SEAL_BYTES, hash);
  return memcmp(seal + MAGIC_CHARS, hash, PTC_HASH_CHARS) == 0;
}

bool ptc_object_cache_has(const ptc_object_cache_t *cache, const char *key) {
  char *path = ptc_object_cache_path(cache, key);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  free(path);
  if (fd < 0) return false;
  size_t len = 0;
  void *data = map_file(fd, &len);
  const bool ok = data && is_sealed(data, len);
  if (data) munmap(data, len);
  if (ok) futimens(fd, NULL);  // for the order of removal
  close(fd);
  return ok;
}

char *ptc_object_cache_read(const ptc_object_cache_t *cache, const char *key, size_t *out_len) {
  char *path = ptc_object_cache_path(cache, key);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  free(path);
  if (fd < 0) return NULL;
  size_t len = 0;
  char *data = map_file(fd, &len), *copy = NULL;
  if (data && is_sealed(data, len)) {
    *out_len = len - SEAL_BYTES;
    copy = ptc_xmalloc(*out_len + 1);
    memcpy(copy, data, *out_len);
    copy[*out_len] = '\0';
    futimens(fd, NULL);
  }
  if (data) munmap(data, len);
  close(fd);
  return copy;
}

ptc_status_t ptc_object_cache_add(const ptc_object_cache_t *cache, const char *key,
                                  const char *path) {
  const int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
  if (fd < 0) return PTC_IO;
  size_t len = 0;
  char seal[SEAL_BYTES + 1];
  void *data = map_file(fd, &len);
  memcpy(seal, magic, MAGIC_CHARS);
  if (data) ptc_hash(data, len, seal + MAGIC_CHARS);
  if (data) munmap(data, len);
  char *place = ptc_object_cache_path(cache, key);
  const bool ok = data && write(fd, seal, SEAL_BYTES) == SEAL_BYTES && rename(path, place) == 0;
  const int error = errno;
  free(place);
  close(fd);
  errno = error;
  return ok ? PTC_OK : PTC_IO;
}

// --- keeping it small

typedef struct entry_s {
  char *name;
  int64_t bytes, used_at;
} entry_t;

static int compare_entries(const void *a, const void *b) {
  const int64_t x = ((const entry_t *)a)->used_at, y = ((const entry_t *)b)->used_at;
  return x < y ? -1 : x > y;
}

static bool has_suffix(const char *name, const char *suffix) {
  const size_t len = strlen(name), suffix_len = strlen(suffix);
  return len > suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

void ptc_object_cache_trim(const ptc_object_cache_t *cache, int64_t limit_bytes) {
  DIR *dir = opendir(cache->folder);
  if (!dir) return;
  const int64_t now = (int64_t)time(NULL);
  int64_t total = 0;
  PTC_VEC(entry_t) entries = {0};
  for (const struct dirent *entry; (entry = readdir(dir));) {
    struct stat info;
    if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(info.st_mode) && strncmp(entry->d_name, "tmp-", 4) == 0 &&
        now - (int64_t)info.st_mtime > LEFTOVER_SECONDS) {
      char *path = join(cache->folder, entry->d_name);
      remove_folder(path);
      free(path);
    }
    if (!S_ISREG(info.st_mode) || !has_suffix(entry->d_name, ".so")) continue;
    total += info.st_size;
    char *name = strdup(entry->d_name);
    if (!name) ptc_oom(strlen(entry->d_name) + 1);
    PTC_VEC_PUSH(&entries, ((entry_t){name, info.st_size, (int64_t)info.st_mtime}));
  }
  if (entries.len > 0) qsort(entries.data, (size_t)entries.len, sizeof(entry_t), compare_entries);
  for (int64_t i = 0; i < entries.len; i++) {
    if (total > limit_bytes && now - entries.data[i].used_at > KEEP_SECONDS &&
        unlinkat(dirfd(dir), entries.data[i].name, 0) == 0)
      total -= entries.data[i].bytes;
    free(entries.data[i].name);
  }
  PTC_VEC_FREE(&entries);
  closedir(dir);
}
