#include "runtime/exchange.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/map.h"
#include "ir/base/vec.h"

// What belongs to one collective step.
typedef struct entry_s {
  int32_t group, list;
  const char *context;
  ptc_loc_t loc;
} entry_t;

struct ptc_exchange_s {
  const ptc_plan_t *plan;
  ptc_comm_t *comm;
  ptc_arena_t arena;
  ptc_map_t entries;  // ptc_collective_t * -> entry_t *
  int32_t num_steps;
  PTC_VEC(const ptc_collective_t *) kinds;  // one per distinct list of axes
  PTC_VEC(int32_t) groups;                  // of the communicator, for each of them
  PTC_VEC(int64_t) bytes;                   // read from peers, per list and kind
};

static bool same_axes(const ptc_collective_t *a, const ptc_collective_t *b) {
  bool same = a->num_axes == b->num_axes;
  for (int32_t i = 0; same && i < a->num_axes; i++)
    same = ptc_axis_ref_equal(a->axes[i], b->axes[i]);
  return same;
}

static ptc_status_t make_group(ptc_diag_t *diag, ptc_exchange_t *x, const ptc_collective_t *c,
                               entry_t *entry) {
  for (int64_t i = 0; i < x->kinds.len; i++) {
    entry->group = x->groups.data[i];
    entry->list = (int32_t)i;
    if (same_axes(x->kinds.data[i], c)) return PTC_OK;
  }
  entry->list = (int32_t)x->kinds.len;
  const ptc_mesh_t *mesh = &x->plan->mesh;
  const int64_t size = ptc_group_size(mesh, c->axes, c->num_axes);
  int32_t *ranks = PTC_ARENA_ARRAY(&x->arena, int32_t, size);
  for (int64_t g = 0; g < size; g++)
    ranks[g] = (int32_t)ptc_group_rank(mesh, c->axes, c->num_axes, x->comm->rank, g);
  PTC_TRY(ptc_comm_group(x->comm, diag, ranks, (int32_t)size, &entry->group));
  PTC_VEC_PUSH(&x->kinds, c);
  PTC_VEC_PUSH(&x->groups, entry->group);
  for (int k = 0; k < PTC_NUM_COLLECTIVES; k++) PTC_VEC_PUSH(&x->bytes, 0);
  return PTC_OK;
}

// "step 17 all_reduce over dp of grad of wq".
static const char *context_of(ptc_exchange_t *x, const ptc_step_t *step) {
  const ptc_collective_t *c = step->collective;
  ptc_str_t text = {0};
  ptc_str_printf(&text, "step %" PRId32 " %s over", x->num_steps, ptc_collective_name(c->kind));
  for (int32_t i = 0; i < c->num_axes; i++) ptc_str_printf(&text, " %s", c->axes[i].axis);
  ptc_str_printf(&text, " of %s", x->plan->buffers[step->args[0].buffer].name);
  if (c->num_parts > 1) ptc_str_printf(&text, " and %" PRId32 " more", c->num_parts - 1);
  const char *kept = ptc_arena_strdup(&x->arena, text.data);
  ptc_str_deinit(&text);
  return kept;
}

static ptc_status_t add_steps(ptc_diag_t *diag, ptc_exchange_t *x, const ptc_step_t *steps,
                              int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    x->num_steps++;
    if (steps[i].kind == PTC_STEP_REPEAT)
      PTC_TRY(add_steps(diag, x, steps[i].body, steps[i].num_steps));
    if (steps[i].kind != PTC_STEP_COLLECTIVE) continue;
    const ptc_collective_t *c = steps[i].collective;
    entry_t *entry = PTC_ARENA_NEW(&x->arena, entry_t);
    PTC_TRY(make_group(diag, x, c, entry));
    entry->context = context_of(x, &steps[i]);
    entry->loc = (ptc_loc_t){.file = c->loc_file, .line = c->loc_line};
    ptc_map_set(&x->entries, c, entry);
  }
  return PTC_OK;
}

ptc_status_t ptc_exchange_create(ptc_diag_t *diag, const ptc_plan_t *plan, ptc_comm_t *comm,
                                 ptc_exchange_t **out) {
  *out = NULL;
  if (ptc_plan_world(plan) != comm->world)
    return ptc_error(diag, (ptc_loc_t){.file = plan->json_file}, PTC_INVALID_INPUT, "comm-world",
                     "the plan is for %" PRId64 " ranks, and %" PRId32
                     " run it; start as many, or "
                     "compile the model with --world %" PRId32,
                     ptc_plan_world(plan), comm->world, comm->world);
  ptc_exchange_t *x = ptc_xmalloc(sizeof *x);
  *x = (ptc_exchange_t){.plan = plan, .comm = comm};
  ptc_status_t status = PTC_OK;
  for (int32_t t = 0; t < plan->num_tasks && status == PTC_OK; t++) {
    x->num_steps = 0;
    status = add_steps(diag, x, plan->tasks[t].steps, plan->tasks[t].num_steps);
  }
  if (status == PTC_OK) status = ptc_comm_ready(comm, diag);
  if (status == PTC_OK)
    *out = x;
  else
    ptc_exchange_destroy(x);
  return status;
}

void ptc_exchange_destroy(ptc_exchange_t *exchange) {
  if (!exchange) return;
  ptc_map_deinit(&exchange->entries);
  PTC_VEC_FREE(&exchange->kinds);
  PTC_VEC_FREE(&exchange->groups);
  PTC_VEC_FREE(&exchange->bytes);
  ptc_arena_deinit(&exchange->arena);
  free(exchange);
}

ptc_status_t ptc_exchange_run(ptc_diag_t *diag, ptc_exchange_t *exchange, const ptc_step_t *step,
                              void *const *args) {
  const ptc_collective_t *c = step->collective;
  const entry_t *entry = ptc_map_get(&exchange->entries, c);
  const int64_t before = ptc_comm_bytes(exchange->comm, entry->group, c->kind);
  ptc_comm_set_context(exchange->comm, entry->context, entry->loc);
  PTC_TRY(ptc_comm_collective(exchange->comm, diag, entry->group, c, args));
  exchange->bytes.data[entry->list * PTC_NUM_COLLECTIVES + (int32_t)c->kind] +=
      ptc_comm_bytes(exchange->comm, entry->group, c->kind) - before;
  return PTC_OK;
}

int64_t ptc_exchange_bytes(const ptc_exchange_t *exchange, const ptc_collective_t *collective) {
  const entry_t *entry = ptc_map_get(&exchange->entries, collective);
  return exchange->bytes.data[entry->list * PTC_NUM_COLLECTIVES + (int32_t)collective->kind];
}

void ptc_exchange_forget(ptc_exchange_t *exchange) {
  for (int64_t i = 0; i < exchange->bytes.len; i++) exchange->bytes.data[i] = 0;
}

ptc_comm_t *ptc_exchange_comm(const ptc_exchange_t *exchange) { return exchange->comm; }
