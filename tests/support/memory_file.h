// Files that live in memory and have a path: for readers that take one.
#ifndef PTC_TESTS_SUPPORT_MEMORY_FILE_H_
#define PTC_TESTS_SUPPORT_MEMORY_FILE_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct memory_file_s {
  int fd;
  char path[32];
} memory_file_t;

// Aborts if there is no room.
static inline memory_file_t memory_file_open(const void *data, size_t size) {
  memory_file_t file = {.fd = memfd_create("test", MFD_CLOEXEC)};
  if (file.fd < 0 || write(file.fd, data, size) != (ssize_t)size) abort();
  snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.fd);
  return file;
}

static inline void memory_file_close(memory_file_t *file) { close(file->fd); }

#endif  // PTC_TESTS_SUPPORT_MEMORY_FILE_H_
