// Proves: a module that is printed and read back is the same module, whatever its names, types,
// attributes and nesting; printing is canonical; hostile texts meet limits.
#include "ir/text.h"

#include <math.h>
#include <stdlib.h>

#include "frontend/driver/compile.h"
#include "ir/builder.h"
#include "ir/verify.h"
#include "tests/support/ir_equal.h"
#include "tests/support/unit.h"

// Prints |module|, reads it back, and compares both the modules and a second print.
static void check_round_trip(ptc_module_t *module, bool with_locations, const char *row) {
  ptc_str_t first = {0}, second = {0};
  ptc_module_print(module, with_locations, &first);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *again = NULL;
  ptc_status_t status = ptc_module_parse(&diag, "again.ptir", first.data, first.len, &again);
  UNIT_CHECK(status == PTC_OK, row);
  if (status != PTC_OK) {
    ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  } else {
    const char *difference = ir_difference(module, again, with_locations);
    if (difference) printf("\n%s: %s differs in\n%s\n", row, difference, first.data);
    UNIT_CHECK(!difference, row);
    ptc_module_print(again, with_locations, &second);
    UNIT_CHECK(strcmp(first.data, second.data) == 0, row);
  }
  ptc_module_destroy(again);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&first);
  ptc_str_deinit(&second);
}

// --- texts

static const struct {
  const char *name, *text;
} texts[] = {
    {"nothing", "module \"\"\n"},
    {"names with escapes",
     "module \"a\\\"b\\\\c\\n\\t\\x01\\xff'\"\nconfig {'odd key' = 1, s = \"\\x7f\"}\n"},
    {"empty function", "module \"m\"\nfunc @f() {\n}\n"},
    {"function of an odd name", "module \"m\"\nfunc @\"f g\"() {\n  return\n}\n"},
    {"kinds of attributes",
     "module \"m\"\nconfig {a = 1, b = 1.0, c = true, d = \"s\", e = dim, f = [x, 'y z'], g = [1, "
     "-2],\n"
     "  h = [1.5, -inf], i = ints[], j = floats[], k = [], l = 'true', m = "
     "-9223372036854775808}\n"},
    {"floats",
     "module \"m\"\nconfig {a = inf, b = -inf, c = nan, d = -0.0, e = 1e300, f = 5e-324,\n"
     "  g = 0.1, h = nan:0xfff8000000000000, i = nan:0x7ff8000000000001, j = "
     "100000000000000000000}\n"},
    {"types",
     "module \"m\"\nmesh [\"tp\"=8, \"cp\"=2]\n"
     "input @a : bf16[x=8 \"tp\":1:2 \"cp\", zigzag=64 \"tp\":2:4 zigzag, 'a-b'=0]\n"
     "param @\"l.*.*.w\" turns (1:2, 0:3) : 2 x 3 x f16[partial=4]\n"
     "func @f(%a = @a) {\n  %0 = cast %a {to = \"f32\"} remat\n"
     "  %1 = reduce_sum %0 {over = [x, zigzag]} : f32['a-b'=0] partial \"tp\":1:2 \"cp\" "
     "\"tp\":2:4 remat\n"
     "  %2 = reduce_max %0 {over = [x]} : f32[zigzag=64 \"tp\":2:4 zigzag, 'a-b'=0] partial max "
     "\"tp\":1:2 \"cp\"\n"
     "  return\n}\n"},
    {"bundles and nested repeats",
     "module \"m\"\nparam @\"l.*.*.w\" turns (0:1, 0:1) : 2 x 3 x f32[d=4]\ninput @x : f32[d=4]\n"
     "func @f(%w = @\"l.*.*.w\" (0:1, 0:1), %x = @x) {\n"
     "  %y, %ys = repeat {count = 2} index %i carry(%c = %x) each(%v = %w) {\n"
     "    %z = repeat {count = 3, reverse = true} index %i.1 carry(%c.1 = %c) each(%v.1 = %v) {\n"
     "      %0 = mul %c.1, %v.1\n      %1 = mul %0, %x\n      yield carry(%1)\n    }\n"
     "    yield carry(%z) collect(%v)\n  }\n"
     "  repeat {count = 1} index %5 {\n    yield\n  }\n"
     "  return output \"y\" = %y, value \"ys\" = %ys\n}\n"},
    {"runs of one path",
     "module \"m\"\nparam @\"l.*.w\" turns (0:2) : 3 x f32[]\nparam @\"l.*.w\" turns (1:2) : 3 x "
     "f32[]\n"
     "func @f(%a = @\"l.*.w\" (1:2), %b = @\"l.*.w\" (0:2)) {\n"
     "  return state @\"l.*.w\" (0:2) = %b, grad @\"l.*.w\" (1:2) = %a\n}\n"},
    {"values of one hint",
     "module \"m\"\ninput @x : f32[]\nfunc @f(%x = @x) {\n  %x.1 = neg %x\n  %x.7 = neg %x.1\n"
     "  %x.y = neg %x.7\n  %\"x.1\" = exp %x.y\n  %\"x.1\".1 = exp %\"x.1\"\n  %\"\" = exp %x\n"
     "  %\"1\" = exp %x\n  %\"a\\\"b\" = exp %\"1\"\n  %12 = exp %\"a\\\"b\"\n  return\n}\n"},
    {"locations",
     "module \"m\"\ninput @x : f32[] loc(\"a b.ptm\":1:2)\ninput @y : f32[] loc(none)\n"
     "func @f(%x = @x) loc(\"f\":0:0) {\n  %0 = neg %x loc(none)\n"
     "  %1 = neg %0 loc(\"\\\"\":2147483647:3)\n  %2 = neg %1\n  return loc(none)\n}\n"},
};

static void test_texts(void) {
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = NULL;
    ptc_module_parse(&diag, "text.ptir", texts[i].text, strlen(texts[i].text), &module);
    UNIT_CHECK(module != NULL, texts[i].name);
    if (module) {
      check_round_trip(module, true, texts[i].name);
      check_round_trip(module, false, texts[i].name);
    } else {
      ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    }
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// What the canonical text looks like, to the byte.
static void test_canonical(void) {
  static const char text[] =
      "module \"m\"\n"
      "mesh [\"tp\"=2]\n"
      "config {batch = 8, lr = 0.0006, optimizer = \"adamw\"}\n"
      "input @x : f32[b=2, d=4 \"tp\"] {range = 4}\n"
      "param @\"l.*.w\" turns (0:1) : 3 x f32[d=4 \"tp\"]\n"
      "\n"
      "func @f(\n"
      "    %x = @x,\n"
      "    %w = @\"l.*.w\" (0:1)) {\n"
      "  %r, %s = repeat {count = 3} index %i carry(%c = %x) each(%v = %w) {\n"
      "    %0 = mul %c, %v : f32[b=2, d=4 \"tp\"]\n"
      "    yield carry(%0) collect(%c)\n"
      "  } : f32[b=2, d=4 \"tp\"], 3 x f32[b=2, d=4 \"tp\"]\n"
      "  %1 = reduce_sum %r {over = [b, d]} : f32[] partial \"tp\" remat\n"
      "  return\n"
      "    output \"r\" = %r\n"
      "}\n";
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module;
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(&diag, "t", text, sizeof(text) - 1, &module), PTC_OK);
  ptc_str_t printed = {0};
  ptc_module_print(module, false, &printed);
  CU_ASSERT_STRING_EQUAL(printed.data, text);
  ptc_str_deinit(&printed);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// Every prefix of the text, and the text with a byte changed, is read without a crash; what is
// accepted round-trips.
static void test_mutations(void) {
  uint64_t state = unit_seed();
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
    size_t len = strlen(texts[i].text);
    for (int round = 0; round < 400; round++) {
      char *text = malloc(len + 1);
      CU_ASSERT_PTR_NOT_NULL_FATAL(text);
      memcpy(text, texts[i].text, len + 1);
      size_t cut = round % 2 ? len : unit_random(&state) % (len + 1);
      if (cut && round % 2) text[unit_random(&state) % cut] = (char)(unit_random(&state) % 256);
      ptc_diag_t diag;
      ptc_diag_init(&diag);
      ptc_module_t *module;
      ptc_status_t status = ptc_module_parse(&diag, "mutant", text, cut, &module);
      UNIT_CHECK((status == PTC_OK) == (module != NULL), texts[i].name);
      UNIT_CHECK((status == PTC_OK) == (diag.num_errors == 0), texts[i].name);
      if (module) check_round_trip(module, true, texts[i].name);
      ptc_module_destroy(module);
      ptc_diag_deinit(&diag);
      free(text);
    }
  }
}

static void test_samples(void) {
  static const char *const samples[] = {"bert",    "deepseek_v2", "gemma2",        "gpt2",
                                        "gptj",    "llama3",      "llama3_packed", "mamba2",
                                        "mixtral", "two_branch"};
  for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
    char path[512];
    snprintf(path, sizeof(path), "%s/samples/%s.ptm", PTC_SOURCE_DIR, samples[i]);
    const char *files[] = {path};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_lower_options_t options = {0};
    ptc_module_t *module = NULL;
    UNIT_CHECK(ptc_compile_files(&diag, files, 1, &options, &module) == PTC_OK && module,
               samples[i]);
    if (module) {
      UNIT_CHECK(ptc_module_verify(module) == PTC_OK, samples[i]);
      check_round_trip(module, true, samples[i]);
      ptc_pass_ctx_t ctx;
      ptc_pass_ctx_init(&ctx, NULL);
      UNIT_CHECK(ptc_pipeline_train(&ctx, module) == PTC_OK, samples[i]);
      ptc_pass_ctx_deinit(&ctx);
      check_round_trip(module, true, samples[i]);
    }
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// Names that only a program can give.
static void test_built(void) {
  static const char *const hints[] = {"x", "x",   "x.1",        "x.1",  "7",
                                      "",  "a b", "\x01\xff\"", "true", "."};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = ptc_module_create(&diag, "\x80");
  ptc_func_t *func = ptc_module_add_func(module, "f.1", (ptc_loc_t){"s", 1, 2});
  ptc_builder_t b = ptc_builder_at_end(module, func->body);
  for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++) {
    ptc_value_t *value = ptc_build_constant(&b, PTC_F64, (double)i / 3);
    value->name = ptc_module_intern(module, hints[i]);
    ptc_attrs_set_dim(module, &module->config, hints[i], hints[i]);
  }
  ptc_build_constant(&b, PTC_F64, -0.0);
  ptc_build_return(&b, func, NULL, NULL, 0);
  check_round_trip(module, true, "built");
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// A text that asks for more than the limits is refused once, at once.
static void check_limit(const char *start, const char *item, int count, const char *end) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "module \"m\"\ninput @x : f32[]\n");
  ptc_str_append(&text, start);
  for (int i = 0; i < count; i++) ptc_str_printf(&text, item, i);
  ptc_str_append(&text, end);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module;
  UNIT_CHECK(ptc_module_parse(&diag, "limit", text.data, text.len, &module) != PTC_OK, start);
  UNIT_CHECK(diag.num_errors == 1 && strcmp(diag.items[0].id, "ir-limit") == 0, start);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-extra-args"
static void test_limits(void) {
  check_limit("func @f(%x = @x) {\n  %0 = concat %x", ", %%x", 4096, " {dim = d}\n  return\n}\n");
  check_limit("config {a = [", "%d, ", 65537, "0]}\n");
  check_limit("func @f(%x = @x) {\n  %a", ", %%%d", 65536, " = neg %x\n  return\n}\n");
  check_limit("", "func @f%d() {\n  return\n}\n", 1025, "");
  check_limit("func @f(%x = @x) {\n  return output \"o\" = %x", ", output \"%d\" = %%x", 65536,
              "\n}\n");
}
#pragma GCC diagnostic pop

// Endless errors end the reading.
static void test_many_errors(void) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "module \"m\"\nfunc @f() {\n");
  for (int i = 0; i < 100000; i++) ptc_str_append(&text, "  %0 = neg ?\n");
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module;
  CU_ASSERT_NOT_EQUAL(ptc_module_parse(&diag, "many", text.data, text.len, &module), PTC_OK);
  CU_ASSERT(diag.num_errors >= 100 && diag.num_errors < 110);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
}

static const unit_test_t tests[] = {
    {"texts round-trip", test_texts},     {"canonical text", test_canonical},
    {"mutations", test_mutations},        {"samples round-trip", test_samples},
    {"built modules", test_built},        {"limits", test_limits},
    {"endless errors", test_many_errors},
};
UNIT_MAIN("text", tests)
