// Instances: calls of layers, the paths of what they own, parameters.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/lower_impl.h"

// --- paths

// The turns between |instance|'s call and here, outermost first; their number.
static int32_t turns_inside(lower_t *L, const instance_t *instance, turn_t **out, int32_t max) {
  int32_t count = 0;
  for (turn_t *turn = L->turn; turn && turn != instance->turns_outside; turn = turn->parent)
    count++;
  if (count > max) return -1;
  int32_t i = count;
  for (turn_t *turn = L->turn; turn && turn != instance->turns_outside; turn = turn->parent)
    out[--i] = turn;
  return count;
}

static bool push_star(instance_t *part, region_t *region, int64_t first, int64_t step) {
  if (part->num_stars == PTC_MAX_COUNTS) return false;
  part->stars[part->num_stars] = region;
  part->star_first[part->num_stars] = first;
  part->star_step[part->num_stars++] = step;
  return true;
}

// Sets path and stars of |part|, called |name|, of the current instance. The path of a random op
// tells the calls of a shared instance apart.
static bool make_path(lower_t *L, instance_t *part, const char *name, bool is_random,
                      ptc_loc_t loc) {
  const instance_t *owner = L->instance;
  turn_t *turns[PTC_MAX_COUNTS];
  int32_t num_turns = turns_inside(L, owner, turns, PTC_MAX_COUNTS);
  *part = *owner;
  part->parent = L->instance;
  part->turns_outside = L->turn;
  part->claims = NULL;
  part->layer = NULL;
  part->plain = ptc_arena_printf(&L->module->arena, "%s.%s", owner->plain, name);
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s%s%s%s", owner->path, owner->path[0] ? "." : "", name,
                 is_random ? owner->echo : "");
  bool ok = num_turns >= 0;
  for (int32_t i = 0; is_random && i < owner->num_echo_stars && ok; i++)
    ok = push_star(part, owner->echo_stars[i], owner->echo_first[i], owner->echo_step[i]);
  for (int32_t i = 0; i < num_turns && ok; i++) {
    if (!turns[i]->region) {
      ptc_str_printf(&path, ".%" PRId64, turns[i]->first);
      continue;
    }
    ptc_str_append(&path, ".*");
    ok = push_star(part, turns[i]->region, turns[i]->first, turns[i]->step);
  }
  part->path = lower_intern(L, path.data);
  ptc_str_deinit(&path);
  if (!ok)
    LOWER_ERROR(L, loc, "repeat-depth", "repeats are nested deeper than %d levels", PTC_MAX_COUNTS);
  return ok;
}

// Text that tells turns apart: the path's stars with their first turns and steps.
static const char *turns_text(lower_t *L, const instance_t *part) {
  ptc_str_t text = {0};
  ptc_str_append(&text, part->path);
  for (int32_t i = 0; i < part->num_stars; i++)
    ptc_str_printf(&text, " %" PRId64 ":%" PRId64, part->star_first[i], part->star_step[i]);
  const char *interned = lower_intern(L, text.data);
  ptc_str_deinit(&text);
  return interned;
}

instance_t *instance_enter(lower_t *L, const char *name, bool named, const ptc_expr_t *call) {
  instance_t *part = PTC_ARENA_NEW(&L->module->arena, instance_t);
  make_path(L, part, name, false, call->loc);
  const char *turns = turns_text(L, part), *own = lower_intern(L, name);
  const void *repeat = L->turn != L->instance->turns_outside ? L->turn->repeat : NULL;
  int32_t earlier = 0;
  for (claim_t *claim = L->instance->claims; claim; claim = claim->next) {
    if (claim->name != own) continue;
    if (!named && !claim->named && claim->site != call &&
        (claim->repeat != repeat || claim->turns == turns)) {
      LOWER_ERROR(
          L, call->loc, "duplicate-instance",
          "a second unnamed \"%s\" here would share its parameters with the first; name both: "
          "%s@one, %s@two (the same name shares)",
          name, name, name);
      ptc_note(L->diag, claim->loc, "the first one");
    }
    earlier += claim->turns == turns;
  }
  claim_t *claim = PTC_ARENA_NEW(&L->module->arena, claim_t);
  *claim = (claim_t){.next = L->instance->claims,
                     .name = own,
                     .site = call,
                     .repeat = repeat,
                     .turns = turns,
                     .named = named,
                     .loc = call->loc};
  L->instance->claims = claim;
  if (earlier)
    part->echo = ptc_arena_printf(&L->module->arena, "%s@%d", L->instance->echo, (int)earlier + 1);
  L->instance = part;
  return part;
}

void instance_leave(lower_t *L, instance_t *instance) { L->instance = instance->parent; }

// Which place called |name| in |owner| the call at |site| and |place| is, counted from 1 in the order
// in which they are met; a place keeps its number in every turn.
static int32_t place_number(lower_t *L, instance_t *owner, const char *name, const ptc_expr_t *site,
                            const char *place) {
  int32_t count = 0;
  for (const claim_t *claim = owner->claims; claim; claim = claim->next) {
    if (claim->name != name) continue;
    if (claim->site == site && claim->turns == place) return claim->number;
    count++;
  }
  claim_t *claim = PTC_ARENA_NEW(&L->module->arena, claim_t);
  *claim = (claim_t){.next = owner->claims,
                     .name = name,
                     .site = site,
                     .turns = place,
                     .number = count + 1,
                     .named = true,
                     .loc = site->loc};
  owner->claims = claim;
  return claim->number;
}

instance_t *instance_random(lower_t *L, const char *name, const ptc_expr_t *call) {
  // No parameter's name begins so.
  const char *own = lower_intern(L, ptc_arena_printf(&L->module->arena, "~%s", name));
  int32_t number = place_number(L, L->instance, own, call, NULL);
  ptc_str_t text = {0};
  ptc_str_append(&text, name);
  if (number > 1) ptc_str_printf(&text, "_%d", (int)number);
  instance_t *part = PTC_ARENA_NEW(&L->module->arena, instance_t);
  make_path(L, part, text.data, true, call->loc);
  ptc_str_deinit(&text);
  return part;
}

ptc_value_t *lower_state(lower_t *L, const char *path) {
  ptc_global_t *global = ptc_module_find_global(L->module, lower_intern(L, path));
  return ptc_func_get_arg(L->func, global);
}

int32_t lower_random_operands(lower_t *L, const instance_t *instance, ptc_value_t **out) {
  out[0] = lower_state(L, "seed");
  out[1] = lower_state(L, "step");
  for (int32_t i = 0; i < instance->num_stars; i++)
    out[2 + i] = lower_turn_value(&L->b, instance->stars[i]->op->body->args[0],
                                  instance->star_first[i], instance->star_step[i]);
  return 2 + instance->num_stars;
}

// --- parameters

static bool same_turns(const ptc_global_t *global, const instance_t *part) {
  if (global->type->num_counts != part->num_stars) return false;
  for (int32_t i = 0; i < part->num_stars; i++)
    if (global->turn_first[i] != part->star_first[i] ||
        global->turn_step[i] != part->star_step[i] ||
        global->type->counts[i] != part->stars[i]->count)
      return false;
  return true;
}

// Whether star |a| of turns (first, step, count) and the segment |b| can name the same turn.
static bool segments_meet(const char *a, size_t len_a, int64_t first, int64_t step, int64_t count,
                          const char *b, size_t len_b, int64_t b_first, int64_t b_step,
                          int64_t b_count) {
  bool star_a = len_a == 1 && a[0] == '*', star_b = len_b == 1 && b[0] == '*';
  if (!star_a && !star_b) return len_a == len_b && strncmp(a, b, len_a) == 0;
  if (!star_b) {
    char *end;
    b_first = strtoll(b, &end, 10);
    if (end != b + len_b) return false;
    b_step = b_count = 1;
  }
  if (!star_a) {
    char *end;
    first = strtoll(a, &end, 10);
    if (end != a + len_a) return false;
    step = count = 1;
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t offset = first + i * step - b_first;
    if (offset >= 0 && offset % b_step == 0 && offset / b_step < b_count) return true;
  }
  return false;
}

// Whether some instance belongs to both the global and the part.
static bool overlaps(const ptc_global_t *global, const instance_t *part) {
  const char *a = global->path, *b = part->path;
  int32_t star_a = 0, star_b = 0;
  while (*a && *b) {
    size_t len_a = strcspn(a, "."), len_b = strcspn(b, ".");
    bool is_star_a = len_a == 1 && *a == '*', is_star_b = len_b == 1 && *b == '*';
    if (!segments_meet(
            a, len_a, is_star_a ? global->turn_first[star_a] : 0,
            is_star_a ? global->turn_step[star_a] : 1, is_star_a ? global->type->counts[star_a] : 1,
            b, len_b, is_star_b ? part->star_first[star_b] : 0,
            is_star_b ? part->star_step[star_b] : 1, is_star_b ? part->stars[star_b]->count : 1))
      return false;
    star_a += is_star_a;
    star_b += is_star_b;
    a += len_a + (a[len_a] == '.');
    b += len_b + (b[len_b] == '.');
  }
  return !*a && !*b;
}

static ptc_global_t *find_param(lower_t *L, const instance_t *part, const ptc_type_t *type,
                                ptc_loc_t loc, bool *out_ok) {
  *out_ok = true;
  for (int64_t i = 0; i < L->module->num_globals; i++) {
    ptc_global_t *global = L->module->globals[i];
    bool same = global->path == part->path && same_turns(global, part);
    if (same && global->kind == PTC_GLOBAL_PARAM && ptc_type_equal(global->type, type))
      return global;
    if (!same && !overlaps(global, part)) continue;
    if (global->kind != PTC_GLOBAL_PARAM)
      LOWER_ERROR(L, loc, "duplicate-name", "the parameter \"%s\" has the name of the %s \"%s\"",
                  part->path, ptc_global_kind_name(global->kind), global->path);
    else if (same)
      LOWER_ERROR(L, loc, "shared-param",
                  "parameter \"%s\" is shared, but has other dims or another dtype here",
                  part->path);
    else
      LOWER_ERROR(L, loc, "shared-turns",
                  "parameter \"%s\" is shared between repeats whose equal turns differ; let the "
                  "repeats have the same count and pattern",
                  part->path);
    ptc_note(L->diag, global->loc, "declared here");
    *out_ok = false;
    return NULL;
  }
  return NULL;
}

val_t lower_param(lower_t *L, const char *name, ptc_loc_t loc, const fdim_t *dims, int32_t num_dims,
                  ptc_dtype_t dtype, const param_init_t *init) {
  instance_t part;
  if (!make_path(L, &part, name, false, loc)) return val_error();
  val_t like = {.num_dims = num_dims};
  for (int32_t i = 0; i < num_dims; i++) like.dims[i] = dims[i];
  const ptc_type_t *type = val_type(L, &like, dtype);
  if (ptc_type_num_bytes(type) < 0) {
    LOWER_ERROR(L, loc, "extent-range", "parameter \"%s\" has too many elements", part.path);
    return val_error();
  }
  for (int32_t i = part.num_stars; i-- > 0;)
    type = ptc_type_bundle(&L->module->arena, type, part.stars[i]->count);
  bool ok;
  ptc_global_t *global = find_param(L, &part, type, loc, &ok);
  if (!ok) return val_error();
  if (!global) {
    global = ptc_module_add_global(L->module, PTC_GLOBAL_PARAM, part.path, type, loc);
    for (int32_t i = 0; i < part.num_stars; i++) {
      global->turn_first[i] = part.star_first[i];
      global->turn_step[i] = part.star_step[i];
    }
    param_init_t *own = PTC_ARENA_NEW(&L->module->arena, param_init_t);
    *own = *init;
    own->global = global;
    *L->inits_tail = own;
    L->inits_tail = &own->next;
  }
  ptc_value_t *value = ptc_func_get_arg(L->func, global);
  for (int32_t i = 0; i < part.num_stars; i++) value = region_each(L, part.stars[i], value);
  val_t val = val_tensor(value, dims, num_dims, false);
  val.global = global;
  return val;
}

void lower_note_weight(lower_t *L, const val_t *val) {
  if (!val->global || val->global->kind != PTC_GLOBAL_PARAM) return;
  if (ptc_attrs_find(&val->global->attrs, lower_intern(L, "decay"))) return;
  ptc_attrs_set_bool(L->module, &val->global->attrs, "decay", true);
}

static void note_range(lower_t *L, ptc_global_t *input, const fdim_t *dim) {
  int64_t range = ptc_attrs_int(&input->attrs, "range", INT64_MAX);
  if (dim->extent < range) ptc_attrs_set_int(L->module, &input->attrs, "range", dim->extent);
}

void lower_note_index(lower_t *L, const val_t *val, const fdim_t *dim) {
  if (!val->global || val->global->kind != PTC_GLOBAL_INPUT) return;
  ptc_attrs_remove(&val->global->attrs, lower_intern(L, "ignorable"));
  note_range(L, val->global, dim);
}

void lower_note_targets(lower_t *L, const val_t *val, const fdim_t *dim) {
  if (!val->global || val->global->kind != PTC_GLOBAL_INPUT) return;
  // With a range already, it indexes something, or is the target of another cross entropy.
  if (!ptc_attrs_find(&val->global->attrs, "range"))
    ptc_attrs_set_bool(L->module, &val->global->attrs, "ignorable", true);
  note_range(L, val->global, dim);
}

static const struct {
  const char *name, *dist;
  int min_args, max_args;
  double a;
} inits[] = {
    {"normal", "normal", 1, 2, 0},   {"truncated_normal", "truncated_normal", 1, 2, 0},
    {"uniform", "uniform", 2, 2, 0}, {"ones", "constant", 0, 0, 1},
    {"zeros", "constant", 0, 0, 0},  {"constant", "constant", 1, 1, 0},
};
enum { NUM_INITS = sizeof(inits) / sizeof(*inits) };

static bool read_init(lower_t *L, const ptc_call_t *call, param_init_t *out) {
  *out = (param_init_t){.dist = "constant"};
  if (!call->name) return true;
  int row = 0;
  while (row < NUM_INITS && strcmp(inits[row].name, call->name) != 0) row++;
  if (row == NUM_INITS) {
    const char *names[NUM_INITS];
    for (int i = 0; i < NUM_INITS; i++) names[i] = inits[i].name;
    const char *near = ptc_nearest_name(call->name, names, NUM_INITS);
    LOWER_ERROR(
        L, call->loc, "unknown-init",
        "unknown distribution \"%s\"%s%s%s; there are normal, truncated_normal, uniform, ones, "
        "zeros, constant",
        call->name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return false;
  }
  if (call->num_args < inits[row].min_args || call->num_args > inits[row].max_args) {
    LOWER_ERROR(L, call->loc, "argument-count", "%s takes %d to %d numbers, not %d", call->name,
                inits[row].min_args, inits[row].max_args, (int)call->num_args);
    return false;
  }
  double numbers[2] = {inits[row].a, 0};
  for (int32_t i = 0; i < call->num_args; i++) {
    ptc_number_t number;
    if (call->arg_names[i]) {
      LOWER_ERROR(L, call->loc, "unknown-option", "%s takes plain numbers, no option \"%s\"",
                  call->name, call->arg_names[i]);
      return false;
    }
    if (!lower_static(L, call->args[i], &number)) return false;
    numbers[i] = number.value;
  }
  out->dist = inits[row].dist;
  out->a = numbers[0];
  out->b = numbers[1];
  return true;
}

static bool read_dtype(lower_t *L, const ptc_call_t *type, bool allow_int, ptc_dtype_t *out) {
  *out = PTC_F32;
  if (!type->name) return true;
  if (type->has_args) {
    LOWER_ERROR(L, type->loc, "unknown-type", "type \"%s\" takes no arguments", type->name);
    return false;
  }
  if (allow_int && strcmp(type->name, "int") == 0) {
    *out = PTC_I32;
    return true;
  }
  if (ptc_dtype_parse(type->name, out) && ptc_dtype_is_float(*out) && *out != PTC_F64) return true;
  LOWER_ERROR(L, type->loc, "unknown-type", "unknown type \"%s\"; there are %sf32, bf16, f16",
              type->name, allow_int ? "int, " : "");
  return false;
}

typedef struct param_options_s {
  bool has_decay, decay, frozen;
  double lr;
} param_options_t;

static bool read_param_options(lower_t *L, const ptc_call_t *call, param_options_t *out) {
  static const char *const known[] = {"decay", "lr", "frozen"};
  *out = (param_options_t){.lr = 1};
  for (int32_t i = 0; i < call->num_args; i++) {
    const char *name = call->arg_names[i];
    int row = 0;
    while (name && row < 3 && strcmp(known[row], name) != 0) row++;
    if (!name || row == 3) {
      const char *near = name ? ptc_nearest_name(name, known, 3) : NULL;
      LOWER_ERROR(L, call->args[i]->loc, "unknown-option",
                  "param has no option \"%s\"%s%s%s; there are decay, lr, frozen",
                  name ? name : "?", near ? "; did you mean \"" : "", near ? near : "",
                  near ? "\"?" : "");
      return false;
    }
    ptc_number_t number;
    if (!lower_static(L, call->args[i], &number)) return false;
    if (row == 0) {
      out->has_decay = true;
      out->decay = number.value != 0;
    } else if (row == 1) {
      out->lr = number.value;
    } else {
      out->frozen = number.value != 0;
    }
  }
  return true;
}

void lower_param_stmt(lower_t *L, const ptc_stmt_t *stmt) {
  param_init_t init;
  param_options_t options;
  ptc_dtype_t dtype;
  bool ok = read_init(L, &stmt->init, &init);
  ok = read_dtype(L, &stmt->type, false, &dtype) && ok;
  ok = read_param_options(L, &stmt->options, &options) && ok;
  for (int32_t i = 0; i < stmt->decls.count; i++) {
    const ptc_formal_t *decl = &stmt->decls.items[i];
    fdim_t dims[PTC_MAX_DIMS];
    bool dims_ok = decl->num_dims <= PTC_MAX_DIMS;
    if (!dims_ok)
      LOWER_ERROR(L, decl->loc, "too-many-dims", "a tensor has at most %d dims", PTC_MAX_DIMS);
    for (int32_t d = 0; dims_ok && d < decl->num_dims; d++) {
      for (int32_t k = 0; k < d; k++) {
        if (strcmp(decl->dims[k], decl->dims[d]) != 0) continue;
        LOWER_ERROR(
            L, decl->dim_locs[d], "repeated-dim",
            "a tensor has a dim once; give the second \"%s\" a name of its own: `dim e = %s`",
            decl->dims[d], decl->dims[d]);
        dims_ok = false;
      }
      if (!scope_dim(L, decl->dims[d], decl->dim_locs[d], &dims[d])) {
        // The rest of the dims may have errors of their own.
        for (int32_t k = d + 1; k < decl->num_dims; k++)
          (void)scope_dim(L, decl->dims[k], decl->dim_locs[k], &dims[k]);
        dims_ok = false;
      }
    }
    bool is_new = !scope_find_here(L->scope, lower_intern(L, decl->name));
    val_t val = ok && dims_ok && is_new
                    ? lower_param(L, decl->name, decl->loc, dims, decl->num_dims, dtype, &init)
                    : val_error();
    if (val.kind == VAL_TENSOR) {
      // Written by hand: the precision pass leaves it.
      if (stmt->type.name)
        ptc_attrs_set_string(L->module, &val.global->attrs, "precision", ptc_dtype_name(dtype));
      if (options.has_decay)
        ptc_attrs_set_bool(L->module, &val.global->attrs, "decay", options.decay);
      if (options.lr != 1) ptc_attrs_set_float(L->module, &val.global->attrs, "lr", options.lr);
      if (options.frozen) ptc_attrs_set_bool(L->module, &val.global->attrs, "frozen", true);
    }
    symbol_t *symbol = scope_define(L, decl->name, decl->loc, SYM_VALUE);
    symbol->value = PTC_ARENA_NEW(&L->module->arena, val_t);
    *symbol->value = val;
    if (val.kind == VAL_ERROR) symbol->kinds |= SYM_ERROR;
  }
}

// --- calls

typedef struct binding_s {
  const char *formal, *actual;
} binding_t;

static scope_t *scope_of(lower_t *L, const symbol_t *symbol) {
  for (scope_t *scope = L->scope; scope; scope = scope->parent)
    if (scope_find_here(scope, symbol->name) == symbol) return scope;
  return NULL;
}

// Argument |i| of the layer's formals, positional or by name; NULL if it is not given.
static const ptc_expr_t *find_argument(const ptc_expr_t *call, const ptc_layer_t *layer,
                                       int32_t i) {
  int32_t position = 0;
  for (int32_t k = 0; k < call->num_items; k++) {
    if (!call->arg_names[k]) {
      if (position++ == i) return call->items[k];
    } else if (strcmp(call->arg_names[k], layer->formals.items[i].name) == 0) {
      return call->items[k];
    }
  }
  return NULL;
}

static bool check_arguments(lower_t *L, const ptc_expr_t *call, const ptc_layer_t *layer) {
  int32_t positional = 0;
  bool ok = true;
  for (int32_t k = 0; k < call->num_items; k++) {
    const char *name = call->arg_names[k];
    if (!name) {
      positional++;
      continue;
    }
    const char *names[64];
    int32_t count = 0, at = -1;
    for (int32_t i = 0; i < layer->formals.count && count < 64; i++) {
      if (strcmp(layer->formals.items[i].name, name) == 0) at = i;
      names[count++] = layer->formals.items[i].name;
    }
    if (at >= 0 && at >= positional) continue;
    ok = false;
    if (at >= 0) {
      LOWER_ERROR(L, call->items[k]->loc, "duplicate-option", "argument \"%s\" is given twice",
                  name);
      continue;
    }
    const char *near = ptc_nearest_name(name, names, count);
    LOWER_ERROR(L, call->items[k]->loc, "unknown-option",
                "layer \"%s\" has no argument \"%s\"%s%s%s", layer->name, name,
                near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  }
  if (positional > layer->formals.count) {
    LOWER_ERROR(L, call->loc, "argument-count", "layer \"%s\" takes %d arguments, not %d",
                layer->name, (int)layer->formals.count, (int)positional);
    ptc_note(L->diag, layer->loc, "the layer");
    ok = false;
  }
  return ok;
}

// Binds the dims of tensor formal |formal| to those of |val| and renames |val| accordingly.
static bool bind_tensor(lower_t *L, const ptc_formal_t *formal, val_t *val, const ptc_expr_t *arg,
                        binding_t *bindings, int32_t *num_bindings) {
  if (val->kind != VAL_TENSOR) {
    if (val->kind != VAL_ERROR)
      LOWER_ERROR(L, arg->loc, "operand-kind", "argument \"%s\" is a tensor, not a number",
                  formal->name);
    return false;
  }
  if (val->num_dims != formal->num_dims) {
    LOWER_ERROR(L, arg->loc, "layer-dims",
                "argument \"%s\" has %d dims, but the value has the %d dims %s", formal->name,
                (int)formal->num_dims, (int)val->num_dims, val_describe(L, val));
    ptc_note(L->diag, formal->loc, "the argument's declaration");
    return false;
  }
  const char *from[PTC_MAX_DIMS], *to[PTC_MAX_DIMS];
  int32_t num_renames = 0;
  for (int32_t i = 0; i < formal->num_dims; i++) {
    const char *name = lower_intern(L, formal->dims[i]);
    for (int32_t k = 0; k < i; k++) {
      if (strcmp(formal->dims[k], formal->dims[i]) != 0) continue;
      LOWER_ERROR(L, formal->dim_locs[i], "repeated-dim",
                  "a tensor has a dim once, \"%s\" is twice", name);
      return false;
    }
    symbol_t *symbol = scope_find_here(L->scope, name);
    if (symbol && (symbol->kinds & SYM_DIM)) {
      if (symbol->dim.key != val->dims[i].key) {
        LOWER_ERROR(L, arg->loc, "layer-dims",
                    "dim \"%s\" of the layer is %s by an earlier argument, but %s by \"%s\"", name,
                    symbol->dim.key, val->dims[i].key, formal->name);
        return false;
      }
    } else {
      symbol = scope_define(L, name, formal->dim_locs[i], SYM_DIM);
      symbol->kinds |= SYM_DIM;
      symbol->dim = val->dims[i];
      symbol->dim.name = name;
      symbol->number = *val->dims[i].number;
      bindings[(*num_bindings)++] = (binding_t){name, val->dims[i].name};
    }
    if (val->dims[i].name == name) continue;
    from[num_renames] = val->dims[i].name;
    to[num_renames++] = name;
  }
  if (num_renames) val->ir = ptc_build_rename(&L->b, val->ir, from, to, num_renames);
  if (!val->ir) return false;
  for (int32_t i = 0; i < formal->num_dims; i++)
    val->dims[i].name = lower_intern(L, formal->dims[i]);
  val->bracketed = false;
  return true;
}

// The caller's names for the dims of a result.
static bool map_back(lower_t *L, val_t *val, const binding_t *bindings, int32_t num_bindings,
                     const ptc_expr_t *call) {
  const char *from[PTC_MAX_DIMS], *to[PTC_MAX_DIMS];
  int32_t num_renames = 0;
  fdim_t dims[PTC_MAX_DIMS];
  for (int32_t i = 0; i < val->num_dims; i++) {
    dims[i] = val->dims[i];
    for (int32_t k = 0; k < num_bindings; k++) {
      if (bindings[k].formal != val->dims[i].name) continue;
      dims[i].name = bindings[k].actual;
      break;
    }
    for (int32_t k = 0; k < i; k++) {
      if (dims[k].name != dims[i].name) continue;
      LOWER_ERROR(
          L, call->loc, "layer-dims",
          "two dims of the result would both be called \"%s\" here; rename one in the layer",
          dims[i].name);
      return false;
    }
    if (dims[i].name == val->dims[i].name) continue;
    from[num_renames] = val->dims[i].name;
    to[num_renames++] = dims[i].name;
  }
  ptc_value_t *ir = val->ir;
  if (num_renames) ir = ptc_build_rename(&L->b, ir, from, to, num_renames);
  *val = val_tensor(ir, dims, val->num_dims, false);
  return val->kind == VAL_TENSOR;
}

static const ptc_layer_t *resolve_alias(lower_t *L, const symbol_t *symbol) {
  const ptc_layer_t *layer = symbol->layer;
  for (int32_t hops = 0; layer->alias_of; hops++) {
    symbol_t *target = scope_find(L, layer->alias_of);
    if (!target || !(target->kinds & SYM_LAYER) || hops > 16) {
      LOWER_ERROR(L, layer->loc, "unknown-name", "\"%s\" is no layer", layer->alias_of);
      return NULL;
    }
    layer = target->layer;
  }
  return layer;
}

// The calls of an alias share one instance; their random streams differ by the turns around the call
// and by its place: the same whether or not the turns fold into a region.
static void set_alias_echo(lower_t *L, instance_t *instance, instance_t *owner,
                           const instance_t *caller, const ptc_expr_t *call) {
  turn_t *turns[PTC_MAX_COUNTS];
  int32_t num_turns = turns_inside(L, owner, turns, PTC_MAX_COUNTS);
  if (num_turns < 0) {
    LOWER_ERROR(L, call->loc, "repeat-depth", "repeats are nested deeper than %d levels",
                PTC_MAX_COUNTS);
    return;
  }
  ptc_str_t echo = {0};
  ptc_str_append(&echo, "");
  instance->num_echo_stars = 0;
  for (int32_t i = 0; i < num_turns; i++) {
    if (!turns[i]->region) {
      ptc_str_printf(&echo, ":%" PRId64, turns[i]->first);
      continue;
    }
    ptc_str_append(&echo, ":*");
    instance->echo_stars[instance->num_echo_stars] = turns[i]->region;
    instance->echo_first[instance->num_echo_stars] = turns[i]->first;
    instance->echo_step[instance->num_echo_stars++] = turns[i]->step;
  }
  // The place: the call in the text, and which call of the layer around it.
  const char *copy = strrchr(caller->echo, '@');
  const char *name = lower_intern(L, ptc_arena_printf(&L->module->arena, "=%s", call->lhs->text));
  const char *place =
      lower_intern(L, ptc_arena_printf(&L->module->arena, "%s%s", caller->plain, copy ? copy : ""));
  int32_t number = place_number(L, owner, name, call, place);
  if (number > 1) ptc_str_printf(&echo, "@%d", (int)number);
  instance->echo = ptc_arena_strdup(&L->module->arena, echo.data);
  ptc_str_deinit(&echo);
}

static bool enter_layer(lower_t *L, const ptc_layer_t *layer, const ptc_expr_t *call) {
  for (const instance_t *i = L->instance; i; i = i->parent) {
    if (i->layer != layer) continue;
    LOWER_ERROR(L, call->loc, "recursive-layer", "layer \"%s\" calls itself", layer->name);
    return false;
  }
  if (++L->layer_depth <= MAX_LAYER_DEPTH) return true;
  LOWER_ERROR(L, call->loc, "too-deep", "layers call each other deeper than %d levels",
              MAX_LAYER_DEPTH);
  L->layer_depth--;
  return false;
}

static bool bind_arguments(lower_t *L, const ptc_layer_t *layer, const ptc_expr_t *call,
                           scope_t *caller, binding_t *bindings, int32_t *num_bindings) {
  bool ok = true;
  for (int32_t i = 0; i < layer->formals.count; i++) {
    const ptc_formal_t *formal = &layer->formals.items[i];
    const ptc_expr_t *arg = find_argument(call, layer, i);
    scope_t *own = L->scope;
    if (arg || !formal->value) L->scope = caller;
    val_t val = arg             ? lower_expr(L, arg)
                : formal->value ? lower_expr(L, formal->value)
                                : val_error();
    L->scope = own;
    if (!arg && !formal->value)
      LOWER_ERROR(L, call->loc, "missing-argument", "layer \"%s\" needs the argument \"%s\"",
                  layer->name, formal->name);
    if (formal->is_tensor) {
      bool bound = *num_bindings + formal->num_dims <= 64 && formal->num_dims <= PTC_MAX_DIMS &&
                   bind_tensor(L, formal, &val, arg ? arg : call, bindings, num_bindings);
      if (!bound) val = val_error();
    } else if (val.kind == VAL_TENSOR || val.kind == VAL_WORD) {
      LOWER_ERROR(
          L, arg ? arg->loc : call->loc, "not-static",
          "argument \"%s\" of layer \"%s\" is a number known when compiling; a tensor argument "
          "has brackets: %s[b, s, d]",
          formal->name, layer->name, formal->name);
      val = val_error();
    }
    uint32_t kind = val.kind == VAL_ERROR    ? SYM_ERROR
                    : val.kind == VAL_TENSOR ? SYM_VALUE
                    : val.kind == VAL_LIST   ? SYM_LIST
                                             : SYM_NUMBER;
    ok &= val.kind != VAL_ERROR;
    symbol_t *symbol = scope_define(L, formal->name, formal->loc, kind);
    symbol->kinds |= kind;
    symbol->number = val.kind == VAL_BOOL ? ptc_number_from_int(&L->numbers, val.on) : val.number;
    symbol->list = val.list;
    symbol->list_len = val.list_len;
    symbol->value = PTC_ARENA_NEW(&L->module->arena, val_t);
    *symbol->value = val;
  }
  return ok;
}

void lower_layer_call(lower_t *L, const symbol_t *symbol, const ptc_expr_t *call, val_t *out,
                      int32_t *out_count) {
  *out_count = 0;
  const ptc_layer_t *layer = resolve_alias(L, symbol);
  if (!layer || !check_arguments(L, call, layer) || !enter_layer(L, layer, call)) return;
  scope_t *caller = L->scope, body;
  instance_t *caller_instance = L->instance;
  turn_t *caller_turn = L->turn;
  L->scope = scope_of(L, symbol);
  scope_push(L, &body, false);
  const ptc_expr_t *name = call->lhs;
  binding_t bindings[64];
  int32_t num_bindings = 0;
  if (!bind_arguments(L, layer, call, caller, bindings, &num_bindings)) {
    L->scope = caller;
    L->layer_depth--;
    return;
  }
  if (symbol->layer->alias_of) {
    // One instance where the alias was declared, whatever the turn of the call.
    L->instance = symbol->layer_instance;
    L->turn = L->instance->turns_outside;
  }
  bool named = name->instance || symbol->layer->alias_of;
  instance_t *instance =
      instance_enter(L, name->instance ? name->instance : symbol->name, named, call);
  instance->layer = layer;
  instance->parent = caller_instance;
  L->turn = caller_turn;
  if (symbol->layer->alias_of)
    set_alias_echo(L, instance, symbol->layer_instance, caller_instance, call);
  instance->turns_outside = caller_turn;
  val_t returns[PTC_MAX_DIMS];
  int32_t num_returns = -1;
  scope_hoist(L, &layer->body);
  lower_stmts(L, &layer->body, returns, &num_returns);
  if (num_returns < 0 && L->num_stmts <= MAX_STMTS)
    LOWER_ERROR(L, layer->loc, "no-return", "layer \"%s\" returns nothing; end it with `return`",
                layer->name);
  for (int32_t i = 0; i < num_returns; i++) {
    out[i] = returns[i];
    if (out[i].kind == VAL_NUMBER) out[i] = val_as_tensor(L, out[i], PTC_F32);
    if (out[i].kind == VAL_TENSOR && !map_back(L, &out[i], bindings, num_bindings, call))
      out[i] = val_error();
  }
  *out_count = num_returns > 0 ? num_returns : 0;
  L->instance = caller_instance;
  L->turn = caller_turn;
  L->scope = caller;
  L->layer_depth--;
}
