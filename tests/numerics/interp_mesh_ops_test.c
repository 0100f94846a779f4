// Proves: where the rule of an op lets the sharding of its operands pass, the op on the parts of all devices is the op
// on the whole operands. For every row of the op table: random shapes, dims laid over random axes of random meshes of
// up to 8 devices (in blocks or zigzag, divisible or not), operands given as partial sums or maxima. So the
// sharded types that shape functions give their results are those that the results have. PTC_SEED, PTC_CASES (tries
// per row).
#include <math.h>
#include <stdlib.h>

#include "ir/axes.h"
#include "ir/builder.h"
#include "ir/interp.h"
#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

typedef struct row_s {
  const char *op, *attrs, *operands, *given, *dtypes, *data;
  char terms;
} row_t;

static const row_t rows[] = {
#include "c_ops.def"
#include "mesh_ops.def"
};
enum { NUM_ROWS = sizeof rows / sizeof *rows, MAX_OPERANDS = 16, MAX_REFS = 4, NUM_LETTERS = 26 };

// How often an op was accepted with a dim sharded; with a partial operand; and gave a partial result.
static int64_t accepted[PTC_NUM_OPS], partial_in[PTC_NUM_OPS], partial_out[PTC_NUM_OPS];

static int64_t num_cases(void) {
  const char *text = getenv("PTC_CASES");
  return text ? strtoll(text, NULL, 10) : 200;
}

static int64_t pick(uint64_t *random, int64_t count) {
  return (int64_t)(unit_random(random) % (uint64_t)count);
}

static double uniform(uint64_t *random) { return (double)(unit_random(random) >> 11) * 0x1p-53; }

// --- layouts: which axes each dim has. Dims of the rows are letters.

typedef struct axes_s {
  ptc_axis_ref_t refs[MAX_REFS];  // names are not interned
  int32_t count;
  ptc_dist_t dist;
} axes_t;

typedef enum partial_e { PARTIAL_NONE, PARTIAL_ONE, PARTIAL_ALL } partial_t;

typedef struct layout_s {
  ptc_mesh_axis_t mesh[4];
  axes_t dims[NUM_LETTERS];
  axes_t summand;  // of the dim over which partial operands are reduced
  partial_t partial;
  int32_t which;  // PARTIAL_ONE
  bool max;
} layout_t;

static void random_layout(layout_t *layout, const char *operands, uint64_t *random) {
  static const int64_t sizes[][3] = {{2, 2, 2}, {4, 2, 1}, {3, 2, 1}, {8, 1, 1},
                                     {5, 1, 1}, {2, 3, 1}, {1, 2, 4}};
  const int64_t *size = sizes[pick(random, 7)];
  *layout = (layout_t){.mesh = {{"u", size[0]}, {"v", size[1]}, {"w", size[2]}, {"micro", 2}},
                       .max = pick(random, 3) == 0,
                       .which = (int32_t)pick(random, 3)};
  ptc_axis_ref_t refs[MAX_REFS] = {{.axis = "v"}, {.axis = "w"}, {.axis = "u"}};
  int32_t num_refs = 3;
  if (size[0] % 4 == 0 && pick(random, 2)) {
    refs[2] = (ptc_axis_ref_t){.axis = "u", .pre = 1, .size = 2};
    refs[num_refs++] = (ptc_axis_ref_t){.axis = "u", .pre = 2, .size = size[0] / 2};
  }
  // Bundles are not reduced.
  if (!strstr(operands, " x ")) layout->partial = (partial_t)pick(random, 3);
  for (int32_t i = 0; i < num_refs; i++) {
    if (pick(random, 4) == 0) continue;
    bool to_summand = layout->partial && pick(random, 2);
    axes_t *axes = to_summand ? &layout->summand : &layout->dims[pick(random, 2)];
    if (!to_summand && pick(random, 2)) axes = &layout->dims[pick(random, NUM_LETTERS)];
    axes->refs[axes->count++] = refs[i];
    if (axes->count > 1 && pick(random, 2)) {
      ptc_axis_ref_t last = axes->refs[axes->count - 1];
      axes->refs[axes->count - 1] = axes->refs[0];
      axes->refs[0] = last;
    }
    if (!to_summand) axes->dist = pick(random, 4) ? PTC_DIST_BLOCK : PTC_DIST_ZIGZAG;
  }
  if (!layout->summand.count) layout->partial = PARTIAL_NONE;
  if (strstr(operands, "partial")) layout->max = false;  // a sum already
}

// --- a case: the op on one device, or on those of the layout

typedef struct case_s {
  const row_t *row;
  ptc_opcode_t opcode;
  int64_t extents[3];
  ptc_dtype_t dtype;
  layout_t layout;
} case_t;

typedef struct program_s {
  ptc_diag_t diag;
  ptc_module_t *module;
  ptc_func_t *func;
  bool sharded, partial;  // of the op: whether an operand or result is
} program_t;

static void expand(const case_t *c, const char *text, ptc_str_t *out) {
  ptc_str_append(out, "");
  for (const char *at = text; *at; ++at) {
    const bool extent =
        *at >= 'A' && *at <= 'C' && at > text && strchr("=,:", at[-1]) && at[1] != ':';
    if (*at == '$')
      ptc_str_append(out, ptc_dtype_name(c->dtype));
    else if (extent)
      ptc_str_printf(out, "%lld", (long long)c->extents[*at - 'A']);
    else
      ptc_str_append_n(out, at, 1);
  }
}

static void lay_dim(ptc_module_t *module, const axes_t *axes, ptc_dim_t *dim) {
  if (!axes->count) return;
  ptc_axis_ref_t *refs = PTC_ARENA_ARRAY(&module->arena, ptc_axis_ref_t, axes->count);
  for (int32_t i = 0; i < axes->count; i++) {
    refs[i] = axes->refs[i];
    refs[i].axis = ptc_module_intern(module, refs[i].axis);
  }
  dim->axes = refs;
  dim->num_axes = axes->count;
  dim->dist = axes->dist;
}

// |type| with |extra| (may be NULL) in front, its dims laid over the mesh by |layout| (NULL: whole).
static const ptc_type_t *lay(ptc_module_t *module, const layout_t *layout, const ptc_type_t *type,
                             const ptc_dim_t *extra) {
  ptc_type_t *laid = PTC_ARENA_NEW(&module->arena, ptc_type_t);
  ptc_dim_t *dims = PTC_ARENA_ARRAY(&module->arena, ptc_dim_t, type->num_dims + 1);
  *laid = *type;
  laid->dims = dims;
  laid->num_dims = 0;
  if (extra) dims[laid->num_dims++] = *extra;
  for (int32_t d = 0; d < type->num_dims; d++) {
    ptc_dim_t *dim = &dims[laid->num_dims++];
    *dim = type->dims[d];
    if (layout) lay_dim(module, &layout->dims[dim->name[0] - 'a'], dim);
  }
  return laid;
}

static bool is_partial(const case_t *c, int32_t operand) {
  const char kind = c->row->data[operand];
  return strchr("nxsp", kind) && (c->layout.partial == PARTIAL_ALL ||
                                  (c->layout.partial == PARTIAL_ONE && c->layout.which == operand));
}

enum { NUM_SUMMANDS = 5 };

static ptc_value_t *add_operand(const case_t *c, const layout_t *layout, program_t *p,
                                ptc_builder_t *b, int32_t index, const ptc_type_t *type) {
  char path[16];
  snprintf(path, sizeof path, "x%d", (int)index);
  const char *over = ptc_module_intern(p->module, "summand");
  ptc_dim_t summand = {.name = over, .extent = NUM_SUMMANDS};
  if (layout) lay_dim(p->module, &layout->summand, &summand);
  bool partial = is_partial(c, index);
  const ptc_type_t *own = lay(p->module, layout, type, partial ? &summand : NULL);
  const ptc_global_t *global =
      ptc_module_add_global(p->module, PTC_GLOBAL_INPUT, path, own, (ptc_loc_t){0});
  ptc_value_t *value = ptc_func_add_arg(p->func, global);
  if (!partial) return value;
  return ptc_build_reduce(b, c->layout.max ? PTC_OP_REDUCE_MAX : PTC_OP_REDUCE_SUM, value, &over,
                          1);
}

static void note_type(program_t *p, const ptc_type_t *type) {
  for (int32_t d = 0; d < type->num_dims; d++) p->sharded |= type->dims[d].num_axes > 0;
  for (int32_t i = 0; i < type->num_partial; i++)
    p->partial |= strcmp(type->partial[i].axis, "micro") != 0;
}

// Returns |value|, reduced first where it is partial; of limbs the number that they stand for, since their sum may be
// written in several ways.
static bool add_result(program_t *p, ptc_builder_t *b, ptc_value_t *value, int32_t index) {
  if (value->type->num_partial) {
    ptc_attrs_t attrs = {0};
    ptc_attrs_set_string(p->module, &attrs, "axes",
                         ptc_axes_text(p->module, value->type->partial, value->type->num_partial));
    ptc_op_t *op = ptc_build_op(b, PTC_OP_ALL_REDUCE, &value, 1, 1, attrs);
    if (!op) return false;
    value = op->results[0];
  }
  if (value->def->opcode == PTC_OP_SQUARE_SUM ||
      (value->def->opcode == PTC_OP_ALL_REDUCE &&
       value->def->operands[0]->def->opcode == PTC_OP_SQUARE_SUM))
    value = ptc_build_unary(b, PTC_OP_LIMBS_VALUE, value);
  char name[16];
  snprintf(name, sizeof name, "y%d", (int)index);
  ptc_func_add_result(p->func,
                      (ptc_result_t){.kind = PTC_RESULT_VALUE,
                                     .name = ptc_module_intern(p->module, name),
                                     .role = ptc_module_intern(p->module, "output")},
                      value);
  return true;
}

static int32_t num_results_of(const case_t *c) {
  if (c->opcode != PTC_OP_ATTENTION_GRAD) return ptc_op_info(c->opcode)->num_results;
  return strstr(c->row->attrs, "bias") ? 4 : 3;
}

static void close_program(program_t *p) {
  ptc_module_destroy(p->module);
  ptc_diag_deinit(&p->diag);
}

// False if the op does not take operands of these types.
static bool open_program(const case_t *c, const layout_t *layout, program_t *p) {
  *p = (program_t){0};
  ptc_diag_init(&p->diag);
  p->module = ptc_module_create(&p->diag, "t");
  ptc_module_set_mesh(p->module, layout ? layout->mesh : &c->layout.mesh[3], layout ? 4 : 1);
  p->func = ptc_module_add_func(p->module, "f", (ptc_loc_t){0});
  ptc_builder_t b = ptc_builder_at_end(p->module, p->func->body);
  ptc_str_t operands = {0}, attrs = {0}, given = {0};
  expand(c, c->row->operands, &operands);
  expand(c, c->row->attrs, &attrs);
  expand(c, c->row->given, &given);
  ptc_value_t *args[MAX_OPERANDS];
  int32_t count = 0;
  char *save;
  for (char *text = strtok_r(operands.data, ";", &save); text; text = strtok_r(NULL, ";", &save)) {
    args[count] = add_operand(c, layout, p, &b, count, maker_type(p->module, text));
    if (args[count]) note_type(p, args[count]->type);
    count++;
  }
  const ptc_type_t *type =
      given.len ? lay(p->module, layout, maker_type(p->module, given.data), NULL) : NULL;
  ptc_op_t *op = ptc_build_op_as(&b, c->opcode, args, count, num_results_of(c),
                                 maker_attrs(p->module, attrs.data), type);
  bool ok = op != NULL;
  if (ok) {
    partial_in[c->opcode] += p->partial;
    ptc_op_insert(ptc_op_new(p->module, PTC_OP_RETURN, (ptc_loc_t){0}, NULL, 0, 0), p->func->body,
                  NULL);
    b.before = ptc_func_return(p->func);
    p->partial = false;
  }
  for (int32_t i = 0; ok && i < op->num_results; i++) {
    note_type(p, op->results[i]->type);
    ok = add_result(p, &b, op->results[i], i);
  }
  ptc_str_deinit(&operands);
  ptc_str_deinit(&attrs);
  ptc_str_deinit(&given);
  return ok;
}

// --- data

static double datum(const case_t *c, char kind, ptc_dtype_t dtype, uint64_t *random) {
  static const double specials[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 1e30, -1e30};
  const double u = uniform(random);
  const bool is_float = ptc_dtype_is_float(dtype);
  switch (kind) {
    case 'x':
      if (is_float && u < 0.1) return specials[pick(random, 9)];
      return is_float ? (u - 0.5) * 12 : floor(u * 21) - 10;
    case 's': return (u - 0.5) * 4;
    case 'p': return is_float ? 0.05 + u * 3 : 1 + floor(u * 40);
    case 'u': return u;
    case 'q': return 2 * u / (double)c->extents[1];
    case 't':
    case 'm': return u < 0.6;
    case '0': return 0;
    case '1': return 1;
    case 'A':
    case 'B':
    case 'C': return floor(u * (double)c->extents[kind - 'A']);
    case 'o': return floor(u * ((double)c->extents[1] + 2)) - 1;
    default: return is_float ? (u - 0.5) * 4 : floor(u * 200) - 100;
  }
}

static int64_t size_of(const ptc_type_t *type) {
  return ptc_type_num_elements(type) * ptc_type_num_instances(type);
}

// The same numbers for both programs of a case.
static void fill(const case_t *c, program_t *p, ptc_interp_t *interp, uint64_t seed) {
  for (int64_t g = 0; g < p->module->num_globals; g++) {
    const ptc_global_t *global = p->module->globals[g];
    int64_t size = size_of(global->type);
    double *whole = ptc_xmalloc((size_t)(size + 1) * sizeof(double));
    uint64_t random = seed + (uint64_t)g * 7919;
    char kind = c->row->data[g];
    // Sums of infinities, or of numbers of all sizes, depend on their order.
    if (kind == 'x' && c->layout.partial) kind = 'n';
    for (int64_t i = 0; i < size; i++) whole[i] = datum(c, kind, global->type->dtype, &random);
    ptc_interp_set(interp, global, whole);
    free(whole);
  }
}

// Runs a program; result |index| or NULL. The caller frees it.
static double *take(ptc_interp_t *interp, const program_t *p, int32_t index, int64_t *out_count) {
  *out_count = size_of(ptc_func_return(p->func)->operands[index]->type);
  double *whole = ptc_xmalloc((size_t)(*out_count + 1) * sizeof(double));
  if (ptc_interp_get_result(interp, index, whole) == PTC_OK) return whole;
  free(whole);
  return NULL;
}

static bool same(const double *a, const double *b, int64_t count) {
  double scale = 1;
  for (int64_t i = 0; i < count; i++)
    if (isfinite(a[i])) scale = fmax(scale, fabs(a[i]));
  for (int64_t i = 0; i < count; i++) {
    bool equal = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
    if (!equal && !(fabs(a[i] - b[i]) <= 1e-11 * scale)) return false;
  }
  return true;
}

static void report(const case_t *c, program_t *p) {
  printf("\n    %s {%s} A=%d B=%d C=%d mesh", c->row->op, c->row->attrs, (int)c->extents[0],
         (int)c->extents[1], (int)c->extents[2]);
  for (int i = 0; i < 4; i++)
    printf(" %s=%d", p->module->mesh.axes[i].name, (int)p->module->mesh.axes[i].size);
  ptc_str_t text = {0};
  for (const ptc_op_t *op = p->func->body->first; op; op = op->next) {
    ptc_str_printf(&text, "\n    %s", ptc_op_info(op->opcode)->mnemonic);
    for (int32_t i = 0; i < op->num_operands; i++) {
      ptc_str_append(&text, " ");
      ptc_type_print(&text, op->operands[i]->type);
    }
  }
  printf("%s\n", text.data);
  ptc_str_deinit(&text);
  ptc_diag_print(&p->diag, stdout, PTC_DIAG_TEXT, false);
}

static void compare(const case_t *c, program_t *one, program_t *many, uint64_t seed) {
  ptc_interp_t *a = ptc_interp_create(one->module, PTC_INTERP_EXACT);
  ptc_interp_t *b = ptc_interp_create(many->module, PTC_INTERP_EXACT);
  fill(c, one, a, seed);
  fill(c, many, b, seed);
  bool ok = ptc_interp_run(a, "f") == PTC_OK && ptc_interp_run(b, "f") == PTC_OK;
  for (int32_t i = 0; ok && i < num_results_of(c); i++) {
    int64_t num_x, num_y;
    double *x = take(a, one, i, &num_x), *y = take(b, many, i, &num_y);
    ok = x && y && num_x == num_y && same(x, y, num_x);
    free(x);
    free(y);
  }
  if (!ok) report(c, many);
  UNIT_CHECK(ok, c->row->op);
  ptc_interp_destroy(a);
  ptc_interp_destroy(b);
}

// --- all rows

static void run_row(const row_t *row, uint64_t *random) {
  case_t c = {.row = row};
  UNIT_CHECK(ptc_opcode_parse(row->op, &c.opcode), row->op);
  for (int64_t n = 0; n < num_cases(); n++) {
    for (int i = 0; i < 3; i++) c.extents[i] = 1 + pick(random, 9);
    bool ints = row->dtypes[0] == 'i' || (strchr("na", row->dtypes[0]) && pick(random, 4) == 0);
    c.dtype = ints ? PTC_I32 : PTC_F32;
    random_layout(&c.layout, row->operands, random);
    program_t one, many;
    UNIT_CHECK(open_program(&c, NULL, &one), row->op);
    if (open_program(&c, &c.layout, &many)) {
      accepted[c.opcode] += many.sharded;
      partial_out[c.opcode] += many.partial;
      compare(&c, &one, &many, unit_random(random));
    }
    close_program(&one);
    close_program(&many);
  }
}

static void test_ops(void) {
  uint64_t random = unit_seed();
  for (int i = 0; i < NUM_ROWS; i++) run_row(&rows[i], &random);
}

// After test_ops: every op had dims to shard, but those that have tests of their own or no dims.
static void test_every_op(void) {
  static const ptc_opcode_t others[] = {
      PTC_OP_LIMBS_VALUE, PTC_OP_REPEAT,     PTC_OP_YIELD,      PTC_OP_RETURN,
      PTC_OP_CONSTANT,    PTC_OP_ALL_FINITE, PTC_OP_SHARD,      PTC_OP_UNSHARD,
      PTC_OP_AXIS_INDEX,  PTC_OP_ALL_REDUCE, PTC_OP_ALL_GATHER, PTC_OP_REDUCE_SCATTER,
      PTC_OP_ALL_TO_ALL,  PTC_OP_SEND,       PTC_OP_RECV,       PTC_OP_REORDER};
  for (int op = 0; op < PTC_NUM_OPS; op++) {
    const ptc_op_info_t *info = ptc_op_info((ptc_opcode_t)op);
    bool other = info->traits & PTC_TRAIT_COLLECTIVE;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) other |= (int)others[i] == op;
    if (other) continue;
    UNIT_CHECK(accepted[op] > 0, info->mnemonic);
    bool bundles = strncmp(info->mnemonic, "list_", 5) == 0;  // nothing here makes partial ones
    UNIT_CHECK((partial_in[op] > 0) == ((info->linear[0] && !bundles) || op == PTC_OP_ACCUMULATE),
               info->mnemonic);
  }
  CU_ASSERT(partial_out[PTC_OP_EINSUM] > 0 && partial_out[PTC_OP_REDUCE_MAX] > 0);
  CU_ASSERT(partial_out[PTC_OP_SCATTER_ADD] > 0 && partial_out[PTC_OP_ATTENTION_GRAD] > 0);
  CU_ASSERT(partial_out[PTC_OP_SQUARE_SUM] > 0 && partial_out[PTC_OP_REDUCE_SUM] > 0);
}

static const unit_test_t tests[] = {{"ops", test_ops}, {"every op", test_every_op}};
UNIT_MAIN("interp_mesh_ops", tests)
