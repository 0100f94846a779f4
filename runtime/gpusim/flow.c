// Control flow of a kernel: basic blocks, and where the lanes of a branch meet again.
#include <string.h>

#include "runtime/gpusim/flat_impl.h"

static bool is(const ptx_inst_t *inst, const char *name) {
  return strcmp(inst->parts[0], name) == 0;
}

bool flat_ends(const ptx_inst_t *inst) {
  return inst->guard < 0 &&
         (is(inst, "bra") || is(inst, "exit") || is(inst, "ret") || is(inst, "trap"));
}

static bool ends_block(const ptx_inst_t *inst) {
  return is(inst, "bra") || is(inst, "exit") || is(inst, "ret") || is(inst, "trap");
}

flat_blocks_t flat_find_blocks(const flat_t *flat, ptc_arena_t *arena) {
  const int32_t n = (int32_t)flat->insts.len;
  int32_t *block_of = PTC_ARENA_ARRAY(arena, int32_t, n + 1);  // first: whether a block begins here
  block_of[0] = 1;
  for (int32_t i = 0; i < n; ++i) {
    const ptx_inst_t *inst = &flat->insts.data[i];
    if (inst->target >= 0) block_of[inst->target] = 1;
    if (ends_block(inst)) block_of[i + 1] = 1;
  }
  int32_t count = 0;
  for (int32_t i = 0; i < n; ++i) count += block_of[i];
  flat_blocks_t out = {PTC_ARENA_ARRAY(arena, flat_block_t, count), count};
  int32_t b = -1;
  for (int32_t i = 0; i < n; ++i) {
    if (block_of[i]) out.blocks[++b].first = i;
    out.blocks[b].last = i;
    block_of[i] = b;
  }
  for (b = 0; b < count; ++b) {
    flat_block_t *block = &out.blocks[b];
    const ptx_inst_t *last = &flat->insts.data[block->last];
    block->next[0] = block->next[1] = -1;
    if (!flat_ends(last) && b + 1 < count) block->next[0] = b + 1;
    if (is(last, "bra")) block->next[1] = block_of[last->target];
  }
  return out;
}

// --- postdominators: Cooper, Harvey, Kennedy, "A simple, fast dominance algorithm" (2001), on the reversed
// graph, whose root is one exit behind all blocks that end a thread.

typedef struct post_s {
  const flat_blocks_t *blocks;
  int32_t *order,
      *number;   // blocks in postorder of the reversed graph; the root has the highest number
  int32_t *dom;  // immediate postdominator; of the root, itself
  int32_t num_ordered;
} post_t;

// Successors in the graph with the root: a block without any leads to the root.
static int32_t successors(const post_t *post, int32_t b, int32_t out[2]) {
  const flat_block_t *block = &post->blocks->blocks[b];
  int32_t count = 0;
  for (int i = 0; i < 2; ++i)
    if (block->next[i] >= 0) out[count++] = block->next[i];
  if (!count) out[count++] = post->blocks->num_blocks;
  return count;
}

// Numbers the blocks from which the root is reached, walking edges backward.
static void number_blocks(post_t *post, ptc_arena_t *arena) {
  const int32_t n = post->blocks->num_blocks;
  int32_t *first = PTC_ARENA_ARRAY(arena, int32_t, n + 2),
          *pred = PTC_ARENA_ARRAY(arena, int32_t, 2 * n + 2);
  int32_t next[2];
  for (int32_t b = 0; b < n; ++b)
    for (int32_t i = successors(post, b, next) - 1; i >= 0; --i) ++first[next[i] + 1];
  for (int32_t b = 0; b <= n; ++b) first[b + 1] += first[b];
  int32_t *fill = PTC_ARENA_ARRAY(arena, int32_t, n + 2);
  memcpy(fill, first, sizeof *fill * (size_t)(n + 2));
  for (int32_t b = 0; b < n; ++b)
    for (int32_t i = successors(post, b, next) - 1; i >= 0; --i) pred[fill[next[i]]++] = b;
  int32_t *stack = PTC_ARENA_ARRAY(arena, int32_t, n + 2),
          *at = PTC_ARENA_ARRAY(arena, int32_t, n + 2);
  int32_t depth = 0;
  for (int32_t b = 0; b <= n; ++b) post->number[b] = -1, at[b] = first[b];
  post->number[n] = -2;
  stack[depth++] = n;
  while (depth) {
    const int32_t b = stack[depth - 1];
    if (at[b] < first[b + 1]) {
      const int32_t p = pred[at[b]++];
      if (post->number[p] == -1) post->number[p] = -2, stack[depth++] = p;
      continue;
    }
    post->number[b] = post->num_ordered;
    post->order[post->num_ordered++] = b;
    --depth;
  }
}

static int32_t common(const post_t *post, int32_t a, int32_t b) {
  while (a != b) {
    while (post->number[a] < post->number[b]) a = post->dom[a];
    while (post->number[b] < post->number[a]) b = post->dom[b];
  }
  return a;
}

static void find_postdominators(post_t *post) {
  const int32_t root = post->blocks->num_blocks;
  for (int32_t b = 0; b <= root; ++b) post->dom[b] = -1;
  post->dom[root] = root;
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t o = post->num_ordered - 2; o >= 0; --o) {
      const int32_t b = post->order[o];
      int32_t next[2], dom = -1;
      for (int32_t i = successors(post, b, next) - 1; i >= 0; --i)
        if (post->dom[next[i]] >= 0) dom = dom < 0 ? next[i] : common(post, dom, next[i]);
      if (dom != post->dom[b]) post->dom[b] = dom, changed = true;
    }
  }
}

void flat_find_meets(flat_t *flat) {
  ptc_arena_t arena = {0};
  const flat_blocks_t blocks = flat_find_blocks(flat, &arena);
  const int32_t n = blocks.num_blocks;
  post_t post = {.blocks = &blocks,
                 .order = PTC_ARENA_ARRAY(&arena, int32_t, n + 1),
                 .number = PTC_ARENA_ARRAY(&arena, int32_t, n + 1),
                 .dom = PTC_ARENA_ARRAY(&arena, int32_t, n + 1)};
  number_blocks(&post, &arena);
  find_postdominators(&post);
  const int32_t end = (int32_t)flat->insts.len;
  flat->meet = ptc_xmalloc(sizeof *flat->meet * (size_t)(end + 1));
  for (int32_t i = 0; i < end; ++i) flat->meet[i] = end;
  for (int32_t b = 0; b < n; ++b)
    if (post.dom[b] >= 0 && post.dom[b] < n)
      flat->meet[blocks.blocks[b].last] = blocks.blocks[post.dom[b]].first;
  ptc_arena_deinit(&arena);
}
