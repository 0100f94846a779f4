// Proves: which instances share bytes, and which must not: in place, copies and their sources, states, turns,
// tasks, results, workspaces. Each small program is placed in exactly so many bytes, replays, and keeps only
// the copies that move something. Random lives are placed without overlap.
#include "passes/lower_plan.h"
#include "passes/memory_plan_impl.h"
#include "tests/support/unit.h"

static const char json[] =
    "{\"version\": 3, \"model\": \"\", \"target\": \"\", \"compiler_flags\": \"\", "
    "\"arena_bytes\": 65536, "
    "\"bound_bytes\": 0, \"batch\": 0, \"seq\": 0, \"flops_per_step\": 0, \"hashes\": {\"make\": "
    "\"0\", "
    "\"move\": \"0\", \"over\": \"0\", \"both\": \"0\", \"grow\": \"0\", \"work\": \"0\"}, "
    "\"globals\": "
    "[{\"path\": \"p\", \"kind\": \"param\", \"buffer\": 0}], \"settings\": []}";

// Instances lie apart, so that every program passes ptc_plan_check before it is placed anew.
static const char head[] =
    "steps 3\n"
    "kernel make \"\"\n  params out:64\n  run 1: 1\n  needs workspace 0 scratch 0 flops 0 bytes 0\n"
    "kernel move \"\"\n  params in:64 out:64\n  run 1: 1\n  needs workspace 0 scratch 0 flops 0 "
    "bytes 0\n"
    "kernel over \"\"\n  params in:64 out:64/0\n  run 1: 1\n  needs workspace 0 scratch 0 flops 0 "
    "bytes "
    "0\n"
    "kernel both \"\"\n  params in:64 in:64 out:64/0\n  run 1: 1\n  needs workspace 0 scratch 0 "
    "flops 0 "
    "bytes 0\n"
    "kernel grow \"\"\n  params inout:64\n  run 1: 1\n  needs workspace 0 scratch 0 flops 0 bytes "
    "0\n"
    "kernel work \"\"\n  params out:64\n  run 1: 1\n  needs workspace 640 scratch 0 flops 0 bytes "
    "0\n"
    "buffer 0 \"p\" param f32 [n=16]\n  at 0\n"
    "buffer 1 \"a\" temp f32 [n=16]\n  at 64\n"
    "buffer 2 \"b\" temp f32 [n=16]\n  at 128\n"
    "buffer 3 \"c\" temp f32 [n=16]\n  at 192\n"
    "buffer 4 \"list\" temp f32 [n=16]\n  at 1024+64*9\n"
    "buffer 5 \"wide\" temp f32 [n=128]\n  at 2048\n"
    "buffer 6 \"w\" workspace bool [n=640]\n  at 4096\n";

// What is made in place of nothing else may take the bytes of the global, whose old value nothing reads then.
typedef struct row_s {
  const char *name, *tasks;
  int64_t bytes;  // beside the global
  int32_t copies;
} row_t;

#define TASK(steps) "task \"t\"\n" steps "end\n"

static const row_t rows[] = {
    {"nothing", TASK(""), 0, 0},
    {"one value", TASK("launch make 1:64\nlaunch move 1:64 0:64\n"), 64, 0},
    {"a result beside its operand",
     TASK("launch make 1:64\nlaunch move 1:64 2:64\nlaunch move 2:64 0:64\n"), 128, 0},
    {"a result in its place",
     TASK("launch make 1:64\nlaunch over 1:64 2:64\nlaunch move 2:64 0:64\n"), 64, 0},
    {"not in the place of what is read later",
     TASK("launch make 1:64\nlaunch over 1:64 2:64\nlaunch both 2:64 1:64 0:64\n"), 64, 0},
    {"not in the place of what is read twice",
     TASK("launch make 1:64\nlaunch both 1:64 1:64 2:64\nlaunch move 2:64 0:64\n"), 128, 0},
    {"nor in that of its copy",
     TASK("launch make 1:64\ncopy 1:64 2:64\nlaunch both 1:64 2:64 3:64\nlaunch move 3:64 0:64\n"),
     128, 0},
    {"a copy is its source", TASK("launch make 1:64\ncopy 1:64 2:64\nlaunch both 1:64 2:64 0:64\n"),
     64, 0},
    {"a copy that changes is none",
     TASK("launch make 1:64\ncopy 1:64 2:64\nlaunch grow 2:64\nlaunch both 1:64 2:64 0:64\n"), 64,
     1},
    {"a source that changes has a copy",
     TASK("launch make 1:64\ncopy 1:64 2:64\nlaunch grow 1:64\nlaunch both 1:64 2:64 0:64\n"), 64,
     1},
    {"a part is copied",
     TASK("launch make 1:64\nlaunch make 2:64\ncopy 1:64 5:64\ncopy 2:64 5@64:64\ncopy 5@32:64 "
          "0:64\n"),
     640, 3},
    {"a state that grows in place", TASK("copy 0:64 1:64\nlaunch grow 1:64\ncopy 1:64 0:64\n"), 0,
     0},
    {"a state that is made anew", TASK("launch move 0:64 1:64\ncopy 1:64 0:64\n"), 64, 1},
    {"a state made in place", TASK("launch over 0:64 1:64\ncopy 1:64 0:64\n"), 0, 0},
    {"a state whose old version is still read",
     TASK("copy 0:64 1:64\nlaunch grow 1:64\nlaunch move 0:64 2:64\ncopy 1:64 0:64\nlaunch move "
          "2:64 3:64\n"),
     128, 2},
    {"turns one after another",
     TASK("launch make 4:64\nrepeat 8\nlaunch move 4[t0]:64 4[1+t0]:64\nend\nlaunch move 4[8]:64 "
          "0:64\n"),
     128, 0},
    {"turns in place",
     TASK("launch make 4:64\nrepeat 8\nlaunch over 4[t0]:64 4[1+t0]:64\nend\nlaunch move 4[8]:64 "
          "0:64\n"),
     64, 0},
    {"turns that are all kept",
     TASK("launch make 4:64\nrepeat 8\nlaunch over 4[t0]:64 4[1+t0]:64\nend\nrepeat 8 reverse\n"
          "launch both 4[1+t0]:64 4[t0]:64 0:64\nend\n"),
     576, 0},
    {"turns that share an instance",
     TASK("launch make 1:64\nrepeat 100\nlaunch move 1:64 2:64\nlaunch over 2:64 1:64\nend\nlaunch "
          "move 1:64 "
          "0:64\n"),
     128, 0},
    {"what a turn copies to the next",
     TASK("launch make 1:64\nrepeat 100\nlaunch move 1:64 2:64\ncopy 2:64 1:64\nend\nlaunch move "
          "1:64 "
          "0:64\n"),
     128, 1},
    {"a value of before in all turns",
     TASK("launch make 1:64\nrepeat 100\nlaunch move 1:64 2:64\nlaunch move 2:64 3:64\nend\n"), 192,
     0},
    {"what turns leave behind",
     TASK("repeat 9\nlaunch make 1:64\nlaunch move 1:64 2:64\nlaunch move 2:64 "
          "4[t0]:64\nend\nrepeat 9\nlaunch "
          "move 4[t0]:64 0:64\nend\n"),
     704, 0},
    {"two tasks have the same bytes",
     "task \"t\"\nlaunch make 1:64\nlaunch move 1:64 0:64\nend\n"
     "task \"u\"\nlaunch make 2:64\nlaunch move 2:64 0:64\nend\n",
     64, 0},
    {"a result lasts",
     "task \"t\"\n  result \"r\" output 1 0 1\nlaunch make 1:64\nlaunch make 2:64\nlaunch move "
     "2:64 0:64\nend\n",
     128, 0},
    {"a result from the chain that makes it",
     "task \"t\"\n  result \"r\" output 3 0 1\nlaunch make 1:64\nlaunch over 1:64 2:64\ncopy 2:64 "
     "3:64\nend\n",
     64, 0},
    {"a workspace for one launch",
     TASK("launch work 1:64 6:640\nlaunch move 1:64 2:64\nlaunch move 2:64 0:64\n"), 704, 0},
};

static int32_t count_copies(const ptc_step_t *steps, int32_t count) {
  int32_t copies = 0;
  for (int32_t i = 0; i < count; ++i)
    copies += steps[i].kind == PTC_STEP_REPEAT ? count_copies(steps[i].body, steps[i].num_steps)
                                               : steps[i].kind == PTC_STEP_COPY;
  return copies;
}

static void check_row(const row_t *row) {
  ptc_str_t text = {0};
  ptc_str_printf(&text, "%s%s", head, row->tasks);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  UNIT_CHECK(ptc_plan_parse(&diag, "plan.json", json, strlen(json), "steps", text.data, text.len,
                            &plan) == PTC_OK,
             row->name);
  if (plan) {
    UNIT_CHECK(ptc_plan_memory(&diag, plan) == PTC_OK, row->name);
    UNIT_CHECK(ptc_plan_verify(&diag, plan) == PTC_OK, row->name);
    ptc_plan_simplify(plan);
    UNIT_CHECK(ptc_plan_check(&diag, plan) == PTC_OK, row->name);
    UNIT_CHECK(ptc_plan_verify(&diag, plan) == PTC_OK, row->name);
    int32_t copies = 0;
    for (int32_t i = 0; i < plan->num_tasks; ++i)
      copies += count_copies(plan->tasks[i].steps, plan->tasks[i].num_steps);
    const int64_t bytes = plan->arena_bytes - 64;
    const bool exact = bytes == row->bytes && plan->bound_bytes == plan->arena_bytes;
    UNIT_CHECK(exact, row->name);
    UNIT_CHECK(copies == row->copies, row->name);
    if (!exact || copies != row->copies)
      printf("\n%s: %d bytes (bound %d), %d copies\n", row->name, (int)bytes,
             (int)plan->bound_bytes - 64, (int)copies);
  }
  ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  ptc_plan_destroy(plan);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
}

static void test_rows(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) check_row(&rows[i]);
}

// --- placement of random lives

enum { NUM_ITEMS = 300, NUM_STEPS = 400, MAX_SEGMENTS = 3 };

static bool live_together(const ptc_placed_t *a, const ptc_placed_t *b) {
  for (int32_t i = 0; i < a->num_segments; ++i)
    for (int32_t j = 0; j < b->num_segments; ++j)
      if (a->segments[i].begin <= b->segments[j].end && b->segments[j].begin <= a->segments[i].end)
        return true;
  return false;
}

// Up to three segments, in order, apart from each other.
static int32_t random_segments(uint64_t *random, ptc_segment_t *out) {
  int32_t count = 0, at = (int32_t)(unit_random(random) % (NUM_STEPS - 40));
  do {
    const int32_t length = (int32_t)(unit_random(random) % (unit_random(random) % 5 ? 12 : 150));
    out[count] = (ptc_segment_t){at, at + length < NUM_STEPS ? at + length : NUM_STEPS - 1, 0};
    at = out[count++].end + 2 + (int32_t)(unit_random(random) % 9);
  } while (count < MAX_SEGMENTS && at < NUM_STEPS && unit_random(random) % 4 == 0);
  return count;
}

static int64_t largest_sum(const ptc_placed_t *items) {
  int64_t most = 0;
  for (int32_t t = 0; t < NUM_STEPS; ++t) {
    int64_t sum = 0;
    for (int32_t i = 0; i < NUM_ITEMS; ++i)
      for (int32_t s = 0; s < items[i].num_segments; ++s)
        if (items[i].segments[s].begin <= t && t <= items[i].segments[s].end) sum += items[i].bytes;
    if (sum > most) most = sum;
  }
  return most;
}

static void test_placement(void) {
  uint64_t random = unit_seed();
  static ptc_placed_t items[NUM_ITEMS];
  static ptc_segment_t segments[NUM_ITEMS][MAX_SEGMENTS];
  for (int round = 0; round < 5; ++round) {
    for (int32_t i = 0; i < NUM_ITEMS; ++i) {
      items[i] = (ptc_placed_t){.node = i,
                                .bytes = 64 * (int64_t)(1 + unit_random(&random) % 100),
                                .segments = segments[i]};
      items[i].num_segments = random_segments(&random, segments[i]);
      for (int32_t s = 0; s < items[i].num_segments; ++s)
        items[i].duration += segments[i][s].end - segments[i][s].begin + 1;
    }
    const int64_t bound = largest_sum(items);
    const int64_t height = ptc_place(items, NUM_ITEMS, NUM_STEPS, bound, bound);
    CU_ASSERT(height >= bound);
    CU_ASSERT(height <= bound + bound / 5);
    for (int32_t i = 0; i < NUM_ITEMS; ++i) {
      CU_ASSERT(items[i].offset >= 0 && items[i].offset + items[i].bytes <= height);
      for (int32_t j = 0; j < i; ++j)
        CU_ASSERT(!live_together(&items[i], &items[j]) ||
                  items[i].offset + items[i].bytes <= items[j].offset ||
                  items[j].offset + items[j].bytes <= items[i].offset);
    }
  }
}

static const unit_test_t tests[] = {{"what shares bytes", test_rows},
                                    {"random lives", test_placement}};
UNIT_MAIN("memory plan", tests)
