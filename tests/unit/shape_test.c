// Proves: every constraint that the sources of the shape functions list is enforced, under its
// label; a list in the sources that no row provokes fails the test.
#include "ir/base/map.h"
#include "tests/support/op_maker.h"
#include "tests/support/shape_labels.h"
#include "tests/support/unit.h"

// op: a mnemonic, or "@shape" for every op with that name in the shape column. label: "cN" for a
// constraint of the op, or a whole label.
typedef struct bad_row_s {
  const char *op, *label, *operands, *attrs, *given;
  int32_t num_results;  // -1: as in the op table
} bad_row_t;

#define RND "; i64[]; i64[]"
#define ATT "attend=d:t dot=d:k scale=f:1"
#define QKV "f32[s=4, k=2]; f32[t=5, k=2]; f32[t=5, w=3]"
#define OLD "; f32[s=4, w=3]; f32[s=4]; f32[s=4, w=3]"
#define ADAM_SCALARS "; f32[]; f32[]; f32[]; f32[]; f32[]; i64[]; f32[]; bool[]"
#define SGD_SCALARS "; f32[]; f32[]; f32[]; f32[]; bool[]"
#define DIMS17 "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1"

static const bad_row_t bad_rows[] = {
#include "tests/unit/shape_bad_rows.def"
};

typedef struct good_row_s {
  const char *op, *operands, *attrs, *given;
  const char *results;  // separated by "; "
} good_row_t;

static const good_row_t good_rows[] = {
    {"constant", "", "value=f:1", "i64[]", "i64[]"},
    {"iota", "", "dim=d:s", "i32[s=8 'tp']", "i32[s=8 \"tp\"]"},
    {"random", "i64[]; i64[]; i32[]", "dist=s:normal a=f:1 b=f:0 path=s:a.*.w", "f32[a=2]",
     "f32[a=2]"},
    {"add", "f32[b=2, s=3]; f32[d=4, s=3]", "", NULL, "f32[b=2, s=3, d=4]"},
    {"add", "f32[b=2] partial 'tp'; f32[s=3] partial 'tp'", "", NULL,
     "f32[b=2, s=3] partial \"tp\""},
    {"mul", "f32[b=2 'tp']; f32[s=3] partial 'cp'", "", NULL,
     "f32[b=2 \"tp\", s=3] partial \"cp\""},
    {"eq", "bool[a=2]; bool[]", "", NULL, "bool[a=2]"},
    {"where", "bool[s=2, t=2]; f32[]; f32[t=2]", "", NULL, "f32[s=2, t=2]"},
    {"where", "bool[a=2]; f32[a=2] partial 'tp'; f32[] partial 'tp'", "", NULL,
     "f32[a=2] partial \"tp\""},
    {"cast", "4 x f32[a=2 'tp']", "to=s:bf16", NULL, "4 x bf16[a=2 \"tp\"]"},
    {"dropout", "f32[a=2] partial 'tp'; i64[]; i64[]", "p=f:0.5 path=s:x", NULL,
     "f32[a=2] partial \"tp\""},
    {"broadcast", "f32[a=2 'tp']", "dims=D:b,a extents=I:3,2", "f32[b=3 'cp', a=2]",
     "f32[b=3 \"cp\", a=2 \"tp\"]"},
    {"transpose", "f32[a=2, b=3]", "dims=D:b,a", NULL, "f32[b=3, a=2]"},
    {"rename", "f32[a=2 'tp', b=3]", "from=D:a,b to=D:b,a", NULL, "f32[b=2 \"tp\", a=3]"},
    {"rename", "f32[a=2] partial max 'tp'", "from=D:a to=D:b", NULL, "f32[b=2] partial max \"tp\""},
    {"split", "f32[d=8 'tp', e=2]", "dim=d:d into=D:h,k extents=I:4,2", NULL,
     "f32[h=4 \"tp\", k=2, e=2]"},
    {"merge", "f32[x=1, h=4 'tp', k=2]", "dims=D:h,k into=d:d", NULL, "f32[x=1, d=8 \"tp\"]"},
    {"merge", "f32[k=2, h=4]", "dims=D:h,k into=d:k", NULL, "f32[k=8]"},
    {"concat", "f32[a=2, b=3]; f32[b=3, a=5]", "dim=d:a", NULL, "f32[a=7, b=3]"},
    {"window", "f32[b=2, s=8, d=4]",
     "dim=d:s terms=D:s,w coeffs=I:1,-1 extents=I:8,4 offset=i:0 fill=f:0", NULL,
     "f32[b=2, s=8, w=4, d=4]"},
    {"window", "f32[s=8, d=4]", "dim=d:s terms=D:d coeffs=I:2 extents=I:4 offset=i:1", NULL,
     "f32[d=4]"},
    {"window", "f32[s=8, d=4]", "dim=d:s terms=D: coeffs=I: extents=I: offset=i:1", NULL,
     "f32[d=4]"},
    {"window_add", "f32[b=2, s=8, w=4, d=4]",
     "dim=d:s terms=D:s,w coeffs=I:1,-1 extent=i:8 offset=i:0 keep=D:", NULL, "f32[b=2, s=8, d=4]"},
    {"window_add", "f32[d=4]", "dim=d:s terms=D:d coeffs=I:2 extent=i:8 offset=i:1 keep=D:d", NULL,
     "f32[d=4, s=8]"},
    {"gather", "f32[v=9, d=4]; i32[b=2 'tp', s=3]", "dims=D:v", NULL, "f32[b=2 \"tp\", s=3, d=4]"},
    {"gather", "f32[b=2, s=9, d=4]; i64[b=2, j=3]", "dims=D:s", NULL, "f32[b=2, j=3, d=4]"},
    {"gather", "f32[i=9, j=9]; i32[i=2]; i32[k=3]", "dims=D:i,j", NULL, "f32[i=2, k=3]"},
    {"scatter_add", "f32[b=2 'tp', s=3, d=4]; i32[b=2 'tp', s=3]",
     "dims=D:v result=D:v,d extents=I:9,4", NULL, "f32[v=9, d=4] partial \"tp\""},
    {"reduce_sum", "bf16[b=2 'tp', s=3]", "over=D:b", "f32[s=3]", "f32[s=3] partial \"tp\""},
    {"reduce_max", "bf16[b=2 'tp', s=3]", "over=D:b", "f32[s=3]", "bf16[s=3] partial max \"tp\""},
    {"argmax", "f32[s=3, v=9]", "dim=d:v", NULL, "i32[s=3]"},
    {"einsum", "f32[b=2 'cp', s=3, d=4 'tp']; f32[d=4 'tp', f=5]", "over=D:d", NULL,
     "f32[b=2 \"cp\", s=3, f=5] partial \"tp\""},
    {"einsum", "bf16[s=3, d=4]; bf16[d=4, f=5]", "over=D:d dims=D:f,s", "f32[f=5, s=3]",
     "f32[f=5, s=3]"},
    {"einsum", "f32[d=4, f=2 'tp']; f32[d=4] partial 'cp'", "over=D:d", NULL,
     "f32[f=2 \"tp\"] partial \"cp\""},
    {"cumargmax", "f32[s=3]", "dim=d:s", NULL, "i32[s=3]"},
    {"softmax_grad", "f32[s=3, t=2]; f32[t=2, s=3]", "over=D:t", NULL, "f32[s=3, t=2]"},
    {"layernorm", "bf16[b=2 'tp', d=4]", "over=D:d eps=f:1e-5", NULL,
     "bf16[b=2 \"tp\", d=4]; f32[b=2 \"tp\"]; f32[b=2 \"tp\"]"},
    {"rmsnorm", "f64[h=2, k=4]", "over=D:h,k eps=i:0", NULL, "f64[h=2, k=4]; f64[]"},
    {"layernorm_grad", "f32[b=2, d=4]; f32[b=2]; f32[b=2]; f32[d=4, b=2]", "over=D:d", NULL,
     "f32[b=2, d=4]"},
    {"cross_entropy", "bf16[b=2, v=9]; i32[b=2]", "dim=d:v", NULL, "f32[b=2]; f32[b=2]"},
    {"cross_entropy_grad", "bf16[b=2, v=9]; i32[b=2]; f32[b=2]; f32[b=2]", "dim=d:v", NULL,
     "bf16[b=2, v=9]"},
    {"attention",
     "f32[b=2 'tp', s=4, k=2]; f32[b=2 'tp', t=5, n=3, k=2]; f32[b=2 'tp', t=5, n=3, k=2]", ATT,
     NULL, "f32[b=2 \"tp\", s=4, n=3, k=2]; f32[b=2 \"tp\", s=4, n=3]"},
    {"attention", QKV "; bool[s=4, t=5]; f32[t=5]" RND, ATT " mask=b:1 bias=b:1 p=f:0.1 path=s:x",
     NULL, "f32[s=4, w=3]; f32[s=4]"},
    {"rope", "f32[s=4, k=6]; i32[s=4]", "dim=d:k base=f:1e4 dims=i:4 style=s:interleaved", NULL,
     "f32[s=4, k=6]"},
    {"topk", "f32[s=4, e=8]", "dim=d:e into=d:k extent=i:2", NULL, "f32[s=4, k=2]; i32[s=4, k=2]"},
    {"dispatch_slot", "i32[s=4, k=2]", "over=D:s,k", NULL, "i32[s=4, k=2]"},
    {"adamw", "f32[a=2]; bf16[a=2]; f32[a=2]; f32[a=2]" ADAM_SCALARS, "", NULL,
     "f32[a=2]; f32[a=2]; f32[a=2]"},
    {"square_sum", "f32[a=2 'tp', b=3 'cp']", "", NULL,
     "i64[square_limb=20] partial \"tp\" \"cp\""},
    {"limbs_value", "i64[square_limb=20]", "", NULL, "f64[]"},
    {"gather", "f32[v=5 'tp', d=2]; i32[b=2 'cp']", "dims=D:v fill=f:0 local=b:1", NULL,
     "f32[b=2 \"cp\", d=2] partial \"tp\""},
    {"gather", "f32[v=5 'tp', d=2] partial 'micro'; i32[b=2]", "dims=D:v fill=f:0 local=b:1", NULL,
     "f32[b=2, d=2] partial \"micro\" \"tp\""},
    {"scatter_add", "f32[b=2 'cp', d=2]; i32[b=2 'cp']",
     "dims=D:v result=D:v,d extents=I:5,2 local=b:1", "f32[v=5 'tp', d=2]",
     "f32[v=5 \"tp\", d=2] partial \"cp\""},
    {"cross_entropy_grad", "bf16[b=2, v=9 'tp']; i32[b=2]; f32[b=2]; f32[b=2]", "dim=d:v", NULL,
     "bf16[b=2, v=9 \"tp\"]"},
    {"all_finite", "f32[a=2]", "", NULL, "bool[]"},
    {"list_slice", "6 x 2 x f32[a=2]", "first=i:2 count=i:4", NULL, "4 x 2 x f32[a=2]"},
    {"list_concat", "6 x 2 x f32[a=2]; 1 x 2 x f32[a=2]", "", NULL, "7 x 2 x f32[a=2]"},
    {"list_group", "6 x 5 x f32[]", "outer=i:2", NULL, "2 x 3 x 5 x f32[]"},
    {"list_ungroup", "2 x 3 x 5 x f32[]", "", NULL, "6 x 5 x f32[]"},
    {"shard", "f32[b=8 'tp']", "dim=d:b axis=s:micro", NULL, "f32[b=8 \"tp\" \"micro\"]"},
    {"unshard", "4 x f32[b=8 'tp' 'micro']", "dim=d:b axis=s:micro", NULL, "f32[b=8 \"tp\"]"},
    {"shard", "f32[b=7]", "dim=d:b axis=s:'micro tp'", NULL, "f32[b=7 \"micro\" \"tp\"]"},
    {"shard", "f32[b=7] partial max 'tp'", "dim=d:b axis=s:'micro:2:2'", NULL,
     "f32[b=7 \"micro\":2:2] partial max \"tp\""},
    {"all_reduce", "bf16[a=3] partial 'tp' 'cp'", "axes=s:tp", NULL, "bf16[a=3] partial \"cp\""},
    {"all_reduce", "i32[a=3 'micro'] partial max 'tp' 'cp'", "axes=s:'cp tp'", NULL,
     "i32[a=3 \"micro\"]"},
    {"reduce_scatter", "f32[a=3, b=2] partial 'micro' 'tp' 'cp'", "axes=s:'tp cp' dim=d:a", NULL,
     "f32[a=3 \"tp\" \"cp\", b=2] partial \"micro\""},
    {"reduce_scatter", "f32[a=8 'micro'] partial 'tp'", "axes=s:tp dim=d:a", NULL,
     "f32[a=8 \"micro\" \"tp\"]"},
    {"all_gather", "f32[a=8 'micro' 'tp', b=2 'cp']", "axes=s:tp dim=d:a", NULL,
     "f32[a=8 \"micro\", b=2 \"cp\"]"},
    {"all_gather", "bool[a=7 'tp' 'cp']", "axes=s:'tp cp' dim=d:a", NULL, "bool[a=7]"},
    {"all_gather", "f32[a=7 'tp'] partial max 'cp'", "axes=s:tp dim=d:a", NULL,
     "f32[a=7] partial max \"cp\""},
    {"ring_shift", "f32[a=2 'tp', b=5 'cp']", "axes=s:tp dim=d:a", NULL,
     "f32[a=2 \"tp\", b=5 \"cp\"]"},
    {"reorder", "f32[a=8 'tp', b=5] partial 'cp'", "dim=d:a to=s:zigzag", NULL,
     "f32[a=8 \"tp\" zigzag, b=5] partial \"cp\""},
    {"reorder", "f32[a=8 'tp' zigzag]", "dim=d:a to=s:block", NULL, "f32[a=8 \"tp\"]"},
    {"all_to_all", "f32[a=7 'tp', b=5]", "axes=s:tp from=d:a to=d:b", NULL, "f32[a=7, b=5 \"tp\"]"},
    {"all_to_all", "f32[a=8 'cp' 'micro', b=8 'tp']", "axes=s:micro from=d:a to=d:b", NULL,
     "f32[a=8 \"cp\", b=8 \"tp\" \"micro\"]"},
    {"axis_index", "", "axes=s:'cp tp'", NULL, "i32[]"},
    {"recv", "", "from=i:1 tag=i:7", "3 x bf16[a=8 'micro'] partial 'tp'",
     "3 x bf16[a=8 \"micro\"] partial \"tp\""},
    {"mul", "f32[] partial 'cp' 'tp'; f32[a=2]", "", NULL, "f32[a=2] partial \"tp\" \"cp\""},
    {"accumulate", "f32[a=2] partial 'tp'; bf16[a=2] partial 'micro' 'tp'", "axis=s:micro", NULL,
     "f32[a=2] partial \"tp\""},
};

// --- which labels the sources list

static const struct {
  const char *mnemonic, *shape;
} op_shapes[] = {
#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, ...) \
  {mnemonic, #shape},
#include "ir/ops.def"
#undef PTC_OP
};

static ptc_arena_t arena;
static ptc_interner_t interner;
static ptc_map_t listed;    // label -> itself
static ptc_map_t provoked;  // label -> itself

static void note_label(ptc_map_t *map, const char *label) {
  const char *key = ptc_intern(&interner, label);
  ptc_map_set(map, key, (void *)key);
}

// --- running rows

static const ptc_diagnostic_t *first_error(const ptc_diag_t *diag) {
  return diag->num_items ? &diag->items[0] : NULL;
}

static void run_bad_row(const bad_row_t *row, ptc_opcode_t opcode) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = maker_module(&diag);
  const ptc_op_info_t *info = ptc_op_info(opcode);
  ptc_op_t *op = maker_op(module, opcode, row->operands, row->attrs, row->given, row->num_results);
  char label[64], name[256];
  bool general = strchr(row->label, '-') != NULL;
  snprintf(label, sizeof(label), "%s%s%s", general ? "" : info->mnemonic, general ? "" : "-",
           row->label);
  const ptc_type_t *types[16] = {0};
  ptc_status_t status = info->shape(module, op, types);
  const ptc_diagnostic_t *error = first_error(&diag);
  snprintf(name, sizeof(name), "%s: %s %s gives %s", label, row->operands, row->attrs,
           error ? error->id : "no error");
  UNIT_CHECK(
      status == PTC_INVALID_INPUT && diag.num_errors == 1 && error && strcmp(error->id, label) == 0,
      name);
  if (error) note_label(&provoked, error->id);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_bad(void) {
  for (size_t r = 0; r < sizeof(bad_rows) / sizeof(bad_rows[0]); r++) {
    const bad_row_t *row = &bad_rows[r];
    int matches = 0;
    for (int i = 0; i < PTC_NUM_OPS; i++) {
      bool match = row->op[0] == '@' ? strcmp(op_shapes[i].shape, row->op + 1) == 0
                                     : strcmp(op_shapes[i].mnemonic, row->op) == 0;
      if (!match) continue;
      matches++;
      run_bad_row(row, (ptc_opcode_t)i);
    }
    UNIT_CHECK(matches > 0, row->op);
  }
}

static void test_good(void) {
  for (size_t r = 0; r < sizeof(good_rows) / sizeof(good_rows[0]); r++) {
    const good_row_t *row = &good_rows[r];
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = maker_module(&diag);
    ptc_opcode_t opcode;
    if (!ptc_opcode_parse(row->op, &opcode)) {
      UNIT_CHECK(false, row->op);
      continue;
    }
    ptc_op_t *op = maker_op(module, opcode, row->operands, row->attrs, row->given, -1);
    const ptc_type_t *types[16] = {0};
    ptc_status_t status = ptc_op_info(opcode)->shape(module, op, types);
    ptc_str_t text = {0};
    ptc_str_append(&text, "");
    for (int32_t i = 0; status == PTC_OK && i < op->num_results; i++) {
      if (i) ptc_str_append(&text, "; ");
      ptc_type_print(&text, types[i]);
    }
    char name[512];
    const ptc_diagnostic_t *error = first_error(&diag);
    snprintf(name, sizeof(name), "%s %s gives %s %s", row->op, row->operands, text.data,
             error ? error->message : "");
    UNIT_CHECK(status == PTC_OK && strcmp(text.data, row->results) == 0, name);
    ptc_str_deinit(&text);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// Gradients of attention are partial over the axes of the dims that they are summed over.
static void test_attention_grad(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = maker_module(&diag);
  ptc_op_t *op = maker_op(module, PTC_OP_ATTENTION_GRAD,
                          "f32[b=2 'tp', s=4 'cp', k=2]; f32[b=2 'tp', t=5, k=2]; f32[t=5, w=3]; "
                          "f32[s=4 'cp']; f32[b=2 'tp', s=4 'cp', w=3]; f32[b=2 'tp', s=4 'cp']; "
                          "f32[b=2 'tp', s=4 'cp', w=3]",
                          ATT " bias=b:1", NULL, 4);
  const ptc_type_t *types[4];
  CU_ASSERT_EQUAL_FATAL(ptc_op_info(op->opcode)->shape(module, op, types), PTC_OK);
  static const char *const expected[] = {
      "f32[b=2 \"tp\", s=4 \"cp\", k=2]", "f32[b=2 \"tp\", t=5, k=2] partial \"cp\"",
      "f32[t=5, w=3] partial \"tp\" \"cp\"", "f32[s=4 \"cp\"] partial \"tp\""};
  for (int i = 0; i < 4; i++) {
    ptc_str_t text = {0};
    ptc_type_print(&text, types[i]);
    UNIT_CHECK(strcmp(text.data, expected[i]) == 0, text.data);
    ptc_str_deinit(&text);
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// --- repeat: a body is needed

typedef struct repeat_row_s {
  const char *label;     // NULL: valid
  const char *operands;  // num_carry carried values, then bundles
  int32_t num_carry, num_each;
  const char *args, *yields, *attrs;
  int32_t num_results;
} repeat_row_t;

static const repeat_row_t repeat_rows[] = {
    {NULL, "f32[a=2]; 4 x f32[]", 1, 1, "i32[]; f32[a=2]; f32[]", "f32[a=2]; f32[b=3]",
     "count=i:4 axis=s:micro", 2},
    {"repeat-c1", "", 0, 0, "i32[]", NULL, "count=i:4", 0},
    {"repeat-c2", "", 0, 0, "i32[]", "", "count=i:0", 0},
    {"repeat-c2", "", 0, 0, "i32[]", "", "count=i:3 axis=s:micro", 0},
    {"repeat-c2", "", 0, 0, "i32[]", "", "count=i:4 axis=s:dp", 0},
    {"repeat-c3", "f32[]", 0, 0, "i32[]; f32[]", "", "count=i:4", 0},
    {"repeat-c3", "f32[]", 2, -1, "i32[]; f32[]", "", "count=i:4", 0},
    {"repeat-c4", "f32[]", 1, 0, "i32[]", "f32[]", "count=i:4", 1},
    {"repeat-c4", "f32[]", 1, 0, "i64[]; f32[]", "f32[]", "count=i:4", 1},
    {"repeat-c5", "f32[]", 1, 0, "i32[]; f16[]", "f16[]", "count=i:4", 1},
    {"repeat-c6", "3 x f32[]", 0, 1, "i32[]; f32[]", "", "count=i:4", 0},
    {"repeat-c6", "4 x f32[]", 0, 1, "i32[]; f16[]", "", "count=i:4", 0},
    {"repeat-c6", "f32[]", 0, 1, "i32[]; f32[]", "", "count=i:4", 0},
    {"repeat-c7", "f32[]", 1, 0, "i32[]; f32[]", "f16[]", "count=i:4", 1},
    {"repeat-c7", "f32[]", 1, 0, "i32[]; f32[]", "", "count=i:4", 0},
    {"repeat-c8", "f32[]", 1, 0, "i32[]; f32[]", "f32[]", "count=i:4", 2},
    {"type-c1", "f32[]", 1, 0, "i32[]; ?", "f32[]", "count=i:4", 1},
    {"type-c1", "f32[]", 1, 0, "i32[]; f32[]", "?", "count=i:4", 1},
    {"size-c1", "", 0, 0, "i32[]", "f32[a=1073741824, b=1073741824]", "count=i:4", 1},
    {"size-c1", "", 0, 0, "i32[]", "1 x 1 x 1 x 1 x 1 x 1 x 1 x 1 x f32[]", "count=i:4", 1},
};

static void test_repeat(void) {
  for (size_t r = 0; r < sizeof(repeat_rows) / sizeof(repeat_rows[0]); r++) {
    const repeat_row_t *row = &repeat_rows[r];
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = maker_module(&diag);
    ptc_func_t *func = ptc_module_add_func(module, "f", (ptc_loc_t){0});
    ptc_op_t *op =
        maker_op(module, PTC_OP_REPEAT, row->operands, row->attrs, NULL, row->num_results);
    op->num_carry = row->num_carry;
    op->num_each = row->num_each;
    op->body = ptc_block_new(module, func, op);
    // The operands of a helper op are values of the types wanted.
    ptc_op_t *args = maker_op(module, PTC_OP_YIELD, row->args, "", NULL, 0);
    for (int32_t i = 0; i < args->num_operands; i++)
      ptc_block_add_arg(op->body, args->operands[i]->type, NULL);
    if (row->yields)
      ptc_op_insert(maker_op(module, PTC_OP_YIELD, row->yields, "", NULL, 0), op->body, NULL);
    const ptc_type_t *types[4] = {0};
    ptc_status_t status = ptc_op_info(PTC_OP_REPEAT)->shape(module, op, types);
    const ptc_diagnostic_t *error = first_error(&diag);
    if (row->label) {
      UNIT_CHECK(status == PTC_INVALID_INPUT && error && strcmp(error->id, row->label) == 0,
                 row->label);
      if (error) note_label(&provoked, error->id);
    } else {
      ptc_str_t text = {0};
      CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
      ptc_type_print(&text, types[0]);
      ptc_str_append(&text, "; ");
      ptc_type_print(&text, types[1]);
      CU_ASSERT_STRING_EQUAL(text.data, "f32[a=2]; 4 x f32[b=3]");
      ptc_str_deinit(&text);
    }
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static void test_every_label(void) {
  static const char *const sources[] = {
      "shape_elementwise.c", "shape_contract.c", "shape_structure.c", "shape_composite.c",
      "shape_state.c",       "shape_control.c",  "shape_collective.c"};
  char path[1024];
  snprintf(path, sizeof(path), "%s/ir/shape_impl.h", PTC_SOURCE_DIR);
  UNIT_CHECK(shape_labels_of(path, &interner, &listed) >= 0, path);
  int functions = 0;
  for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
    snprintf(path, sizeof(path), "%s/ir/%s", PTC_SOURCE_DIR, sources[i]);
    int found = shape_labels_of(path, &interner, &listed);
    UNIT_CHECK(found > 0, path);
    functions += found;
  }
  // A shape function in another file would escape the test.
  CU_ASSERT_EQUAL(functions, shape_labels_num_shapes());
  for (int64_t i = 0; i < listed.num_slots; i++)
    if (listed.keys[i])
      UNIT_CHECK(ptc_map_get(&provoked, listed.keys[i]) != NULL, (const char *)listed.keys[i]);
  for (int64_t i = 0; i < provoked.num_slots; i++)
    if (provoked.keys[i])
      UNIT_CHECK(ptc_map_get(&listed, provoked.keys[i]) != NULL, (const char *)provoked.keys[i]);
  printf(" %d labels ", (int)listed.len);
}

// No combination of operands and attributes, however odd, may crash a shape function.
static void test_random_ops(void) {
  static const char *const types[] = {"f32[]",
                                      "i32[]",
                                      "i64[]",
                                      "bool[]",
                                      "f32[a=2, b=3]",
                                      "?",
                                      "f32[b=3]",
                                      "i32[a=2]",
                                      "f16[a=0]",
                                      "4 x f32[a=2]",
                                      "f32[a=9223372036854775807]",
                                      "f32[a=2 'tp':3:9223372036854775807, b=3 'micro']",
                                      "f32[a=4 'micro'] partial 'tp'",
                                      "f32[] partial max 'micro'",
                                      "bool[a=2, t=4]",
                                      "f32[a=2 'tp' zigzag, c=4]"};
  static const char *const attrs[] = {"over=D:a",
                                      "over=D:a,a",
                                      "dim=d:a",
                                      "dim=d:z",
                                      "dims=D:a,b",
                                      "dims=D:",
                                      "extents=I:3,2",
                                      "extents=I:-1",
                                      "extents=I:4611686018427387904,4",
                                      "into=d:q",
                                      "into=D:q,r",
                                      "terms=D:a,q",
                                      "coeffs=I:1,2",
                                      "offset=i:-9",
                                      "extent=i:9223372036854775807",
                                      "extent=i:1",
                                      "keep=D:a",
                                      "keep=D:",
                                      "result=D:a,b",
                                      "axis=s:micro",
                                      "axis=s:none",
                                      "first=i:-1",
                                      "first=i:1",
                                      "count=i:4",
                                      "outer=i:2",
                                      "outer=i:-9223372036854775808",
                                      "value=f:nan",
                                      "eps=f:1e-5",
                                      "p=f:0.5",
                                      "path=s:x.*",
                                      "style=s:half",
                                      "base=f:1e4",
                                      "dims=i:2",
                                      "attend=d:a",
                                      "dot=d:b",
                                      "scale=f:1",
                                      "mask=b:1",
                                      "bias=b:1",
                                      "from=D:a to=D:b",
                                      "to=s:f16",
                                      "dist=s:normal",
                                      "a=f:1",
                                      "b=f:1",
                                      "axes=s:tp",
                                      "axes=s:micro",
                                      "from=d:a",
                                      "to=d:b",
                                      "fill=f:1"};
  uint64_t state = unit_seed();
  int64_t valid = 0;
  for (int turn = 0; turn < 40000; turn++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = maker_module(&diag);
    ptc_opcode_t opcode = (ptc_opcode_t)(unit_random(&state) % PTC_NUM_OPS);
    const ptc_op_info_t *info = ptc_op_info(opcode);
    char operands[2048] = "", text[2048] = "";
    int32_t num = info->min_operands + (int32_t)(unit_random(&state) % 3) - 1;
    for (int32_t i = 0; i < num; i++) {
      strcat(operands, types[unit_random(&state) % (sizeof(types) / sizeof(types[0]))]);
      strcat(operands, ";");
    }
    for (uint64_t i = unit_random(&state) % 24; i > 0; i--) {
      strcat(text, attrs[unit_random(&state) % (sizeof(attrs) / sizeof(attrs[0]))]);
      strcat(text, " ");
    }
    const char *given = unit_random(&state) % 2 ? "f32[a=2]" : NULL;
    ptc_op_t *op = maker_op(module, opcode, operands, text, given, -1);
    op->num_carry = (int32_t)(unit_random(&state) % 5) - 1;
    op->num_each = (int32_t)(unit_random(&state) % 5) - 1;
    const ptc_type_t *results[16] = {0};
    ptc_status_t status = info->shape(module, op, results);
    valid += status == PTC_OK;
    bool consistent = (status == PTC_OK) == (diag.num_errors == 0);
    for (int32_t i = 0; status == PTC_OK && i < op->num_results; i++)
      consistent = consistent && results[i] && ptc_type_num_bytes(results[i]) >= 0;
    UNIT_CHECK(consistent, info->mnemonic);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
  // The generator must get past the general checks now and then.
  CU_ASSERT(valid > 500);
}

static const unit_test_t tests[] = {
    {"violated constraints", test_bad},
    {"inferred types", test_good},
    {"attention_grad", test_attention_grad},
    {"repeat", test_repeat},
    {"every label is provoked", test_every_label},
    {"random ops", test_random_ops},
};

int main(void) {
  ptc_interner_init(&interner, &arena);
  int status = unit_main("shape", tests, (int)(sizeof(tests) / sizeof(tests[0])));
  ptc_map_deinit(&listed);
  ptc_map_deinit(&provoked);
  ptc_interner_deinit(&interner);
  ptc_arena_deinit(&arena);
  return status;
}
