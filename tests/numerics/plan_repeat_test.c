// Proves: programs of repeats, carried values, bundles, states and micro-batches, lowered to plans and run as
// generated C, do what the interpreter says; the replay finds every byte where it belongs; copies are left
// only where bytes must move.
#include "passes/check_semantics.h"
#include "tests/support/generated.h"
#include "tests/support/pass_runner.h"
#include "tests/support/unit.h"

typedef struct row_s {
  const char *name, *text;
  int32_t copies;  // COPY steps in the text of the plan
} row_t;

static const row_t rows[] = {
    {"forward",
     "module \"t\"\nparam @\"w.*\" turns (0:1) : 5 x f32[a=3]\ninput @c : f32[a=3]\n"
     "func @f(%w = @\"w.*\" (0:1), %c = @c) {\n"
     "  %1, %2 = repeat {count = 5} index %i carry(%x = %c) each(%u = %w) {\n"
     "    %3 = mul %x, %u : f32[a=3]\n    %4 = cast %i {to = \"f32\"} : f32[]\n"
     "    %5 = add %3, %4 : f32[a=3]\n    yield carry(%5) collect(%x)\n"
     "  } : f32[a=3], 5 x f32[a=3]\n  return output \"a\" = %1, output \"b\" = %2\n}\n",
     // The input's bytes are its own; both results leave the chain of turns.
     3},
    {"reverse",
     "module \"t\"\nparam @\"w.*\" turns (0:1) : 5 x f32[a=3]\ninput @c : f32[a=3]\n"
     "func @f(%w = @\"w.*\" (0:1), %c = @c) {\n"
     "  %1, %2 = repeat {count = 5, reverse = true} index %i carry(%x = %c) each(%u = %w) {\n"
     "    %3 = mul %x, %u : f32[a=3]\n    %4 = cast %i {to = \"f32\"} : f32[]\n"
     "    %5 = add %3, %4 : f32[a=3]\n    yield carry(%5) collect(%5)\n"
     "  } : f32[a=3], 5 x f32[a=3]\n  return output \"a\" = %1, output \"b\" = %2\n}\n",
     3},
    {"own argument and a captured value",
     "module \"t\"\ninput @x : f32[a=4]\nfunc @f(%x = @x) {\n  %0 = neg %x : f32[a=4]\n"
     "  %1, %2, %3 = repeat {count = 3} index %i carry(%p = %x, %q = %0) {\n"
     "    yield carry(%p, %x) collect(%0)\n  } : f32[a=4], f32[a=4], 3 x f32[a=4]\n"
     "  return output \"a\" = %1, output \"b\" = %2, output \"c\" = %3\n}\n",
     6},
    {"two values change places",
     "module \"t\"\ninput @x : f32[a=2]\nfunc @f(%x = @x) {\n  %0 = neg %x : f32[a=2]\n"
     "  %1, %2 = repeat {count = 3} index %i carry(%p = %x, %q = %0) {\n"
     "    yield carry(%q, %p)\n  } : f32[a=2], f32[a=2]\n"
     "  return output \"a\" = %1, output \"b\" = %2, output \"x\" = %x\n}\n",
     6},
    {"two values change places in a shared repeat",
     "module \"t\"\nmesh [\"micro\"=4]\ninput @x : f32[b=8]\nfunc @f(%x = @x) {\n"
     "  %z = reduce_sum %x {over = [b]} : f32[]\n  %y = neg %z : f32[]\n"
     "  %1, %2, %3 = repeat {count = 4, axis = \"micro\"} index %i carry(%p = %z, %q = %y) {\n"
     "    %s = shard %x {dim = b, axis = \"micro\"} : f32[b=8 \"micro\"]\n"
     "    %t = mul %s, %p : f32[b=8 \"micro\"]\n    %r = add %q, %p : f32[]\n"
     "    yield carry(%q, %p) collect(%t)\n"
     "  } : f32[], f32[], 4 x f32[b=8 \"micro\"]\n"
     "  %w = unshard %3 {dim = b, axis = \"micro\"} : f32[b=8]\n"
     "  return output \"a\" = %1, output \"b\" = %2, output \"w\" = %w\n}\n",
     -1},
    {"a repeat of too many turns",
     "module \"t\"\ninput @x : f32[a=2]\nfunc @f(%x = @x) {\n"
     "  %1, %2 = repeat {count = 13000} index %i carry(%p = %x) {\n"
     "    %3 = mul %p, %p : f32[a=2]\n    %4 = softmax %3 {over = [a]} : f32[a=2]\n"
     "    %5 = add %4, %p : f32[a=2]\n    %6 = softmax %5 {over = [a]} : f32[a=2]\n"
     "    yield carry(%6) collect(%4)\n  } : f32[a=2], 13000 x f32[a=2]\n"
     "  return output \"a\" = %1, output \"b\" = %2\n}\n",
     // The carried value changes its only instance at each turn's end.
     2},
    {"nested",
     "module \"t\"\nparam @\"w.*.*\" turns (0:1, 0:1) : 2 x 3 x f32[a=2]\ninput @k : f32[]\n"
     "func @f(%w = @\"w.*.*\" (0:1, 0:1), %k = @k) {\n"
     "  %s = constant {value = 0.5} : f32[]\n  %z = constant {value = 0.0} : f32[]\n"
     "  %z2 = broadcast %z {dims = [a], extents = [2]} : f32[a=2]\n"
     "  %1, %2 = repeat {count = 2} index %i carry(%x = %z2) each(%row = %w) {\n"
     "    %3, %4 = repeat {count = 3, reverse = true} index %j carry(%y = %x) each(%u = %row) {\n"
     "      %5 = mul %u, %s : f32[a=2]\n      %6 = add %y, %5 : f32[a=2]\n"
     "      yield carry(%6) collect(%5)\n    } : f32[a=2], 3 x f32[a=2]\n"
     "    yield carry(%3) collect(%4)\n  } : f32[a=2], 2 x 3 x f32[a=2]\n"
     "  return output \"a\" = %1, output \"b\" = %2, output \"k\" = %k\n}\n",
     4},
    {"parts of a bundle",
     "module \"t\"\nparam @\"w.*\" turns (0:1) : 6 x f32[a=3]\n"
     "func @f(%w = @\"w.*\" (0:1)) {\n"
     "  %a = list_slice %w {first = 1, count = 2} : 2 x f32[a=3]\n"
     "  %b = list_slice %w {first = 3, count = 3} : 3 x f32[a=3]\n"
     "  %1 = repeat {count = 2} index %i each(%u = %a) {\n    %n = neg %u : f32[a=3]\n"
     "    yield collect(%n)\n  } : 2 x f32[a=3]\n"
     "  %2 = repeat {count = 3} index %j each(%v = %b) {\n    %e = add %v, %v : f32[a=3]\n"
     "    yield collect(%e)\n  } : 3 x f32[a=3]\n"
     "  %c = list_concat %2, %1, %a : 7 x f32[a=3]\n"
     "  return output \"c\" = %c, output \"d\" = %1\n}\n",
     2},
    {"groups of a bundle",
     "module \"t\"\nparam @\"w.*\" turns (0:1) : 6 x f32[a=3]\n"
     "func @f(%w = @\"w.*\" (0:1)) {\n"
     "  %g = list_group %w {outer = 2} : 2 x 3 x f32[a=3]\n"
     "  %1 = repeat {count = 2} index %i each(%row = %g) {\n"
     "    %2 = repeat {count = 3} index %j each(%u = %row) {\n      %n = neg %u : f32[a=3]\n"
     "      yield collect(%n)\n    } : 3 x f32[a=3]\n    yield collect(%2)\n"
     "  } : 2 x 3 x f32[a=3]\n  %3 = list_ungroup %1 : 6 x f32[a=3]\n"
     "  %4 = list_slice %3 {first = 2, count = 2} : 2 x f32[a=3]\n"
     "  %5 = cast %4 {to = \"f64\"} : 2 x f64[a=3]\n"
     "  return output \"a\" = %3, output \"b\" = %5\n}\n",
     0},
    {"states change places",
     "module \"t\"\nparam @p : f32[a=2]\nparam @q : f32[a=2]\ncounter @n : i64[] {value = 7}\n"
     "func @f(%p = @p, %q = @q, %n = @n) {\n  %1 = constant {value = 1.0} : i64[]\n"
     "  %2 = add %n, %1 : i64[]\n"
     "  return output \"old\" = %p, state @p = %q, state @q = %p, state @n = %2\n}\n",
     4},
    {"a state read before it changes",
     "module \"t\"\nparam @p : f32[a=2]\nparam @\"w.*\" turns (0:1) : 3 x f32[a=2]\n"
     "func @f(%p = @p, %w = @\"w.*\" (0:1)) {\n"
     "  %0 = repeat {count = 3} index %i each(%u = %w) {\n    %1 = add %u, %p : f32[a=2]\n"
     "    yield collect(%1)\n  } : 3 x f32[a=2]\n  %2 = neg %p : f32[a=2]\n"
     "  return state @p = %2, state @\"w.*\" (0:1) = %0\n}\n",
     0},
    {"micro-batches",
     "module \"t\"\nmesh [\"micro\"=4]\ninput @x : f32[b=8, d=3]\nparam @w : f32[d=3]\n"
     "func @f(%x = @x, %w = @w) {\n  %z = constant {value = 0.0} : f32[]\n"
     "  %zd = broadcast %z {dims = [d], extents = [3]} : f32[d=3]\n"
     "  %1, %2 = repeat {count = 4, axis = \"micro\"} index %i carry(%acc = %zd) {\n"
     "    %s = shard %x {dim = b, axis = \"micro\"} : f32[b=8 \"micro\", d=3]\n"
     "    %y = mul %s, %w : f32[b=8 \"micro\", d=3]\n"
     "    %r = reduce_sum %y {over = [b]} : f32[d=3] partial \"micro\"\n"
     "    %n = accumulate %acc, %r {axis = \"micro\"} : f32[d=3]\n"
     "    yield carry(%n) collect(%y)\n"
     "  } : f32[d=3], 4 x f32[b=8 \"micro\", d=3]\n"
     "  %u = unshard %2 {dim = b, axis = \"micro\"} : f32[b=8, d=3]\n"
     "  %v = neg %w : f32[d=3]\n"
     "  return output \"sum\" = %1, output \"y\" = %u, state @w = %v\n}\n",
     0},
    {"accumulators of every turn",
     "module \"t\"\nmesh [\"micro\"=3]\ninput @x : f32[b=6]\n"
     "param @\"w.*\" turns (0:1) : 4 x f32[d=2]\n"
     "func @f(%x = @x, %w = @\"w.*\" (0:1)) {\n"
     "  %z = repeat {count = 4} index %h {\n    %0 = constant {value = 0.0} : f32[]\n"
     "    %zd = broadcast %0 {dims = [d], extents = [2]} : f32[d=2]\n    yield collect(%zd)\n"
     "  } : 4 x f32[d=2]\n"
     "  %1 = repeat {count = 3, axis = \"micro\"} index %i carry(%acc = %z) {\n"
     "    %s = shard %x {dim = b, axis = \"micro\"} : f32[b=6 \"micro\"]\n"
     "    %g = repeat {count = 4, reverse = true} index %j each(%u = %w) {\n"
     "      %y = mul %s, %u : f32[b=6 \"micro\", d=2]\n"
     "      %r = reduce_sum %y {over = [b]} : f32[d=2] partial \"micro\"\n"
     "      yield collect(%r)\n    } : 4 x f32[d=2] partial \"micro\"\n"
     "    %n = repeat {count = 4} index %k each(%a = %acc, %p = %g) {\n"
     "      %t = accumulate %a, %p {axis = \"micro\"} : f32[d=2]\n      yield collect(%t)\n"
     "    } : 4 x f32[d=2]\n    yield carry(%n)\n  } : 4 x f32[d=2]\n"
     "  return output \"sums\" = %1\n}\n",
     0},
};

static int32_t count_copies(const ptc_step_t *steps, int32_t count) {
  int32_t copies = 0;
  for (int32_t i = 0; i < count; ++i)
    copies += steps[i].kind == PTC_STEP_REPEAT ? count_copies(steps[i].body, steps[i].num_steps)
                                               : steps[i].kind == PTC_STEP_COPY;
  return copies;
}

static void check_run(generated_t *generated, ptc_module_t *module, const row_t *row) {
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_TYPED);
  ptc_str_t report = {0};
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    ptc_semantics_fill(interp, module, seed);
    const bool same = generated_compare(
        generated, interp, "f",
        (generated_bound_t){.relative = 1e-6, .absolute = 1e-6, .state = 1e-6}, &report);
    UNIT_CHECK(same, row->name);
    if (!same) printf("\n%s\n%s", row->name, report.data);
  }
  ptc_str_deinit(&report);
  ptc_interp_destroy(interp);
}

static void check_row(const row_t *row) {
  program_t program;
  program_parse(&program, row->text);
  UNIT_CHECK(program.module != NULL, row->name);
  if (!program.module) return;
  generated_t generated;
  const bool opened = generated_open(&generated, program.module, 2);
  UNIT_CHECK(opened, row->name);
  if (opened) {
    const ptc_plan_t *plan = generated.emitted.plan;
    UNIT_CHECK(ptc_plan_verify(&program.diag, plan) == PTC_OK, row->name);
    const int32_t copies = count_copies(plan->tasks[0].steps, plan->tasks[0].num_steps);
    UNIT_CHECK(row->copies < 0 || copies == row->copies, row->name);
    if (row->copies >= 0 && copies != row->copies) printf("\n%s: %d copies\n", row->name, copies);
    check_run(&generated, program.module, row);
  }
  ptc_diag_print(&program.diag, stdout, PTC_DIAG_TEXT, false);
  generated_close(&generated);
  program_deinit(&program);
}

static void test_rows(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) check_row(&rows[i]);
}

static const unit_test_t tests[] = {{"programs of repeats", test_rows}};
UNIT_MAIN("plan repeat", tests)
