// The canonical text of a module: fixed order, no defaults.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"
#include "ir/lexer.h"
#include "ir/op.h"
#include "ir/text.h"

typedef struct printer_s {
  const ptc_module_t *module;
  ptc_str_t *out;
  bool with_locations;
  ptc_interner_t taken;  // names given in this function
  ptc_arena_t arena;
  ptc_map_t names;  // value -> its name without %
  int64_t next_number;
} printer_t;

// A hint that reads back as the same hint.
static bool is_hint(const char *text) {
  if (!text || !ptc_lex_is_name_start(text[0])) return false;
  for (const char *p = text; *p; p++)
    if (!ptc_lex_is_name_start(*p) && !(*p >= '0' && *p <= '9') && *p != '.') return false;
  return true;
}

static void name_value(printer_t *p, const ptc_value_t *value) {
  const char *name;
  if (is_hint(value->name)) {
    int64_t before = p->taken.len;
    name = ptc_intern(&p->taken, value->name);
    for (int64_t suffix = 1; p->taken.len == before; suffix++) {
      char *text = ptc_arena_printf(&p->arena, "%s.%" PRId64, value->name, suffix);
      name = ptc_intern(&p->taken, text);
    }
  } else {
    name = ptc_arena_printf(&p->arena, "%" PRId64, p->next_number++);
  }
  ptc_map_set(&p->names, value, (void *)(uintptr_t)name);
}

static void print_value(printer_t *p, const ptc_value_t *value) {
  const char *name = value ? ptc_map_get(&p->names, value) : NULL;
  ptc_str_printf(p->out, "%%%s", name ? name : "?");
}

static void print_values(printer_t *p, ptc_value_t *const *values, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    if (i) ptc_str_append(p->out, ", ");
    print_value(p, values[i]);
  }
}

// A float reads back as a float: it has a point, an exponent, or is inf or nan.
static void print_float(ptc_str_t *out, double value) {
  size_t start = out->len;
  ptc_str_append_double(out, value);
  if (!strpbrk(out->data + start, ".einf")) ptc_str_append(out, ".0");
}

static void print_attr(ptc_str_t *out, const ptc_attr_t *attr) {
  ptc_str_printf(out, "%s = ", attr->name);
  switch (attr->kind) {
    case PTC_ATTR_INT: ptc_str_printf(out, "%" PRId64, attr->u.i); return;
    case PTC_ATTR_FLOAT: print_float(out, attr->u.f); return;
    case PTC_ATTR_BOOL: ptc_str_append(out, attr->u.b ? "true" : "false"); return;
    case PTC_ATTR_STRING: ptc_str_append_quoted(out, attr->u.s); return;
    case PTC_ATTR_DIM: ptc_str_append(out, attr->u.s); return;
    case PTC_ATTR_DIMS:
    case PTC_ATTR_INTS:
    case PTC_ATTR_FLOATS: break;
  }
  ptc_str_append(out, "[");
  for (int32_t i = 0; i < attr->count; i++) {
    if (i) ptc_str_append(out, ", ");
    if (attr->kind == PTC_ATTR_DIMS) ptc_str_append(out, attr->u.dims[i]);
    else if (attr->kind == PTC_ATTR_INTS) ptc_str_printf(out, "%" PRId64, attr->u.ints[i]);
    else print_float(out, attr->u.floats[i]);
  }
  ptc_str_append(out, "]");
}

static int compare_attrs(const void *a, const void *b) {
  return strcmp((*(const ptc_attr_t *const *)a)->name, (*(const ptc_attr_t *const *)b)->name);
}

static void print_attrs(ptc_str_t *out, const ptc_attrs_t *attrs) {
  if (!attrs->count) return;
  const ptc_attr_t **sorted = ptc_xmalloc((size_t)attrs->count * sizeof(*sorted));
  for (int32_t i = 0; i < attrs->count; i++) sorted[i] = &attrs->items[i];
  qsort(sorted, (size_t)attrs->count, sizeof(*sorted), compare_attrs);
  ptc_str_append(out, " {");
  for (int32_t i = 0; i < attrs->count; i++) {
    if (i) ptc_str_append(out, ", ");
    print_attr(out, sorted[i]);
  }
  ptc_str_append(out, "}");
  free(sorted);
}

static void print_loc(printer_t *p, ptc_loc_t loc) {
  if (!p->with_locations || !loc.file) return;
  ptc_str_append(p->out, " loc(");
  ptc_str_append_quoted(p->out, loc.file);
  ptc_str_printf(p->out, ":%" PRId32 ":%" PRId32 ")", loc.line, loc.column);
}

static void print_path(ptc_str_t *out, const char *path) {
  ptc_str_append(out, "@");
  if (is_hint(path)) ptc_str_append(out, path);
  else ptc_str_append_quoted(out, path);
}

static void print_turns(ptc_str_t *out, const ptc_global_t *global) {
  if (!global->type->num_counts) return;
  ptc_str_append(out, " (");
  for (int32_t i = 0; i < global->type->num_counts; i++)
    ptc_str_printf(out, "%s%" PRId64 ":%" PRId64, i ? ", " : "", global->turn_first[i],
                   global->turn_step[i]);
  ptc_str_append(out, ")");
}

static void print_global(printer_t *p, const ptc_global_t *global) {
  ptc_str_printf(p->out, "%s ", ptc_global_kind_name(global->kind));
  print_path(p->out, global->path);
  if (global->type->num_counts) ptc_str_append(p->out, " turns");
  print_turns(p->out, global);
  ptc_str_append(p->out, " : ");
  ptc_type_print(p->out, global->type);
  print_attrs(p->out, &global->attrs);
  print_loc(p, global->loc);
  ptc_str_append(p->out, "\n");
}

static void print_global_ref(ptc_str_t *out, const ptc_global_t *global) {
  print_path(out, global->path);
  print_turns(out, global);
}

static void indent(printer_t *p, int depth) {
  for (int i = 0; i < depth; i++) ptc_str_append(p->out, "  ");
}

static void print_block(printer_t *p, const ptc_block_t *block, int depth);

static void print_bindings(printer_t *p, const ptc_op_t *op, const char *word, int32_t first,
                           int32_t count) {
  if (!count) return;
  ptc_str_printf(p->out, " %s(", word);
  for (int32_t i = 0; i < count; i++) {
    if (i) ptc_str_append(p->out, ", ");
    print_value(p, op->body->args[1 + first + i]);
    ptc_str_append(p->out, " = ");
    print_value(p, op->operands[first + i]);
  }
  ptc_str_append(p->out, ")");
}

static void print_repeat(printer_t *p, const ptc_op_t *op, int depth) {
  for (int32_t i = 0; i < op->body->num_args; i++) name_value(p, op->body->args[i]);
  print_attrs(p->out, &op->attrs);
  ptc_str_append(p->out, " index ");
  print_value(p, op->body->args[0]);
  print_bindings(p, op, "carry", 0, op->num_carry);
  print_bindings(p, op, "each", op->num_carry, op->num_each);
  ptc_str_append(p->out, " {\n");
  print_block(p, op->body, depth + 1);
  indent(p, depth);
  ptc_str_append(p->out, "}");
}

static void print_yield(printer_t *p, const ptc_op_t *op) {
  const ptc_op_t *repeat = op->parent->parent_op;
  int32_t carry = repeat && repeat->num_carry <= op->num_operands ? repeat->num_carry : 0;
  if (carry) {
    ptc_str_append(p->out, " carry(");
    print_values(p, op->operands, carry);
    ptc_str_append(p->out, ")");
  }
  if (op->num_operands > carry) {
    ptc_str_append(p->out, " collect(");
    print_values(p, op->operands + carry, op->num_operands - carry);
    ptc_str_append(p->out, ")");
  }
}

static void print_return(printer_t *p, const ptc_op_t *op, int depth) {
  const ptc_func_t *func = op->parent->func;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_result_t *result = &func->results[i];
    ptc_str_append(p->out, i ? ",\n" : "\n");
    indent(p, depth + 1);
    if (result->kind == PTC_RESULT_VALUE) {
      ptc_str_printf(p->out, "%s ", result->role);
      ptc_str_append_quoted(p->out, result->name);
    } else {
      ptc_str_append(p->out, result->kind == PTC_RESULT_STATE ? "state " : "grad ");
      print_global_ref(p->out, result->global);
    }
    ptc_str_append(p->out, " = ");
    print_value(p, op->operands[i]);
  }
}

static void print_op(printer_t *p, const ptc_op_t *op, int depth) {
  indent(p, depth);
  for (int32_t i = 0; i < op->num_results; i++) name_value(p, op->results[i]);
  if (op->num_results) {
    print_values(p, op->results, op->num_results);
    ptc_str_append(p->out, " = ");
  }
  ptc_str_append(p->out, ptc_op_info(op->opcode)->mnemonic);
  if (op->opcode == PTC_OP_REPEAT) {
    print_repeat(p, op, depth);
  } else if (op->opcode == PTC_OP_YIELD) {
    print_yield(p, op);
  } else if (op->opcode == PTC_OP_RETURN) {
    print_return(p, op, depth);
  } else {
    if (op->num_operands) ptc_str_append(p->out, " ");
    print_values(p, op->operands, op->num_operands);
    print_attrs(p->out, &op->attrs);
  }
  bool typed = op->num_results > 0;
  for (int32_t i = 0; i < op->num_results; i++) typed &= op->results[i]->type != NULL;
  for (int32_t i = 0; i < op->num_results && typed; i++) {
    ptc_str_append(p->out, i ? ", " : " : ");
    ptc_type_print(p->out, op->results[i]->type);
  }
  if (op->remat) ptc_str_append(p->out, " remat");
  print_loc(p, op->loc);
  ptc_str_append(p->out, "\n");
}

static void print_block(printer_t *p, const ptc_block_t *block, int depth) {
  for (const ptc_op_t *op = block->first; op; op = op->next) print_op(p, op, depth);
}

static void print_func(printer_t *p, const ptc_func_t *func) {
  ptc_interner_init(&p->taken, &p->arena);
  p->names = (ptc_map_t){0};
  p->next_number = 0;
  ptc_str_printf(p->out, "\nfunc @%s(", func->name);
  for (int32_t i = 0; i < func->body->num_args; i++) {
    name_value(p, func->body->args[i]);
    ptc_str_append(p->out, i ? ",\n    " : "\n    ");
    print_value(p, func->body->args[i]);
    ptc_str_append(p->out, " = ");
    print_global_ref(p->out, func->arg_globals[i]);
  }
  ptc_str_append(p->out, ")");
  print_loc(p, func->loc);
  ptc_str_append(p->out, " {\n");
  print_block(p, func->body, 1);
  ptc_str_append(p->out, "}\n");
  ptc_map_deinit(&p->names);
  ptc_interner_deinit(&p->taken);
}

void ptc_module_print(const ptc_module_t *module, bool with_locations, ptc_str_t *out) {
  printer_t p = {.module = module, .out = out, .with_locations = with_locations};
  ptc_str_append(out, "module ");
  ptc_str_append_quoted(out, module->name);
  ptc_str_append(out, "\n");
  if (module->mesh.num_axes) {
    ptc_str_append(out, "mesh [");
    for (int32_t i = 0; i < module->mesh.num_axes; i++) {
      if (i) ptc_str_append(out, ", ");
      ptc_str_append_quoted(out, module->mesh.axes[i].name);
      ptc_str_printf(out, "=%" PRId64, module->mesh.axes[i].size);
    }
    ptc_str_append(out, "]\n");
  }
  if (module->config.count) {
    ptc_str_append(out, "config");
    print_attrs(out, &module->config);
    ptc_str_append(out, "\n");
  }
  for (int64_t i = 0; i < module->num_globals; i++) print_global(&p, module->globals[i]);
  for (const ptc_func_t *func = module->funcs; func; func = func->next) print_func(&p, func);
  ptc_arena_deinit(&p.arena);
}
