#include "tests/support/bad_modules.h"

#include <string.h>

#include "ir/builder.h"
#include "ir/text.h"

static const char good_text[] =
    "module \"good\"\n"
    "mesh [\"tp\"=2]\n"
    "input @x : f32[d=4]\n"
    "param @w : f32[d=4]\n"
    "param @\"l.*.w\" turns (0:1) : 3 x f32[d=4]\n"
    "func @f(%x = @x, %w = @w, %l = @\"l.*.w\" (0:1)) {\n"
    "  %a = add %x, %w\n"
    "  %r, %s = repeat {count = 3} index %i carry(%c = %a) each(%v = %l) {\n"
    "    %n = mul %c, %v\n"
    "    yield carry(%n) collect(%c)\n"
    "  }\n"
    "  return output \"r\" = %r, output \"s\" = %s\n"
    "}\n";

ptc_module_t *good_module(ptc_diag_t *diag) {
  ptc_module_t *module;
  ptc_module_parse(diag, "good.ptir", good_text, sizeof(good_text) - 1, &module);
  return module;
}

static ptc_op_t *add_of(ptc_module_t *module) { return module->funcs->body->first; }
static ptc_op_t *repeat_of(ptc_module_t *module) { return add_of(module)->next; }
static ptc_op_t *mul_of(ptc_module_t *module) { return repeat_of(module)->body->first; }

static const ptc_type_t *scalar(ptc_module_t *module) {
  return ptc_type_scalar(&module->arena, PTC_F32);
}

static void set_input_type(ptc_module_t *module, const ptc_type_t *type) {
  module->globals[0]->type = module->funcs->body->args[0]->type = type;
}

static void same_functions(ptc_module_t *module) {
  ptc_func_t *func = ptc_module_add_func(module, "f", (ptc_loc_t){0});
  ptc_op_insert(ptc_op_new(module, PTC_OP_RETURN, func->loc, NULL, 0, 0), func->body, NULL);
}

static void same_globals(ptc_module_t *module) {
  ptc_module_add_global(module, PTC_GLOBAL_PARAM, "w", scalar(module), (ptc_loc_t){0});
}

static void same_axes(ptc_module_t *module) {
  ptc_mesh_axis_t axes[] = {{"tp", 2}, {"tp", 2}};
  ptc_module_set_mesh(module, axes, 2);
}

static void empty_axis(ptc_module_t *module) {
  ptc_mesh_axis_t axis = {"tp", 0};
  ptc_module_set_mesh(module, &axis, 1);
}

static void negative_turn(ptc_module_t *module) { module->globals[2]->turn_first[0] = -1; }
static void turns_in_place(ptc_module_t *module) { module->globals[2]->turn_step[0] = 0; }

static void unbound_argument(ptc_module_t *module) { module->funcs->arg_globals[0] = NULL; }

static void lost_description(ptc_module_t *module) { module->funcs->num_results--; }

static void broken_parent(ptc_module_t *module) { mul_of(module)->parent = module->funcs->body; }
static void broken_result(ptc_module_t *module) { add_of(module)->results[0]->index = 1; }
static void foreign_body(ptc_module_t *module) { repeat_of(module)->body->parent_op = NULL; }
static void missing_body(ptc_module_t *module) { repeat_of(module)->body = NULL; }

static void missing_operand(ptc_module_t *module) { mul_of(module)->operands[0] = NULL; }

static void late_definition(ptc_module_t *module) {
  ptc_op_t *add = add_of(module), *ret = ptc_func_return(module->funcs);
  ptc_op_remove(add);
  ptc_op_insert(add, module->funcs->body, ret);
}

static void inner_value(ptc_module_t *module) {
  ptc_func_return(module->funcs)->operands[0] = mul_of(module)->results[0];
}

static void unknown_attribute(ptc_module_t *module) {
  ptc_attrs_set_int(module, &add_of(module)->attrs, "odd", 1);
}

static void no_type(ptc_module_t *module) { mul_of(module)->results[0]->type = NULL; }

static void other_type(ptc_module_t *module) {
  // A result that nothing else depends on.
  repeat_of(module)->results[1]->type = scalar(module);
}

static void same_dims(ptc_module_t *module) {
  ptc_dim_t dims[2] = {{.name = ptc_module_intern(module, "d"), .extent = 4}};
  dims[1] = dims[0];
  set_input_type(module, ptc_type_new(&module->arena, PTC_F32, dims, 2));
}

static void huge_type(ptc_module_t *module) {
  ptc_dim_t dim = {.name = ptc_module_intern(module, "d"), .extent = INT64_MAX};
  set_input_type(module, ptc_type_new(&module->arena, PTC_F32, &dim, 1));
}

static void negative_extent(ptc_module_t *module) {
  ptc_dim_t dim = {.name = ptc_module_intern(module, "d"), .extent = -1};
  set_input_type(module, ptc_type_new(&module->arena, PTC_F32, &dim, 1));
}

static void no_such_axis(ptc_module_t *module) {
  ptc_axis_ref_t *ref = PTC_ARENA_NEW(&module->arena, ptc_axis_ref_t);
  ref->axis = ptc_module_intern(module, "dp");
  ptc_dim_t dim = {.name = ptc_module_intern(module, "d"), .extent = 4, .axes = ref, .num_axes = 1};
  set_input_type(module, ptc_type_new(&module->arena, PTC_F32, &dim, 1));
}

static void unnamed_result(ptc_module_t *module) { module->funcs->results[0].name = NULL; }

static void unknown_role(ptc_module_t *module) {
  module->funcs->results[0].role = ptc_module_intern(module, "prize");
}

static void no_global(ptc_module_t *module) {
  module->funcs->results[0] = (ptc_result_t){.kind = PTC_RESULT_STATE};
}

const bad_module_t bad_modules[] = {
    {"module-c1", same_functions},  {"module-c2", same_globals},   {"module-c3", same_axes},
    {"module-c3", empty_axis},      {"global-c2", negative_turn},  {"global-c2", turns_in_place},
    {"func-c1", unbound_argument},  {"func-c4", lost_description}, {"op-c1", broken_parent},
    {"op-c1", broken_result},       {"op-c1", foreign_body},       {"op-c2", missing_body},
    {"value-c1", missing_operand},  {"value-c2", late_definition}, {"value-c3", inner_value},
    {"attr-c3", unknown_attribute}, {"type-c1", no_type},          {"type-c3", other_type},
    {"type-c4", same_dims},         {"size-c1", huge_type},        {"size-c1", negative_extent},
    {"type-c5", no_such_axis},      {"return-c1", unnamed_result}, {"return-c1", unknown_role},
    {"return-c4", no_global},
};
const int num_bad_modules = sizeof(bad_modules) / sizeof(*bad_modules);
