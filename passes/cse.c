// cse: of two equal ops where one dominates the other, the later is replaced by the earlier.
//
// Random ops are equal if their operands (seed, step, turns) and their path are: then their numbers
// are, too. A clone that recompute made is merged with no original, or the recomputation would be
// undone. Leaves are merged within one block only: capturing a constant saves nothing.
#include <string.h>

#include "ir/base/vec.h"
#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/simplify.h"

enum { NUM_SLOTS = 1 << 12 };

typedef struct entry_s {
  ptc_op_t *op;
  int64_t next;  // in the slot's chain, -1 at its end
  uint32_t slot;
} entry_t;

typedef struct cse_s {
  ptc_map_t replaced;
  PTC_VEC(entry_t) entries;  // of the blocks around the current place, innermost last
  int64_t slots[NUM_SLOTS];
  bool changed;
} cse_t;

static uint32_t mix(uint32_t hash, uint64_t x) {
  x = (x ^ hash) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(x >> 32) ^ (uint32_t)x;
}

static uint32_t slot_of(const ptc_op_t *op) {
  uint32_t hash = mix(17, (uint64_t)op->opcode);
  uint64_t operands = 0;  // the order must not matter: some ops commute
  for (int32_t i = 0; i < op->num_operands; i++)
    operands += mix(29, (uint64_t)op->operands[i]->id + 1);
  hash = mix(hash, operands);
  if (op->opcode == PTC_OP_CONSTANT) {
    const double value = ptc_op_float(op, "value");
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    hash = mix(hash, bits);
  }
  return hash % NUM_SLOTS;
}

static bool same_operands(const ptc_op_t *a, const ptc_op_t *b) {
  if (a->num_operands != b->num_operands) return false;
  bool straight = true;
  for (int32_t i = 0; i < a->num_operands; i++) straight &= a->operands[i] == b->operands[i];
  if (straight) return true;
  return ptc_op_has_trait(a, PTC_TRAIT_COMMUTES) && a->num_operands == 2 &&
         a->operands[0] == b->operands[1] && a->operands[1] == b->operands[0];
}

static bool same_op(const ptc_op_t *a, const ptc_op_t *b) {
  if (a->opcode != b->opcode || a->num_results != b->num_results || !same_operands(a, b))
    return false;
  if (a->remat != b->remat) return false;
  const bool leaf = a->num_operands == 0;
  if ((leaf || a->remat) && a->parent != b->parent) return false;
  for (int32_t i = 0; i < a->num_results; i++)
    if (!a->results[i]->type || !b->results[i]->type ||
        !ptc_type_equal(a->results[i]->type, b->results[i]->type))
      return false;
  if (a->opcode == PTC_OP_CONSTANT) {  // 0 and -0 differ
    const double x = ptc_op_float(a, "value"), y = ptc_op_float(b, "value");
    return memcmp(&x, &y, sizeof(x)) == 0;
  }
  return ptc_attrs_equal(&a->attrs, &b->attrs);
}

static ptc_op_t *find_or_add(cse_t *cse, ptc_op_t *op) {
  const uint32_t slot = slot_of(op);
  for (int64_t i = cse->slots[slot]; i >= 0; i = cse->entries.data[i].next)
    if (same_op(cse->entries.data[i].op, op)) return cse->entries.data[i].op;
  const entry_t entry = {op, cse->slots[slot], slot};
  cse->slots[slot] = cse->entries.len;
  PTC_VEC_PUSH(&cse->entries, entry);
  return NULL;
}

// One bundle given twice to a repeat.
static void merge_each(cse_t *cse, ptc_op_t *repeat) {
  ptc_value_t **bundles = repeat->operands + repeat->num_carry;
  ptc_value_t **args = repeat->body->args + 1 + repeat->num_carry;
  for (int32_t i = 0; i < repeat->num_each; i++)
    for (int32_t j = 0; j < i; j++)
      if (bundles[i] == bundles[j] && !ptc_map_get(&cse->replaced, args[i])) {
        ptc_map_set(&cse->replaced, args[i], args[j]);
        break;
      }
}

// One value collected twice.
static void merge_collects(cse_t *cse, const ptc_op_t *repeat) {
  const ptc_op_t *yield = repeat->body->last;
  for (int32_t i = repeat->num_carry; i < repeat->num_results; i++)
    for (int32_t j = repeat->num_carry; j < i; j++)
      if (yield->operands[i] == yield->operands[j]) {
        ptc_map_set(&cse->replaced, repeat->results[i], repeat->results[j]);
        break;
      }
}

static void visit_block(cse_t *cse, ptc_block_t *block) {
  const int64_t mark = cse->entries.len;
  for (ptc_op_t *op = block->first, *next; op; op = next) {
    next = op->next;
    ptc_subst_operands(&cse->replaced, op);
    if (op->body) {
      merge_each(cse, op);
      visit_block(cse, op->body);
      merge_collects(cse, op);
    } else if (ptc_op_has_trait(op, PTC_TRAIT_PURE)) {
      const ptc_op_t *same = find_or_add(cse, op);
      if (!same) continue;
      for (int32_t i = 0; i < op->num_results; i++)
        ptc_map_set(&cse->replaced, op->results[i], same->results[i]);
      ptc_op_remove(op);
      cse->changed = true;
    }
  }
  while (cse->entries.len > mark) {
    const entry_t *entry = &cse->entries.data[--cse->entries.len];
    cse->slots[entry->slot] = entry->next;
  }
}

bool ptc_simplify_cse(ptc_module_t *module) {
  bool changed = false;
  cse_t *cse = ptc_xmalloc(sizeof(*cse));
  for (ptc_func_t *func = module->funcs; func; func = func->next) {
    memset(cse, 0, sizeof(*cse));
    for (int i = 0; i < NUM_SLOTS; i++) cse->slots[i] = -1;
    visit_block(cse, func->body);
    changed |= cse->changed;
    ptc_map_deinit(&cse->replaced);
    PTC_VEC_FREE(&cse->entries);
  }
  free(cse);
  return changed;
}

ptc_status_t ptc_pass_cse(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  (void)ctx;
  ptc_simplify_cse(module);
  return PTC_OK;
}
