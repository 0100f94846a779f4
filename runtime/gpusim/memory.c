#include "runtime/gpusim/memory.h"

#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 256, GUARD = 4096, POISON = 0xff };

static uint64_t mapped_bytes(uint64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN + GUARD; }

void sim_memory_deinit(sim_memory_t *memory) {
  while (memory->allocs.len) sim_memory_free(memory, memory->allocs.data[0].address);
  PTC_VEC_FREE(&memory->allocs);
}

uint64_t sim_memory_alloc(sim_memory_t *memory, uint64_t bytes) {
  if (bytes > (uint64_t)1 << 46) return 0;
  if (memory->limit_bytes && memory->used_bytes + bytes > memory->limit_bytes) return 0;
  void *block = mmap(NULL, mapped_bytes(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) return 0;
  memset(block, POISON, bytes);
  sim_alloc_t alloc = {.address = (uint64_t)(uintptr_t)block, .bytes = bytes};
  if (memory->follow) {
    alloc.valid = ptc_xmalloc(bytes + 1);
    memset(alloc.valid, 0, bytes);
  }
  PTC_VEC_PUSH(&memory->allocs, alloc);
  for (int64_t i = memory->allocs.len - 1; i > 0; --i) {
    sim_alloc_t *at = &memory->allocs.data[i];
    if (at[-1].address < at->address) break;
    const sim_alloc_t other = at[-1];
    at[-1] = *at;
    *at = other;
  }
  memory->used_bytes += bytes;
  return alloc.address;
}

bool sim_memory_free(sim_memory_t *memory, uint64_t address) {
  for (int64_t i = 0; i < memory->allocs.len; ++i) {
    const sim_alloc_t alloc = memory->allocs.data[i];
    if (alloc.address != address) continue;
    munmap((void *)(uintptr_t)address, mapped_bytes(alloc.bytes));
    free(alloc.valid);
    memory->used_bytes -= alloc.bytes;
    memmove(&memory->allocs.data[i], &memory->allocs.data[i + 1],
            sizeof alloc * (size_t)(memory->allocs.len - i - 1));
    --memory->allocs.len;
    return true;
  }
  return false;
}

const sim_alloc_t *sim_memory_near(const sim_memory_t *memory, uint64_t address) {
  int64_t low = 0, high = memory->allocs.len;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (memory->allocs.data[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? &memory->allocs.data[low - 1] : NULL;
}

const sim_alloc_t *sim_memory_find(const sim_memory_t *memory, uint64_t address, uint64_t bytes) {
  const sim_alloc_t *alloc = sim_memory_near(memory, address);
  if (!alloc || bytes > alloc->bytes) return NULL;
  return address - alloc->address <= alloc->bytes - bytes ? alloc : NULL;
}

void sim_memory_wrote(const sim_alloc_t *alloc, uint64_t address, uint64_t bytes) {
  if (alloc->valid) memset(alloc->valid + (address - alloc->address), 1, bytes);
}
