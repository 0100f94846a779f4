#include "ir/base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// An arena that grows large goes on in chunks of whole huge pages: the system clears them in a sixth of the time.
enum {
  CHUNK_BYTES = 64 << 10,
  HUGE_PAGE_BYTES = 2 << 20,
  LARGE_CHUNK_BYTES = 4 << 20,
  ALIGNMENT = 16
};

struct ptc_arena_chunk_s {
  ptc_arena_chunk_t *next;
  size_t capacity, used;
  _Alignas(16) unsigned char data[];
};

_Noreturn void ptc_oom(size_t num_bytes) {
  fprintf(stderr, "ptc: out of host memory (asked for %zu bytes)\n", num_bytes);
  exit(3);
}

void *ptc_xmalloc(size_t num_bytes) {
  void *block = malloc(num_bytes ? num_bytes : 1);
  if (!block) ptc_oom(num_bytes);
  return block;
}

void *ptc_xrealloc(void *block, size_t num_bytes) {
  void *result = realloc(block, num_bytes ? num_bytes : 1);
  if (!result) ptc_oom(num_bytes);
  return result;
}

void ptc_arena_init(ptc_arena_t *arena) { *arena = (ptc_arena_t){0}; }

void ptc_arena_deinit(ptc_arena_t *arena) {
  for (ptc_arena_chunk_t *chunk = arena->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    free(chunk);
  }
  *arena = (ptc_arena_t){0};
}

static ptc_arena_chunk_t *new_chunk(const ptc_arena_t *arena, size_t size) {
  const bool large = arena->used_bytes >= LARGE_CHUNK_BYTES;
  const size_t usual = large ? LARGE_CHUNK_BYTES - sizeof(ptc_arena_chunk_t) : CHUNK_BYTES;
  const size_t capacity = size > usual ? size : usual;
  ptc_arena_chunk_t *chunk = NULL;
  if (large && capacity == usual) {
    chunk = aligned_alloc(HUGE_PAGE_BYTES, LARGE_CHUNK_BYTES);
#ifdef MADV_HUGEPAGE
    if (chunk) madvise(chunk, LARGE_CHUNK_BYTES, MADV_HUGEPAGE);
#endif
  }
  if (!chunk) chunk = ptc_xmalloc(sizeof(*chunk) + capacity);
  *chunk = (ptc_arena_chunk_t){.next = arena->chunks, .capacity = capacity};
  return chunk;
}

void ptc_arena_reset(ptc_arena_t *arena) {
  ptc_arena_chunk_t *chunk = arena->chunks;
  if (!chunk) return;
  if (chunk->next) {  // one chunk for all of it
    const size_t size = arena->used_bytes;
    ptc_arena_deinit(arena);
    arena->chunks = chunk = new_chunk(arena, size + size / 4);
  }
  chunk->used = 0;
  arena->used_bytes = 0;
}

void *ptc_arena_alloc_raw(ptc_arena_t *arena, size_t num_bytes) {
  if (num_bytes > SIZE_MAX - CHUNK_BYTES - sizeof(ptc_arena_chunk_t)) ptc_oom(num_bytes);
  size_t size = (num_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  ptc_arena_chunk_t *chunk = arena->chunks;
  if (!chunk || chunk->capacity - chunk->used < size) {
    chunk = new_chunk(arena, size);
    arena->chunks = chunk;
  }
  void *result = chunk->data + chunk->used;
  chunk->used += size;
  arena->used_bytes += size;
  return result;
}

void *ptc_arena_alloc(ptc_arena_t *arena, size_t num_bytes) {
  return memset(ptc_arena_alloc_raw(arena, num_bytes), 0, num_bytes);
}

void *ptc_arena_calloc(ptc_arena_t *arena, size_t count, size_t elem_bytes) {
  if (elem_bytes && count > SIZE_MAX / elem_bytes) ptc_oom(SIZE_MAX);
  return ptc_arena_alloc(arena, count * elem_bytes);
}

char *ptc_arena_strndup(ptc_arena_t *arena, const char *text, size_t len) {
  char *copy = ptc_arena_alloc(arena, len + 1);
  if (len) memcpy(copy, text, len);
  return copy;
}

char *ptc_arena_strdup(ptc_arena_t *arena, const char *text) {
  return ptc_arena_strndup(arena, text, strlen(text));
}

char *ptc_arena_vprintf(ptc_arena_t *arena, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  char *text = ptc_arena_alloc(arena, (size_t)(len < 0 ? 0 : len) + 1);
  if (len > 0) vsnprintf(text, (size_t)len + 1, format, again);
  va_end(again);
  return text;
}

char *ptc_arena_printf(ptc_arena_t *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = ptc_arena_vprintf(arena, format, args);
  va_end(args);
  return text;
}
