#include "runtime/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static ptc_status_t cannot_read(ptc_diag_t *diag, const char *path, const char *why) {
  return ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "read-file", "cannot read \"%s\": %s", path, why);
}

ptc_status_t ptc_mapping_open(ptc_diag_t *diag, const char *path, ptc_mapping_t *out_mapping) {
  *out_mapping = (ptc_mapping_t){0};
  // Not to hang on a pipe that nobody writes to.
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cannot_read(diag, path, strerror(errno));
  struct stat info;
  const char *why = NULL;
  if (fstat(fd, &info) != 0) {
    why = strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    why = S_ISDIR(info.st_mode) ? strerror(EISDIR) : "it is no regular file";
  } else if (info.st_size == 0) {
    out_mapping->data = (const unsigned char *)"";
  } else {
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      why = strerror(errno);
    } else {
      out_mapping->data = data;
      out_mapping->bytes = info.st_size;
    }
  }
  close(fd);
  return why ? cannot_read(diag, path, why) : PTC_OK;
}

void ptc_mapping_close(ptc_mapping_t *mapping) {
  if (mapping->bytes) munmap((void *)(uintptr_t)mapping->data, (size_t)mapping->bytes);
  *mapping = (ptc_mapping_t){0};
}

bool ptc_write_all(int fd, const void *data, int64_t num_bytes) {
  const char *from = data;
  while (num_bytes > 0) {
    ssize_t written = write(fd, from, num_bytes > 1 << 30 ? 1 << 30 : (size_t)num_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    from += written;
    num_bytes -= written;
  }
  return true;
}

bool ptc_sync_folder(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  // Some file systems know no sync of folders; their names are then as durable as they get.
  bool ok = fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
  int error = errno;
  close(fd);
  errno = error;
  return ok;
}

bool ptc_sync_parent(const char *path) {
  const char *slash = strrchr(path, '/');
  ptc_str_t folder = {0};
  if (!slash)
    ptc_str_append(&folder, ".");
  else
    ptc_str_append_n(&folder, path, slash == path ? 1 : (size_t)(slash - path));
  bool ok = ptc_sync_folder(folder.data);
  int error = errno;
  ptc_str_deinit(&folder);
  errno = error;
  return ok;
}
