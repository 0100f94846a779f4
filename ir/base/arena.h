// Bump allocation. Everything the compiler builds lives in an arena and is dropped whole.
#ifndef PTC_IR_BASE_ARENA_H_
#define PTC_IR_BASE_ARENA_H_

#include <stdarg.h>
#include <stddef.h>

typedef struct ptc_arena_chunk_s ptc_arena_chunk_t;

// Zero-initialize, or call ptc_arena_init. Not thread-safe.
typedef struct ptc_arena_s {
  ptc_arena_chunk_t *chunks;  // newest first
  size_t used_bytes;          // bytes handed out, for IR size figures
} ptc_arena_t;

void ptc_arena_init(ptc_arena_t *arena);
// Frees all memory; the arena may be used again.
void ptc_arena_deinit(ptc_arena_t *arena);
// Forgets what is in it, and has room for as much again.
void ptc_arena_reset(ptc_arena_t *arena);

// Returns |num_bytes| zeroed bytes aligned to 16. Never NULL: see ptc_oom.
void *ptc_arena_alloc(ptc_arena_t *arena, size_t num_bytes);
// The same with anything in them.
void *ptc_arena_alloc_raw(ptc_arena_t *arena, size_t num_bytes);
// Like calloc; an overflowing product is ptc_oom.
void *ptc_arena_calloc(ptc_arena_t *arena, size_t count, size_t elem_bytes);
#define PTC_ARENA_NEW(arena, type) ((type *)ptc_arena_alloc((arena), sizeof(type)))
#define PTC_ARENA_ARRAY(arena, type, count) \
  ((type *)ptc_arena_calloc((arena), (size_t)(count), sizeof(type)))

// Copies |len| bytes and adds a NUL.
char *ptc_arena_strndup(ptc_arena_t *arena, const char *text, size_t len);
char *ptc_arena_strdup(ptc_arena_t *arena, const char *text);
// sprintf into the arena.
char *ptc_arena_printf(ptc_arena_t *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *ptc_arena_vprintf(ptc_arena_t *arena, const char *format, va_list args);

// The one hook for host out-of-memory in the compiler: prints the size and exits with status 3.
_Noreturn void ptc_oom(size_t num_bytes);
// malloc, realloc that end in ptc_oom instead of returning NULL.
void *ptc_xmalloc(size_t num_bytes);
void *ptc_xrealloc(void *block, size_t num_bytes);

#endif  // PTC_IR_BASE_ARENA_H_
