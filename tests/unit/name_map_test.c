// Proves: the maps of samples/maps give every parameter of their sample, element by element where the other
// program has it, and back again to the same file; every form of a line does what it says; wrong lines, shapes
// and incomplete files are told.
#include "runtime/name_map.h"

#include <stdlib.h>
#include <unistd.h>

#include "frontend/driver/compile.h"
#include "tests/support/unit.h"

static char folder[32];
static char path[64], other[64];

static void test_set_up(void) {
  unit_make_folder(folder);
  snprintf(path, sizeof(path), "%s/a", folder);
  snprintf(other, sizeof(other), "%s/b", folder);
}

static void test_clean_up(void) {
  unlink(path);
  unlink(other);
  CU_ASSERT_EQUAL(rmdir(folder), 0);
}

// --- the parameters of a sample as host tensors

typedef struct model_s {
  ptc_arena_t arena;
  ptc_host_tensor_t tensors[128];
  int64_t count;
} model_t;

static float *zeros(model_t *m, int64_t count) { return PTC_ARENA_ARRAY(&m->arena, float, count); }

static void add_instances(model_t *m, const ptc_global_t *global) {
  const ptc_type_t *type = global->type;
  int64_t instances = ptc_type_num_instances(type), count = ptc_type_num_elements(type);
  const char **dims = PTC_ARENA_ARRAY(&m->arena, const char *, type->num_dims);
  for (int32_t d = 0; d < type->num_dims; d++)
    dims[d] = ptc_arena_strdup(&m->arena, type->dims[d].name);
  for (int64_t r = 0; r < instances; r++) {
    ptc_str_t name = {0};
    ptc_global_instance_path(global, &r, &name);
    CU_ASSERT_FATAL(m->count < 128);
    ptc_host_tensor_t *tensor = &m->tensors[m->count++];
    *tensor = (ptc_host_tensor_t){.name = ptc_arena_strdup(&m->arena, name.data),
                                  .dtype = PTC_F32,
                                  .num_dims = type->num_dims,
                                  .dim_names = dims,
                                  .data = zeros(m, count)};
    for (int32_t d = 0; d < type->num_dims; d++) tensor->shape[d] = type->dims[d].extent;
    ptc_str_deinit(&name);
  }
}

static model_t *load_sample(const char *name, const ptc_override_t *sets, int32_t num_sets) {
  char file[256];
  snprintf(file, sizeof(file), "%s/samples/%s", PTC_SOURCE_DIR, name);
  const char *files[] = {file};
  ptc_lower_options_t options = {.overrides = sets, .num_overrides = num_sets};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module;
  CU_ASSERT_EQUAL_FATAL(ptc_compile_files(&diag, files, 1, &options, &module), PTC_OK);
  model_t *m = calloc(1, sizeof(*m));
  for (int64_t g = 0; g < module->num_globals; g++)
    if (module->globals[g]->kind == PTC_GLOBAL_PARAM) add_instances(m, module->globals[g]);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return m;
}

static void drop(model_t *m) {
  ptc_arena_deinit(&m->arena);
  free(m);
}

static const float *values(const model_t *m, const char *name) {
  for (int64_t i = 0; i < m->count; i++)
    if (strcmp(m->tensors[i].name, name) == 0) return m->tensors[i].data;
  CU_FAIL("no such parameter");
  static const float none[4096];
  return none;
}

// --- a file of another program: element e of tensor t is 1000 t + e

typedef struct their_s {
  const char *name;
  int32_t num_dims;
  int64_t shape[3];
} their_t;

static void write_theirs(const their_t *rows, int64_t count, const char *prefix) {
  model_t m = {.count = count};
  for (int64_t t = 0; t < count; t++) {
    ptc_host_tensor_t *tensor = &m.tensors[t];
    *tensor = (ptc_host_tensor_t){.name = ptc_arena_printf(&m.arena, "%s%s", prefix, rows[t].name),
                                  .dtype = PTC_F32,
                                  .num_dims = rows[t].num_dims};
    memcpy(tensor->shape, rows[t].shape, sizeof(rows[t].shape));
    int64_t n = ptc_host_tensor_num_elements(tensor);
    float *data = zeros(&m, n);
    for (int64_t e = 0; e < n; e++) data[e] = (float)(1000 * t + e);
    tensor->data = data;
  }
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_save(&diag, path, m.tensors, count), PTC_OK);
  ptc_diag_deinit(&diag);
  ptc_arena_deinit(&m.arena);
}

static float at(const their_t *rows, int64_t count, const char *name, int64_t element) {
  for (int64_t t = 0; t < count; t++)
    if (strcmp(rows[t].name, name) == 0) return (float)(1000 * t + element);
  CU_FAIL("no such tensor");
  return -1;
}

static ptc_name_map_t *read_sample_map(ptc_diag_t *diag, const char *name) {
  char file[256];
  snprintf(file, sizeof(file), "%s/samples/maps/%s", PTC_SOURCE_DIR, name);
  ptc_name_map_t *map;
  CU_ASSERT_EQUAL_FATAL(ptc_name_map_read(diag, file, &map), PTC_OK);
  return map;
}

// Exports |m|, and compares with the file at |path|, tensor by tensor, by bytes.
static void check_export(ptc_diag_t *diag, const ptc_name_map_t *map, const model_t *m,
                         const their_t *rows, int64_t count) {
  CU_ASSERT_EQUAL_FATAL(ptc_name_map_export(diag, map, m->tensors, m->count, PTC_NUM_DTYPES, other),
                        PTC_OK);
  ptc_safetensors_t file;
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(diag, other, &file), PTC_OK);
  CU_ASSERT_EQUAL(file.count, count);
  for (int64_t t = 0; t < count; t++) {
    const ptc_tensor_entry_t *entry = ptc_safetensors_find(&file, rows[t].name);
    UNIT_CHECK(entry && entry->cell == PTC_CELL_F32 && entry->num_dims == rows[t].num_dims,
               rows[t].name);
    bool ok = entry != NULL;
    for (int32_t d = 0; ok && d < rows[t].num_dims; d++) ok = entry->shape[d] == rows[t].shape[d];
    for (int64_t e = 0; ok && e < entry->num_elements; e++)
      ok = ptc_cell_get(entry->cell, entry->data + 4 * e) == (double)(1000 * t + e);
    UNIT_CHECK(ok, rows[t].name);
  }
  ptc_safetensors_close(&file);
}

// --- the maps of samples

static void test_gpt2(void) {
  static const ptc_override_t sets[] = {
      {"layers", "2"}, {"d", "8"}, {"heads", "2"}, {"seq", "5"}, {"vocab", "11"}};
  static const their_t rows[] = {
      {"wte.weight", 2, {11, 8}},
      {"wpe.weight", 2, {5, 8}},
#define LAYER(i)                                                                         \
  {"h." i ".ln_1.weight", 1, {8}}, {"h." i ".ln_1.bias", 1, {8}},                        \
      {"h." i ".attn.c_attn.weight", 2, {8, 24}}, {"h." i ".attn.c_attn.bias", 1, {24}}, \
      {"h." i ".attn.c_proj.weight", 2, {8, 8}}, {"h." i ".attn.c_proj.bias", 1, {8}},   \
      {"h." i ".ln_2.weight", 1, {8}}, {"h." i ".ln_2.bias", 1, {8}},                    \
      {"h." i ".mlp.c_fc.weight", 2, {8, 32}}, {"h." i ".mlp.c_fc.bias", 1, {32}},       \
      {"h." i ".mlp.c_proj.weight", 2, {32, 8}}, {                                       \
    "h." i ".mlp.c_proj.bias", 1, { 8 }                                                  \
  }
      LAYER("0"),
      LAYER("1"),
#undef LAYER
      {"ln_f.weight", 1, {8}},
      {"ln_f.bias", 1, {8}},
      {"h.0.attn.bias", 3, {1, 5, 5}},  // not exported
  };
  enum { ALL = sizeof(rows) / sizeof(rows[0]), EXPORTED = ALL - 1 };
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_name_map_t *map = read_sample_map(&diag, "gpt2_hf.map");
  for (int turn = 0; turn < 2; turn++) {  // without and with the prefix
    model_t *m = load_sample("gpt2.ptm", sets, 5);
    write_theirs(rows, ALL, turn ? "transformer." : "");
    ptc_safetensors_t file;
    CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(&diag, path, &file), PTC_OK);
    CU_ASSERT_EQUAL(ptc_name_map_import(&diag, map, &file, 1, m->tensors, m->count), PTC_OK);
    ptc_safetensors_close(&file);
    CU_ASSERT_EQUAL(diag.num_items, 0);
    const float *wq = values(m, "block.1.attn.wq"), *wk = values(m, "block.1.attn.wk");
    const float *bv = values(m, "block.0.attn.bv"), *wo = values(m, "block.0.attn.wo");
    for (int d = 0; d < 8; d++)
      for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++) {
          const int in = 24 * d + 4 * h + k;
          CU_ASSERT_EQUAL(wq[8 * d + 4 * h + k], at(rows, ALL, "h.1.attn.c_attn.weight", in));
          CU_ASSERT_EQUAL(wk[8 * d + 4 * h + k], at(rows, ALL, "h.1.attn.c_attn.weight", in + 8));
          CU_ASSERT_EQUAL(bv[4 * h + k], at(rows, ALL, "h.0.attn.c_attn.bias", 16 + 4 * h + k));
          CU_ASSERT_EQUAL(wo[32 * h + 8 * k + d],
                          at(rows, ALL, "h.0.attn.c_proj.weight", 8 * (4 * h + k) + d));
        }
    check_export(&diag, map, m, rows, EXPORTED);
    drop(m);
  }
  ptc_name_map_destroy(map);
  ptc_diag_deinit(&diag);
}

static void test_llama(void) {
  static const ptc_override_t sets[] = {{"layers", "1"},   {"d", "12"},   {"heads", "6"},
                                        {"kv_heads", "3"}, {"ffn", "10"}, {"seq", "5"},
                                        {"vocab", "7"}};
  static const their_t rows[] = {{"model.embed_tokens.weight", 2, {7, 12}},
                                 {"lm_head.weight", 2, {7, 12}},
                                 {"model.layers.0.input_layernorm.weight", 1, {12}},
                                 {"model.layers.0.self_attn.q_proj.weight", 2, {12, 12}},
                                 {"model.layers.0.self_attn.k_proj.weight", 2, {6, 12}},
                                 {"model.layers.0.self_attn.v_proj.weight", 2, {6, 12}},
                                 {"model.layers.0.self_attn.o_proj.weight", 2, {12, 12}},
                                 {"model.layers.0.post_attention_layernorm.weight", 1, {12}},
                                 {"model.layers.0.mlp.gate_proj.weight", 2, {10, 12}},
                                 {"model.layers.0.mlp.up_proj.weight", 2, {10, 12}},
                                 {"model.layers.0.mlp.down_proj.weight", 2, {12, 10}},
                                 {"model.norm.weight", 1, {12}}};
  enum { ALL = sizeof(rows) / sizeof(rows[0]) };
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_name_map_t *map = read_sample_map(&diag, "llama3_hf.map");
  model_t *m = load_sample("llama3.ptm", sets, 7);
  write_theirs(rows, ALL, "");
  ptc_safetensors_t file;
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(&diag, path, &file), PTC_OK);
  CU_ASSERT_EQUAL(ptc_name_map_import(&diag, map, &file, 1, m->tensors, m->count), PTC_OK);
  ptc_safetensors_close(&file);
  CU_ASSERT_EQUAL(diag.num_items, 0);
  // d = 12, n = 3, g = 2, k = 2: their row is head (n * 2 + g) * 2 + k.
  const float *wq = values(m, "attn.0.wq"), *wo = values(m, "attn.0.wo"), *head = values(m, "head");
  for (int d = 0; d < 12; d++)
    for (int row = 0; row < 12; row++) {
      CU_ASSERT_EQUAL(wq[12 * d + row],
                      at(rows, ALL, "model.layers.0.self_attn.q_proj.weight", 12 * row + d));
      CU_ASSERT_EQUAL(wo[12 * row + d],
                      at(rows, ALL, "model.layers.0.self_attn.o_proj.weight", 12 * d + row));
      if (row < 7)
        CU_ASSERT_EQUAL(head[7 * d + row], at(rows, ALL, "lm_head.weight", 12 * row + d));
    }
  check_export(&diag, map, m, rows, ALL);
  drop(m);
  ptc_name_map_destroy(map);
  ptc_diag_deinit(&diag);
}

// --- forms of lines: their file, our tensors, and what ours get

static const char *const dim_names[] = {"x", "y", "z"};

static ptc_host_tensor_t ours_of(model_t *m, const char *name, int32_t num_dims, int64_t x,
                                 int64_t y, int64_t z) {
  ptc_host_tensor_t tensor = {.name = name,
                              .dtype = PTC_F32,
                              .num_dims = num_dims,
                              .shape = {x, y, z},
                              .dim_names = dim_names};
  tensor.data = zeros(m, ptc_host_tensor_num_elements(&tensor));
  m->tensors[m->count++] = tensor;
  return tensor;
}

static ptc_status_t import_text(ptc_diag_t *diag, const char *text, const model_t *m,
                                ptc_name_map_t **out_map) {
  CU_ASSERT_EQUAL_FATAL(ptc_name_map_parse(diag, "a.map", text, strlen(text), out_map), PTC_OK);
  ptc_safetensors_t file;
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(diag, path, &file), PTC_OK);
  ptc_status_t status = ptc_name_map_import(diag, *out_map, &file, 1, m->tensors, m->count);
  ptc_safetensors_close(&file);
  return status;
}

static void test_forms(void) {
  static const struct {
    const char *map;
    their_t theirs[3];
    int64_t num_theirs;
    const char *ours;
    int32_t num_dims;
    int64_t shape[3];
    float values[6];  // the first of ours
  } rows[] = {
      {"a = t", {{"a", 2, {2, 3}}}, 1, "t", 2, {2, 3}, {0, 1, 2, 3, 4, 5}},
      {"a = t : y, x", {{"a", 2, {3, 2}}}, 1, "t", 2, {2, 3}, {0, 2, 4, 1, 3, 5}},
      {"a = t : y x", {{"a", 1, {6}}}, 1, "t", 2, {2, 3}, {0, 2, 4, 1, 3, 5}},
      {"a = t : z, x, y", {{"a", 3, {2, 1, 3}}}, 1, "t", 3, {1, 3, 2}, {0, 3, 1, 4, 2, 5}},
      {"a[1:3] = t", {{"a", 1, {3}}}, 1, "t", 1, {2}, {1, 2}},
      {"a[:, 1] = t", {{"a", 2, {3, 2}}}, 1, "t", 1, {3}, {1, 3, 5}},
      // Ours is put together from theirs, by number and by range.
      {"a.{e} = t[{e}]",
       {{"a.0", 1, {3}}, {"a.1", 1, {3}}},
       2,
       "t",
       2,
       {2, 3},
       {0, 1, 2, 1000, 1001, 1002}},
      {"a = t[:, 0:1]\nb = t[:, 1:3]",
       {{"a", 2, {2, 1}}, {"b", 2, {2, 2}}},
       2,
       "t",
       2,
       {2, 3},
       {0, 1000, 1001, 1, 1002, 1003}},
      {"a = t[1/2]\nb = t[0/2]",
       {{"a", 1, {2}}, {"b", 1, {2}}},
       2,
       "t",
       1,
       {4},
       {1000, 1001, 0, 1}},
      // Theirs is a stack of ours.
      {"a[{i}] = t.{i}", {{"a", 2, {1, 4}}}, 1, "t.0", 1, {4}, {0, 1, 2, 3}},
      // Rotary halves from pairs: k = (p j) here, (j p) there.
      {"a = t : x j p where y = p:2 j", {{"a", 1, {12}}}, 1, "t", 2, {2, 6}, {0, 2, 4, 1, 3, 5}},
      {"a = t : j p, x where y = p j:3", {{"a", 2, {6, 1}}}, 1, "t", 2, {1, 6}, {0, 2, 4, 1, 3, 5}},
      {"  # nothing\n\n a=t:x,y# both \r\n",
       {{"a", 2, {2, 3}}},
       1,
       "t",
       2,
       {2, 3},
       {0, 1, 2, 3, 4, 5}},
      {"ignore b\noptional-prefix p.\na = t\n",
       {{"p.a", 1, {2}}, {"p.b", 1, {9}}},
       2,
       "t",
       1,
       {2},
       {0, 1}},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    model_t m = {.count = 0};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    write_theirs(rows[i].theirs, rows[i].num_theirs, "");
    ptc_host_tensor_t ours = ours_of(&m, rows[i].ours, rows[i].num_dims, rows[i].shape[0],
                                     rows[i].shape[1], rows[i].shape[2]);
    ptc_name_map_t *map;
    UNIT_CHECK(import_text(&diag, rows[i].map, &m, &map) == PTC_OK, rows[i].map);
    UNIT_CHECK(diag.num_items == 0, rows[i].map);
    int64_t n = ptc_host_tensor_num_elements(&ours);
    for (int64_t e = 0; e < n && e < 6; e++)
      UNIT_CHECK(((float *)ours.data)[e] == rows[i].values[e], rows[i].map);
    // And back: what was read is written (parts of theirs that no line names do not come back).
    if (!strpbrk(rows[i].map, "[#"))
      if (!strstr(rows[i].map, "ignore"))
        check_export(&diag, map, &m, rows[i].theirs, rows[i].num_theirs);
    ptc_name_map_destroy(map);
    ptc_diag_deinit(&diag);
    ptc_arena_deinit(&m.arena);
  }
}

// Random permutations, groupings and parts: there and back gives the same bits, dtypes being changed on the way.
static void test_random(void) {
  uint64_t random = unit_seed();
  for (int i = 0; i < 200; i++) {
    model_t m = {.count = 0}, back = {.count = 0};
    int64_t shape[3];
    for (int d = 0; d < 3; d++) shape[d] = 2 * (int64_t)(unit_random(&random) % 4) + 2;
    ptc_host_tensor_t a = ours_of(&m, "a", 3, shape[0], shape[1], shape[2]);
    ptc_host_tensor_t b = ours_of(&back, "a", 3, shape[0], shape[1], shape[2]);
    int64_t n = ptc_host_tensor_num_elements(&a);
    for (int64_t e = 0; e < n; e++) ((float *)a.data)[e] = (float)(unit_random(&random) % 200);
    static const char *const orders[] = {"x, y, z", "z y, x",  "y, z x",
                                         "x z, y",  "z, y, x", "y x z"};
    const char *order = orders[unit_random(&random) % 6];
    char text[256];
    switch (unit_random(&random) % 3) {
      case 0: snprintf(text, sizeof(text), "t = a : %s", order); break;
      case 1:
        snprintf(text, sizeof(text), "t = a[:, 0/2] : %s\nu = a[:, 1/2] : %s", order, order);
        break;
      default: snprintf(text, sizeof(text), "t.{n} = a[{n}] : %s\n", i % 2 ? "z y" : "z, y"); break;
    }
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_name_map_t *map;
    CU_ASSERT_EQUAL_FATAL(ptc_name_map_parse(&diag, "a.map", text, strlen(text), &map), PTC_OK);
    const ptc_dtype_t dtype = i % 3 ? PTC_NUM_DTYPES : PTC_BF16;  // which holds such numbers
    UNIT_CHECK(ptc_name_map_export(&diag, map, m.tensors, 1, dtype, path) == PTC_OK, text);
    ptc_safetensors_t file;
    CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(&diag, path, &file), PTC_OK);
    CU_ASSERT_EQUAL(file.entries[0].cell, i % 3 ? PTC_CELL_F32 : PTC_CELL_BF16);
    UNIT_CHECK(ptc_name_map_import(&diag, map, &file, 1, back.tensors, 1) == PTC_OK, text);
    UNIT_CHECK(memcmp(a.data, b.data, (size_t)n * 4) == 0, text);
    ptc_safetensors_close(&file);
    ptc_name_map_destroy(map);
    ptc_diag_deinit(&diag);
    ptc_arena_deinit(&m.arena);
    ptc_arena_deinit(&back.arena);
  }
}

// Without a map names and shapes are ours.
static void test_no_map(void) {
  model_t m = {.count = 0};
  static const their_t rows[] = {{"t", 2, {2, 3}}, {"u", 1, {4}}, {"more", 1, {1}}};
  write_theirs(rows, 3, "");
  ptc_host_tensor_t t = ours_of(&m, "t", 2, 2, 3, 0);
  ours_of(&m, "u", 1, 4, 0, 0);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_safetensors_t file;
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(&diag, path, &file), PTC_OK);
  CU_ASSERT_EQUAL(ptc_name_map_import(&diag, NULL, &file, 1, m.tensors, 2), PTC_OK);
  CU_ASSERT_EQUAL(((float *)t.data)[5], 5);
  CU_ASSERT_EQUAL(diag.num_items, 1);
  CU_ASSERT(diag.items[0].severity == PTC_WARNING && !strcmp(diag.items[0].id, "map-unused"));
  ptc_safetensors_close(&file);
  check_export(&diag, NULL, &m, rows, 2);
  ptc_diag_deinit(&diag);
  ptc_arena_deinit(&m.arena);
}

// --- mistakes

static void test_syntax(void) {
  static const struct {
    const char *line;
    int32_t column;
  } rows[] = {
      {"a", 2},
      {"= b", 1},
      {"a = ", 5},
      {"a b = c", 3},
      {"a = b c", 7},
      {"a[ = b", 4},
      {"a[:", 4},
      {"a[:] b", 6},
      {"a[1/1] = b", 6},
      {"a[3/2] = b", 6},
      {"a[1/] = b", 5},
      {"a[2:2] = b", 6},
      {"a[-1] = b", 3},
      {"a{i} = b", 9},
      {"a = b{i}", 9},
      {"a{ = b", 4},
      {"a{} = b", 3},
      {"a{i}{j} = b{i}{j}", 5},
      {"a = b :", 8},
      {"a = b : x,", 11},
      {"a = b : x where", 16},
      {"a = b : x where y", 18},
      {"a = b : x where y = p", 22},
      {"a = b : x where y = p:2 q:3", 28},
      {"a = b : x where y = p q", 24},
      {"a[99999999999999999999] = b", 21},
      {"a[:,:,:,:,:,:,:,:,:,:,:,:,:,:,:,:,:] = b", 35},
      {"a{a}.{b}.{c}.{d}.{e}.{f}.{g}.{h}.{i} = b", 34},
      {"a\xff = b", 2},
      {"ignore", 7},
      {"ignore a b", 10},
      {"optional-prefix", 16},
      {"optional-prefix a{i}", 21},
      {"optional-prefix a b", 19},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_name_map_t *map;
    char text[128];
    snprintf(text, sizeof(text), "# first\n%s\n", rows[i].line);
    UNIT_CHECK(ptc_name_map_parse(&diag, "a.map", text, strlen(text), &map) == PTC_INVALID_INPUT,
               rows[i].line);
    UNIT_CHECK(map == NULL && diag.num_errors == 1, rows[i].line);
    if (diag.num_items) {
      UNIT_CHECK(strcmp(diag.items[0].id, "map-syntax") == 0, rows[i].line);
      if (diag.items[0].loc.line != 2 || diag.items[0].loc.column != rows[i].column) {
        char said[192];
        snprintf(said, sizeof(said), "%s: column %d: %s", rows[i].line, diag.items[0].loc.column,
                 diag.items[0].message);
        UNIT_CHECK(false, said);
      }
    }
    ptc_name_map_destroy(map);
    ptc_diag_deinit(&diag);
  }
}

// The lines that the documentation shows.
static void test_readme(void) {
  char *text;
  size_t len;
  CU_ASSERT_EQUAL_FATAL(ptc_read_file(PTC_SOURCE_DIR "/runtime/README.md", &text, &len), PTC_OK);
  const char *first = strstr(text, "optional-prefix"), *end = first ? strstr(first, "```") : NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(end);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_name_map_t *map;
  CU_ASSERT_EQUAL(ptc_name_map_parse(&diag, "README.md", first, (size_t)(end - first), &map),
                  PTC_OK);
  ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  ptc_name_map_destroy(map);
  ptc_diag_deinit(&diag);
  free(text);
}

static void test_unfit(void) {
  static const their_t theirs[] = {{"a", 2, {2, 3}}, {"b", 1, {6}}, {"c", 3, {2, 3, 4}}};
  static const struct {
    const char *map, *id;
  } rows[] = {
      {"a = t : y, x", "map-shape"},
      {"b = t", "map-shape"},
      {"c = t", "map-shape"},
      {"c[:, :, 4] = t", "map-shape"},
      {"c[:, :, 0/3] = t", "map-dims"},
      {"a[:, 0/2] = t", "map-shape"},
      {"c[:, :, 0:5] = t", "map-dims"},
      {"c[0] = t", "map-shape"},
      {"d = t", "map-missing"},
      {"a = u", "map-missing"},
      {"ignore a", "map-missing"},
      {"a = t : x", "map-dims"},
      {"a = t : x, x", "map-dims"},
      {"a = t : x, y, q", "map-dims"},
      {"a = t[:,:,:]", "map-dims"},
      {"a = t[5, :]", "map-dims"},
      {"a = t[0/4, :]", "map-dims"},
      {"a = t[0:3, :]", "map-dims"},
      {"a[0] = t[0]", "map-parts"},
      {"a[0] = t[0]\na[1] = t[0]", "map-parts"},
      {"a = t\nb = t : x y", "map-parts"},
      {"a = t : x, y where q = i:2 j", "map-dims"},
      {"a = t : x, i j where y = i:2 j", "map-dims"},
      {"a = t : 0, 1", "map-dims"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    model_t m = {.count = 0};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    write_theirs(theirs, 3, "");
    ours_of(&m, "t", 2, 2, 3, 0);
    ptc_name_map_t *map;
    UNIT_CHECK(import_text(&diag, rows[i].map, &m, &map) == PTC_INVALID_INPUT, rows[i].map);
    UNIT_CHECK(diag.num_errors >= 1 && strcmp(diag.items[0].id, rows[i].id) == 0, rows[i].map);
    ptc_name_map_destroy(map);
    ptc_diag_deinit(&diag);
    ptc_arena_deinit(&m.arena);
  }
}

// Lines that do not make up a whole file, and a file that cannot be written.
static void test_unfit_export(void) {
  static const struct {
    const char *map, *id, *path;
  } rows[] = {
      {"a[0/2] = t", "map-parts", NULL},
      {"a[0/2] = t\na[0:2] = w", "map-parts", NULL},
      {"a[1, :, :] = t", "map-parts", NULL},
      {"a = t\na = u", "map-shape", NULL},
      {"a[:, 0:3] = t\na[:, 3:9] = u", "map-shape", NULL},
      {"a = t\nb = u", "write-file", "/nonexistent/file"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    model_t m = {.count = 0};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ours_of(&m, "t", 2, 2, 3, 0);
    if (strchr(rows[i].map, 'u')) ours_of(&m, "u", 2, 3, 6, 0);
    if (strchr(rows[i].map, 'w')) ours_of(&m, "w", 2, 2, 3, 0);
    ptc_name_map_t *map;
    CU_ASSERT_EQUAL_FATAL(
        ptc_name_map_parse(&diag, "a.map", rows[i].map, strlen(rows[i].map), &map), PTC_OK);
    UNIT_CHECK(ptc_name_map_export(&diag, map, m.tensors, m.count, PTC_NUM_DTYPES,
                                   rows[i].path ? rows[i].path : other) != PTC_OK,
               rows[i].map);
    UNIT_CHECK(diag.num_errors == 1 && strcmp(diag.items[0].id, rows[i].id) == 0, rows[i].map);
    ptc_name_map_destroy(map);
    ptc_diag_deinit(&diag);
    ptc_arena_deinit(&m.arena);
  }
}

static const unit_test_t tests[] = {
    {"set up", test_set_up},     {"gpt2", test_gpt2},
    {"llama", test_llama},       {"forms", test_forms},
    {"random", test_random},     {"no map", test_no_map},
    {"syntax", test_syntax},     {"readme", test_readme},
    {"unfit", test_unfit},       {"unfit export", test_unfit_export},
    {"clean up", test_clean_up},
};
UNIT_MAIN("name_map", tests)
