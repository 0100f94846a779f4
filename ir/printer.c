// The canonical text of a module. Attributes are sorted, values numbered in the order in which they
// are defined; what malformed modules lack is printed as `?`, so that they can be looked at.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/op.h"
#include "ir/text.h"
#include "ir/text_impl.h"

typedef struct printer_s {
  ptc_str_t *out;
  bool with_locations;
  ptc_arena_t scratch;
  // Of the function being printed: value -> its text; hint -> how often it was used.
  ptc_map_t names, uses;
  int64_t next_number;
} printer_t;

static void put(printer_t *p, const char *text) { ptc_str_append(p->out, text); }

static void put_indent(printer_t *p, int depth) {
  for (int i = 0; i < depth; i++) put(p, "  ");
}

// --- names

static bool is_bare_path(const char *text) {
  if (!*text || *text == '.' || (*text >= '0' && *text <= '9')) return false;
  for (const char *c = text; *c; c++)
    if (!ptc_is_path_char(*c)) return false;
  return true;
}

static void put_symbol(printer_t *p, const char *path) {
  put(p, "@");
  if (!path)
    put(p, "?");
  else if (is_bare_path(path))
    put(p, path);
  else
    ptc_str_append_quoted(p->out, path);
}

static void put_turns(printer_t *p, const ptc_global_t *global) {
  put(p, "(");
  for (int32_t i = 0; i < global->type->num_counts && i < PTC_MAX_COUNTS; i++)
    ptc_str_printf(p->out, "%s%" PRId64 ":%" PRId64, i ? ", " : "", global->turn_first[i],
                   global->turn_step[i]);
  put(p, ")");
}

static void put_global(printer_t *p, const ptc_global_t *global) {
  put_symbol(p, global ? global->path : NULL);
  if (!global || !global->type->num_counts) return;
  put(p, " ");
  put_turns(p, global);
}

// The first value with a hint is called so, further ones get .1, .2; a hint that could be mistaken
// for such a name, or for a number, is quoted.
static void name_value(printer_t *p, const ptc_value_t *value) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "%");
  const char *hint = value->name;
  if (!hint) {
    ptc_str_printf(&text, "%" PRId64, p->next_number++);
  } else {
    size_t len = strlen(hint);
    if (is_bare_path(hint) && ptc_name_suffix(hint, len) == len) {
      ptc_str_append(&text, hint);
    } else {
      ptc_str_t quoted = {0};
      ptc_str_append_quoted(&quoted, hint);
      ptc_str_append(&text, quoted.data);
      ptc_str_deinit(&quoted);
    }
    intptr_t uses = (intptr_t)ptc_map_get(&p->uses, hint);
    if (uses) ptc_str_printf(&text, ".%" PRIdPTR, uses);
    ptc_map_set(&p->uses, hint, (void *)(uses + 1));
  }
  ptc_map_set(&p->names, value, ptc_arena_strdup(&p->scratch, text.data));
  ptc_str_deinit(&text);
}

static void name_block(printer_t *p, const ptc_block_t *block) {
  for (int32_t i = 0; i < block->num_args; i++) name_value(p, block->args[i]);
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    for (int32_t i = 0; i < op->num_results; i++) name_value(p, op->results[i]);
    if (op->body) name_block(p, op->body);
  }
}

static void put_value(printer_t *p, const ptc_value_t *value) {
  const char *name = value ? ptc_map_get(&p->names, value) : NULL;
  put(p, name ? name : "%?");
}

// --- attributes

// A float always shows that it is one: by a point, an exponent, or inf and nan.
static void put_float(printer_t *p, double value) {
  ptc_str_t text = {0};
  ptc_str_append_double(&text, value);
  put(p, text.data);
  if (!strpbrk(text.data, ".en")) put(p, ".0");
  ptc_str_deinit(&text);
  double plain = NAN;
  uint64_t bits, plain_bits;
  memcpy(&bits, &value, sizeof(bits));
  memcpy(&plain_bits, &plain, sizeof(plain_bits));
  if (isnan(value) && bits != plain_bits) ptc_str_printf(p->out, ":0x%" PRIx64, bits);
}

static void put_attr_value(printer_t *p, const ptc_attr_t *attr) {
  switch (attr->kind) {
    case PTC_ATTR_INT: ptc_str_printf(p->out, "%" PRId64, attr->u.i); return;
    case PTC_ATTR_FLOAT: put_float(p, attr->u.f); return;
    case PTC_ATTR_BOOL: put(p, attr->u.b ? "true" : "false"); return;
    case PTC_ATTR_STRING: ptc_str_append_quoted(p->out, attr->u.s); return;
    case PTC_ATTR_DIM: ptc_str_append_name(p->out, attr->u.s); return;
    case PTC_ATTR_DIMS:
    case PTC_ATTR_INTS:
    case PTC_ATTR_FLOATS: break;
  }
  // An empty list of numbers says of which.
  if (!attr->count && attr->kind != PTC_ATTR_DIMS)
    put(p, attr->kind == PTC_ATTR_INTS ? "ints" : "floats");
  put(p, "[");
  for (int32_t i = 0; i < attr->count; i++) {
    if (i) put(p, ", ");
    if (attr->kind == PTC_ATTR_DIMS)
      ptc_str_append_name(p->out, attr->u.dims[i]);
    else if (attr->kind == PTC_ATTR_INTS)
      ptc_str_printf(p->out, "%" PRId64, attr->u.ints[i]);
    else
      put_float(p, attr->u.floats[i]);
  }
  put(p, "]");
}

static int compare_attrs(const void *a, const void *b) {
  return strcmp(((const ptc_attr_t *)a)->name, ((const ptc_attr_t *)b)->name);
}

// ` {a = 1, b = [x]}`, nothing if there are none.
static void put_attrs(printer_t *p, const ptc_attrs_t *attrs) {
  if (!attrs->count) return;
  ptc_attr_t *sorted = PTC_ARENA_ARRAY(&p->scratch, ptc_attr_t, attrs->count);
  memcpy(sorted, attrs->items, (size_t)attrs->count * sizeof(*sorted));
  qsort(sorted, (size_t)attrs->count, sizeof(*sorted), compare_attrs);
  put(p, " {");
  for (int32_t i = 0; i < attrs->count; i++) {
    if (i) put(p, ", ");
    ptc_str_append_name(p->out, sorted[i].name);
    put(p, " = ");
    put_attr_value(p, &sorted[i]);
  }
  put(p, "}");
}

static void put_loc(printer_t *p, ptc_loc_t loc) {
  if (!p->with_locations) return;
  if (!loc.file) {
    put(p, " loc(none)");
    return;
  }
  put(p, " loc(");
  ptc_str_append_quoted(p->out, loc.file);
  ptc_str_printf(p->out, ":%" PRId32 ":%" PRId32 ")", loc.line, loc.column);
}

// --- ops

static void put_types(printer_t *p, const ptc_op_t *op) {
  bool any = false;
  for (int32_t i = 0; i < op->num_results; i++) any = any || op->results[i]->type;
  if (!any) return;
  for (int32_t i = 0; i < op->num_results; i++) {
    put(p, i ? ", " : " : ");
    if (op->results[i]->type)
      ptc_type_print(p->out, op->results[i]->type);
    else
      put(p, "_");
  }
}

static void put_operands(printer_t *p, const ptc_op_t *op, int32_t first, int32_t end) {
  for (int32_t i = first; i < end && i < op->num_operands; i++) {
    if (i > first) put(p, ", ");
    put_value(p, op->operands[i]);
  }
}

static bool same_type(const ptc_type_t *a, const ptc_type_t *b) {
  return a == b || (a && b && ptc_type_equal(a, b));
}

// The type that the argument has by its position, NULL if it is not known.
static const ptc_type_t *type_by_position(printer_t *p, const ptc_op_t *op, int32_t arg) {
  if (arg == 0) return ptc_type_scalar(&p->scratch, PTC_I32);
  const ptc_value_t *operand = arg - 1 < op->num_operands ? op->operands[arg - 1] : NULL;
  const ptc_type_t *type = operand ? operand->type : NULL;
  if (arg - 1 < op->num_carry || !type) return type;
  return type->num_counts ? ptc_type_instance(&p->scratch, type) : NULL;
}

static void put_arg(printer_t *p, const ptc_op_t *op, int32_t arg) {
  const ptc_value_t *value = arg < op->body->num_args ? op->body->args[arg] : NULL;
  put_value(p, value);
  if (!value || !value->type || same_type(value->type, type_by_position(p, op, arg))) return;
  put(p, " : ");
  ptc_type_print(p->out, value->type);
}

// ` carry(%c = %0, ...)`: |count| operands and arguments from operand |first| on.
static void put_bindings(printer_t *p, const ptc_op_t *op, const char *word, int32_t first,
                         int32_t count) {
  if (count <= 0) return;
  put(p, word);
  for (int32_t i = first; i < first + count; i++) {
    put(p, i == first ? "(" : ", ");
    put_arg(p, op, 1 + i);
    put(p, " = ");
    put_value(p, i < op->num_operands ? op->operands[i] : NULL);
  }
  put(p, ")");
}

static void put_block(printer_t *p, const ptc_block_t *block, int depth);

static void put_repeat(printer_t *p, const ptc_op_t *op, int depth) {
  put_attrs(p, &op->attrs);
  put(p, " index ");
  put_arg(p, op, 0);
  put_bindings(p, op, " carry", 0, op->num_carry);
  put_bindings(p, op, " each", op->num_carry, op->num_each);
  put(p, " {\n");
  put_block(p, op->body, depth + 1);
  put_indent(p, depth);
  put(p, "}");
}

static void put_yield(printer_t *p, const ptc_op_t *op) {
  const ptc_op_t *repeat = op->parent ? op->parent->parent_op : NULL;
  int32_t carry = repeat ? repeat->num_carry : 0;
  if (carry > op->num_operands) carry = op->num_operands;
  if (carry > 0) {
    put(p, " carry(");
    put_operands(p, op, 0, carry);
    put(p, ")");
  }
  if (op->num_operands <= carry) return;
  put(p, " collect(");
  put_operands(p, op, carry, op->num_operands);
  put(p, ")");
}

static void put_return(printer_t *p, const ptc_op_t *op, int depth) {
  const ptc_func_t *func = op->parent ? op->parent->func : NULL;
  for (int32_t i = 0; i < op->num_operands; i++) {
    put(p, i ? ",\n" : "\n");
    put_indent(p, depth + 1);
    const ptc_result_t *result = func && i < func->num_results ? &func->results[i] : NULL;
    if (!result) {
      put(p, "?");
    } else if (result->kind == PTC_RESULT_VALUE) {
      put(p, result->role ? result->role : "value");
      put(p, " ");
      ptc_str_append_quoted(p->out, result->name ? result->name : "");
    } else {
      put(p, result->kind == PTC_RESULT_STATE ? "state " : "grad ");
      put_global(p, result->global);
    }
    put(p, " = ");
    put_value(p, op->operands[i]);
  }
}

static void put_op(printer_t *p, const ptc_op_t *op, int depth) {
  put_indent(p, depth);
  for (int32_t i = 0; i < op->num_results; i++) {
    if (i) put(p, ", ");
    put_value(p, op->results[i]);
  }
  if (op->num_results) put(p, " = ");
  put(p, ptc_op_info(op->opcode)->mnemonic);
  if (op->opcode == PTC_OP_REPEAT && op->body) {
    put_repeat(p, op, depth);
  } else {
    if (op->opcode == PTC_OP_YIELD) {
      put_yield(p, op);
    } else if (op->opcode == PTC_OP_RETURN) {
      put_return(p, op, depth);
    } else if (op->num_operands) {
      put(p, " ");
      put_operands(p, op, 0, op->num_operands);
    }
    put_attrs(p, &op->attrs);
  }
  put_types(p, op);
  if (op->remat) put(p, " remat");
  put_loc(p, op->loc);
  put(p, "\n");
}

static void put_block(printer_t *p, const ptc_block_t *block, int depth) {
  for (const ptc_op_t *op = block->first; op; op = op->next) put_op(p, op, depth);
}

// --- module

static void put_func(printer_t *p, const ptc_func_t *func) {
  ptc_map_deinit(&p->names);
  ptc_map_deinit(&p->uses);
  p->next_number = 0;
  name_block(p, func->body);
  put(p, "\nfunc ");
  put_symbol(p, func->name);
  put(p, func->each_micro ? " micro(" : "(");
  for (int32_t i = 0; i < func->body->num_args; i++) {
    const ptc_global_t *global = func->arg_globals[i];
    const ptc_type_t *type = func->body->args[i]->type;
    put(p, i ? ",\n    " : "\n    ");
    put_value(p, func->body->args[i]);
    put(p, " = ");
    put_global(p, global);
    if (!type || (global && same_type(type, ptc_global_type_in(global, func)))) continue;
    put(p, " : ");
    ptc_type_print(p->out, type);
  }
  put(p, ")");
  put_loc(p, func->loc);
  put(p, " {\n");
  put_block(p, func->body, 1);
  put(p, "}\n");
}

static void put_global_line(printer_t *p, const ptc_global_t *global) {
  put(p, ptc_global_kind_name(global->kind));
  put(p, " ");
  put_symbol(p, global->path);
  if (global->type->num_counts) {
    put(p, " turns ");
    put_turns(p, global);
  }
  put(p, " : ");
  ptc_type_print(p->out, global->type);
  put_attrs(p, &global->attrs);
  put_loc(p, global->loc);
  put(p, "\n");
}

static void put_mesh(printer_t *p, const ptc_mesh_t *mesh) {
  if (!mesh->num_axes) return;
  put(p, "mesh [");
  for (int32_t i = 0; i < mesh->num_axes; i++) {
    if (i) put(p, ", ");
    ptc_str_append_quoted(p->out, mesh->axes[i].name);
    ptc_str_printf(p->out, "=%" PRId64, mesh->axes[i].size);
  }
  put(p, "]\n");
}

void ptc_module_print(const ptc_module_t *module, bool with_locations, ptc_str_t *out) {
  printer_t printer = {.out = out, .with_locations = with_locations}, *p = &printer;
  ptc_arena_init(&p->scratch);
  put(p, "module ");
  ptc_str_append_quoted(out, module->name);
  put(p, "\n");
  put_mesh(p, &module->mesh);
  if (module->config.count) {
    put(p, "config");
    put_attrs(p, &module->config);
    put(p, "\n");
  }
  for (int64_t i = 0; i < module->num_globals; i++) put_global_line(p, module->globals[i]);
  for (const ptc_func_t *func = module->funcs; func; func = func->next) put_func(p, func);
  ptc_map_deinit(&p->names);
  ptc_map_deinit(&p->uses);
  ptc_arena_deinit(&p->scratch);
}
