// What all shape functions share: dim lists, the checks that hold for every op, partial sums.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/shape_impl.h"

// --- dim lists

ptc_dim_list_t ptc_dim_list_of(const ptc_type_t *type) {
  ptc_dim_list_t list = {0};
  for (int32_t i = 0; i < type->num_dims; i++) ptc_dim_list_push(&list, type->dims[i]);
  return list;
}

int32_t ptc_dim_list_find(const ptc_dim_list_t *list, const char *name) {
  for (int32_t i = 0; i < list->count; i++)
    if (list->items[i].name == name) return i;
  return -1;
}

void ptc_dim_list_push(ptc_dim_list_t *list, ptc_dim_t dim) {
  if (list->count == PTC_MAX_DIMS)
    list->overlong = true;
  else
    list->items[list->count++] = dim;
}

void ptc_dim_list_union(ptc_dim_list_t *list, const ptc_type_t *type) {
  for (int32_t i = 0; i < type->num_dims; i++)
    if (ptc_dim_list_find(list, type->dims[i].name) < 0) ptc_dim_list_push(list, type->dims[i]);
}

void ptc_dim_list_remove(ptc_dim_list_t *list, const char *name) {
  int32_t at = ptc_dim_list_find(list, name);
  if (at < 0) return;
  list->count--;
  memmove(&list->items[at], &list->items[at + 1],
          (size_t)(list->count - at) * sizeof(list->items[0]));
}

bool ptc_dim_list_covers(const ptc_dim_list_t *list, const ptc_type_t *type) {
  for (int32_t i = 0; i < type->num_dims; i++)
    if (ptc_dim_list_find(list, type->dims[i].name) < 0) return false;
  return true;
}

bool ptc_dim_list_same_names(const ptc_dim_list_t *list, const ptc_type_t *type) {
  return list->count == type->num_dims && ptc_dim_list_covers(list, type);
}

// --- diagnostics

static ptc_status_t report(ptc_module_t *module, const ptc_op_t *op, const char *label,
                           const char *format, va_list args) {
  char message[512];
  vsnprintf(message, sizeof(message), format, args);
  return ptc_error(module->diag, op->loc, PTC_INVALID_INPUT, label, "%s: %s",
                   ptc_op_info(op->opcode)->mnemonic, message);
}

ptc_status_t ptc_shape_fail(ptc_module_t *module, const ptc_op_t *op, int number,
                            const char *format, ...) {
  char label[64];
  snprintf(label, sizeof(label), "%s-c%d", ptc_op_info(op->opcode)->mnemonic, number);
  va_list args;
  va_start(args, format);
  ptc_status_t status = report(module, op, label, format, args);
  va_end(args);
  return status;
}

ptc_status_t ptc_shape_error(ptc_module_t *module, const ptc_op_t *op, const char *label,
                             const char *format, ...) {
  va_list args;
  va_start(args, format);
  ptc_status_t status = report(module, op, label, format, args);
  va_end(args);
  return status;
}

// --- small facts

const ptc_type_t *ptc_shape_operand(const ptc_op_t *op, int32_t index) {
  return op->operands[index]->type;
}

const ptc_type_t *ptc_shape_given(const ptc_op_t *op, int32_t index) {
  return index < op->num_results && op->results[index] ? op->results[index]->type : NULL;
}

bool ptc_shape_is_scalar(const ptc_type_t *type, ptc_dtype_t dtype) {
  return type->dtype == dtype && type->num_dims == 0 && type->num_counts == 0;
}

ptc_dtype_t ptc_shape_stat_dtype(ptc_dtype_t dtype) { return dtype == PTC_F64 ? PTC_F64 : PTC_F32; }

bool ptc_shape_random_operands(const ptc_op_t *op, int32_t at) {
  const char *path = ptc_op_string(op, "path");
  int32_t turns = 0;
  for (const char *c = path ? path : ""; *c; c++) turns += *c == '*';
  if (op->num_operands != at + 2 + turns) return false;
  for (int32_t i = at; i < op->num_operands; i++)
    if (!ptc_shape_is_scalar(ptc_shape_operand(op, i), i < at + 2 ? PTC_I64 : PTC_I32))
      return false;
  return true;
}

bool ptc_shape_mesh_axis(const ptc_module_t *module, const char *axis, int64_t *out_size) {
  for (int32_t i = 0; axis && i < module->mesh.num_axes; i++) {
    if (module->mesh.axes[i].name != axis) continue;
    *out_size = module->mesh.axes[i].size;
    return true;
  }
  return false;
}

// --- checks of every op

static bool kind_fits(const ptc_attr_t *attr, ptc_attr_kind_t kind) {
  bool list =
      attr->kind == PTC_ATTR_DIMS || attr->kind == PTC_ATTR_INTS || attr->kind == PTC_ATTR_FLOATS;
  bool list_wanted = kind == PTC_ATTR_DIMS || kind == PTC_ATTR_INTS || kind == PTC_ATTR_FLOATS;
  if (list && list_wanted && attr->count == 0) return true;
  return attr->kind == kind || (attr->kind == PTC_ATTR_INT && kind == PTC_ATTR_FLOAT);
}

static ptc_status_t check_attrs(ptc_module_t *module, const ptc_op_t *op) {
  int32_t cursor = 0;
  ptc_attr_spec_t spec;
  while (ptc_op_next_attr_spec(op->opcode, &cursor, &spec)) {
    const ptc_attr_t *attr = ptc_op_attr(op, spec.name);
    if (!attr && spec.optional) continue;
    if (!attr)
      return ptc_shape_error(module, op, "attr-c1", "attribute \"%s\" is missing", spec.name);
    if (!kind_fits(attr, spec.kind))
      return ptc_shape_error(module, op, "attr-c1", "attribute \"%s\" has the wrong kind",
                             spec.name);
    for (int32_t i = 0; spec.kind == PTC_ATTR_DIMS && i < attr->count; i++)
      for (int32_t j = 0; j < i; j++)
        if (attr->u.dims[i] == attr->u.dims[j])
          return ptc_shape_error(module, op, "attr-c2", "attribute \"%s\" names dim \"%s\" twice",
                                 spec.name, attr->u.dims[i]);
  }
  return PTC_OK;
}

static ptc_status_t check_operand(ptc_module_t *module, const ptc_op_t *op, int32_t index,
                                  uint32_t flags) {
  const ptc_value_t *value = op->operands[index];
  if (!value || !value->type)
    return ptc_shape_error(module, op, "type-c1", "the type of operand %" PRId32 " is not known",
                           index);
  const ptc_type_t *type = value->type;
  if (type->num_dims > PTC_MAX_DIMS || type->num_counts > PTC_MAX_COUNTS ||
      ptc_type_num_bytes(type) < 0)
    return ptc_shape_error(module, op, "size-c1", "operand %" PRId32 " is too large", index);
  if (type->num_counts && !(flags & PTC_SHAPE_BUNDLES))
    return ptc_shape_error(module, op, "bundle-c1",
                           "operand %" PRId32 " is a bundle, not a plain value", index);
  return PTC_OK;
}

static bool partial_equal(const ptc_type_t *a, const ptc_type_t *b) {
  return (a->num_partial == 0 || a->partial_kind == b->partial_kind) &&
         ptc_axes_equal(a->partial, a->num_partial, b->partial, b->num_partial);
}

static ptc_status_t check_same_dim(ptc_module_t *module, const ptc_op_t *op, const ptc_dim_t *a,
                                   const ptc_dim_t *b) {
  if (a->extent != b->extent)
    return ptc_shape_error(module, op, "dims-c1", "dim \"%s\" has extents %" PRId64 " and %" PRId64,
                           a->name, a->extent, b->extent);
  if (a->dist != b->dist || !ptc_axes_equal(a->axes, a->num_axes, b->axes, b->num_axes))
    return ptc_shape_error(module, op, "dims-c2", "dim \"%s\" is sharded in two ways", a->name);
  return PTC_OK;
}

static ptc_status_t check_agreement(ptc_module_t *module, const ptc_op_t *op) {
  for (int32_t i = 1; i < op->num_operands; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, i);
    for (int32_t d = 0; d < type->num_dims; d++) {
      // The first operand that has the dim speaks for those between.
      for (int32_t j = 0; j < i; j++) {
        const ptc_type_t *other = ptc_shape_operand(op, j);
        int32_t at = ptc_type_find_dim(other, type->dims[d].name);
        if (at < 0) continue;
        PTC_TRY(check_same_dim(module, op, &other->dims[at], &type->dims[d]));
        break;
      }
    }
  }
  return PTC_OK;
}

// The next token of a rule that starts with |mark|; its text without the mark.
static bool next_rule_token(const char **rule, char mark, char *out_name, size_t size) {
  const char *c = *rule;
  while (*c) {
    while (*c == ' ') c++;
    size_t len = strcspn(c, " ");
    if (*c == mark && len <= size) {
      memcpy(out_name, c + 1, len - 1);
      out_name[len - 1] = '\0';
      *rule = c + len;
      return true;
    }
    c += len;
  }
  return false;
}

static ptc_status_t check_whole(ptc_module_t *module, const ptc_op_t *op) {
  const char *rule = ptc_op_info(op->opcode)->rule;
  // In window and gather only the first operand's dim is walked along; others may share its name.
  int32_t num = op->opcode == PTC_OP_GATHER ? 1 : op->num_operands;
  if (ptc_op_bool(op, "local")) return PTC_OK;
  char name[32];
  while (next_rule_token(&rule, '!', name, sizeof(name))) {
    const ptc_attr_t *attr = ptc_op_attr(op, name);
    if (!attr) continue;
    bool one = attr->kind == PTC_ATTR_DIM || attr->kind == PTC_ATTR_STRING;
    for (int32_t i = 0; i < num; i++) {
      const ptc_type_t *type = ptc_shape_operand(op, i);
      for (int32_t d = 0; d < type->num_dims; d++) {
        const ptc_dim_t *dim = &type->dims[d];
        bool named = one ? attr->u.s == dim->name : ptc_op_dims_contain(op, name, dim->name);
        if (named && dim->num_axes)
          return ptc_shape_error(module, op, "sharded-c1",
                                 "dim \"%s\" is sharded; the op needs it whole", dim->name);
      }
    }
  }
  return PTC_OK;
}

static ptc_status_t check_partial(ptc_module_t *module, const ptc_op_t *op) {
  const ptc_op_info_t *info = ptc_op_info(op->opcode);
  bool all = strcmp(info->linear, "all") == 0, each = strcmp(info->linear, "each") == 0;
  bool first = strcmp(info->linear, "0") == 0, rest = strcmp(info->linear, "rest") == 0;
  int32_t num_partial = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, i);
    bool is_partial = type->num_partial > 0;
    num_partial += is_partial;
    // A maximum commutes with moving data, not with arithmetic.
    bool max = is_partial && type->partial_kind == PTC_REDUCE_MAX &&
               !(info->traits & (PTC_TRAIT_VIEW | PTC_TRAIT_COLLECTIVE)) &&
               op->opcode != PTC_OP_BROADCAST && op->opcode != PTC_OP_TRANSPOSE;
    bool alike = all || (rest && i > 0);
    bool allowed = alike ? partial_equal(type, ptc_shape_operand(op, all ? 0 : 1))
                         : !is_partial || (each && num_partial == 1) || (first && i == 0);
    if (max || !allowed)
      return ptc_shape_error(module, op, "partial-c1",
                             "operand %" PRId32 " is a partial result; the op is not linear in it",
                             i);
  }
  // A fill that is not zero would be added once per device.
  if (num_partial && ptc_op_attr(op, "fill") && ptc_op_float(op, "fill") != 0)
    return ptc_shape_error(module, op, "partial-c1",
                           "operand 0 is a partial result; the fill %g is not linear in it",
                           ptc_op_float(op, "fill"));
  return PTC_OK;
}

ptc_status_t ptc_shape_begin(ptc_module_t *module, const ptc_op_t *op, uint32_t flags) {
  const ptc_op_info_t *info = ptc_op_info(op->opcode);
  bool operands_fit = op->num_operands >= info->min_operands &&
                      (info->max_operands < 0 || op->num_operands <= info->max_operands);
  if (!operands_fit || (info->num_results >= 0 && op->num_results != info->num_results))
    return ptc_shape_error(module, op, "arity-c1",
                           "the op cannot have %" PRId32 " operands and %" PRId32 " results",
                           op->num_operands, op->num_results);
  PTC_TRY(check_attrs(module, op));
  for (int32_t i = 0; i < op->num_operands; i++) PTC_TRY(check_operand(module, op, i, flags));
  if (!(flags & PTC_SHAPE_FREE_DIMS)) PTC_TRY(check_agreement(module, op));
  PTC_TRY(check_whole(module, op));
  if (!(flags & PTC_SHAPE_PARTIALS)) PTC_TRY(check_partial(module, op));
  return PTC_OK;
}

// --- result types

typedef struct axis_list_s {
  ptc_axis_ref_t *items;
  int32_t count;
} axis_list_t;

static ptc_status_t check_axes(ptc_module_t *module, const ptc_op_t *op, const ptc_type_t *type) {
  axis_list_t used = {0};
  int32_t total = type->num_partial;
  for (int32_t i = 0; i < type->num_dims; i++) total += type->dims[i].num_axes;
  if (!total) return PTC_OK;
  used.items = PTC_ARENA_ARRAY(&module->arena, ptc_axis_ref_t, total);
  for (int32_t i = 0; i <= type->num_dims; i++) {
    bool last = i == type->num_dims;
    const ptc_axis_ref_t *axes = last ? type->partial : type->dims[i].axes;
    int32_t num = last ? type->num_partial : type->dims[i].num_axes;
    for (int32_t a = 0; a < num; a++) {
      for (int32_t u = 0; u < used.count; u++)
        if (ptc_axis_refs_overlap(used.items[u], axes[a]))
          return ptc_shape_error(module, op, "axes-c1", "the result uses axis \"%s\" twice",
                                 axes[a].axis);
      used.items[used.count++] = axes[a];
    }
  }
  return PTC_OK;
}

static void append_axes(ptc_module_t *module, axis_list_t *list, const ptc_axis_ref_t *axes,
                        int32_t num) {
  if (!num) return;
  ptc_axis_ref_t *items = PTC_ARENA_ARRAY(&module->arena, ptc_axis_ref_t, list->count + num);
  for (int32_t i = 0; i < list->count; i++) items[i] = list->items[i];
  for (int32_t i = 0; i < num; i++) items[list->count + i] = axes[i];
  list->items = items;
  list->count += num;
}

// Adds the axes of the operands' dims that |dims| lacks, each dim once.
static void append_missing(ptc_module_t *module, const ptc_op_t *op, const ptc_dim_list_t *dims,
                           axis_list_t *list) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, i);
    for (int32_t d = 0; d < type->num_dims; d++) {
      const ptc_dim_t *dim = &type->dims[d];
      if (ptc_dim_list_find(dims, dim->name) >= 0) continue;
      bool seen = false;
      for (int32_t j = 0; j < i && !seen; j++)
        seen = ptc_type_has_dim(ptc_shape_operand(op, j), dim->name);
      if (!seen) append_axes(module, list, dim->axes, dim->num_axes);
    }
  }
}

static ptc_status_t finish(ptc_module_t *module, const ptc_op_t *op, ptc_dtype_t dtype,
                           const ptc_dim_list_t *dims, axis_list_t partial, ptc_reduce_kind_t kind,
                           const ptc_type_t **out_type) {
  if (dims->overlong)
    return ptc_shape_error(module, op, "size-c1", "the result has more than %d dims", PTC_MAX_DIMS);
  ptc_type_t *type = ptc_type_new(&module->arena, dtype, dims->items, dims->count);
  // Partial axes are a set.
  ptc_axes_sort(&module->mesh, partial.items, partial.count);
  type->partial = partial.items;
  type->num_partial = partial.count;
  type->partial_kind = partial.count ? kind : PTC_REDUCE_SUM;
  if (ptc_type_num_bytes(type) < 0)
    return ptc_shape_error(module, op, "size-c1", "the result is too large");
  PTC_TRY(check_axes(module, op, type));
  *out_type = type;
  return PTC_OK;
}

ptc_status_t ptc_shape_result(ptc_module_t *module, const ptc_op_t *op, ptc_dtype_t dtype,
                              const ptc_dim_list_t *dims, const ptc_type_t **out_type) {
  const char *rule = ptc_op_info(op->opcode)->rule;
  axis_list_t partial = {0};
  ptc_reduce_kind_t kind = PTC_REDUCE_SUM;
  for (int32_t i = 0; i < op->num_operands && !partial.count; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, i);
    append_axes(module, &partial, type->partial, type->num_partial);
    if (type->num_partial) kind = type->partial_kind;
  }
  bool sum = strchr(rule, '+') != NULL, max = strchr(rule, '^') != NULL;
  if (sum || max) {
    append_missing(module, op, dims, &partial);
    if (max && partial.count) kind = PTC_REDUCE_MAX;
  }
  return finish(module, op, dtype, dims, partial, kind, out_type);
}

ptc_status_t ptc_shape_result_partial(ptc_module_t *module, const ptc_op_t *op, ptc_dtype_t dtype,
                                      const ptc_dim_list_t *dims, const ptc_axis_ref_t *partial,
                                      int32_t num_partial, ptc_reduce_kind_t kind,
                                      const ptc_type_t **out_type) {
  axis_list_t list = {0};
  append_axes(module, &list, partial, num_partial);
  return finish(module, op, dtype, dims, list, kind, out_type);
}

ptc_status_t ptc_shape_result_of_grad(ptc_module_t *module, const ptc_op_t *op, ptc_dtype_t dtype,
                                      const ptc_dim_list_t *dims, const ptc_type_t **out_type) {
  axis_list_t partial = {0};
  append_missing(module, op, dims, &partial);
  return finish(module, op, dtype, dims, partial, PTC_REDUCE_SUM, out_type);
}
