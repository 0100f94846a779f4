// Proves: a plan of many ranks survives its text byte for byte; every broken mesh, layout and collective gets its
// diagnostic; changed bytes never crash the reader; groups, owners and volumes are what their definitions say,
// counted one byte at a time; a replay sees what collectives read and write on every rank.
#include <stdlib.h>

#include "ir/plan.h"
#include "tests/support/unit.h"

static const char good_json[] =
    "{\n"
    "\"version\": 3,\n"
    "\"model\": \"tiny\",\n"
    "\"target\": \"cpu\",\n"
    "\"compiler_flags\": \"\",\n"
    "\"mesh\": [[\"dp\", 2], [\"tp\", 4]],\n"
    "\"arena_bytes\": 4096,\n"
    "\"bound_bytes\": 0,\n"
    "\"batch\": 0,\n"
    "\"seq\": 0,\n"
    "\"flops_per_step\": 0,\n"
    "\"hashes\": {\n"
    "\"make\": \"00\"\n"
    "},\n"
    "\"globals\": [\n"
    "{\"path\": \"w\", \"kind\": \"param\", \"buffer\": 0}\n"
    "],\n"
    "\"settings\": [\n"
    "]\n"
    "}\n";

static const char good_steps[] =
    "steps 3\n"
    "kernel make \"\"\n"
    "  params out:64\n"
    "  run 1: 1\n"
    "  needs workspace 0 scratch 0 flops 0 bytes 0\n"
    "buffer 0 \"w\" param f32 [d=2 f=8] of [3/tp:1:2 32/dp/tp:2:2~] at \"tiny.ptm\":3\n"
    "  at 0\n"
    "buffer 1 \"whole\" temp f32 [n=16] partial sum dp\n"
    "  at 64+64*3\n"
    "buffer 2 \"gathered\" temp f32 [d=2 n=60]\n"
    "  at 512\n"
    "buffer 3 \"part\" temp f32 [d=2 n=8] of [2 60/dp/tp]\n"
    "  at 1024\n"
    "buffer 4 \"tokens\" temp i32 [e=8 n=2]\n"
    "  at 1152 1216\n"
    "buffer 5 \"sum\" temp f32 [n=16]\n"
    "  at 1280+64*3\n"
    "buffer 6 \"parts\" temp f32 [d=2 n=60] partial max dp tp\n"
    "  at 1536\n"
    "task \"train\"\n"
    "  launch make 1:64  # whole\n"
    "  launch make 3:64  # part\n"
    "  launch make 4:64  # tokens\n"
    "  repeat 2\n"
    "    with stream 1 ahead -1 record 1\n"
    "    all_reduce sum f32 over dp at \"tiny.ptm\":7\n"
    "      part 1:64 5[1+t0]:64  # whole sum\n"
    "    end\n"
    "  end\n"
    "  with stream 2 wait 1 3 record 2\n"
    "  all_gather f32 over dp tp\n"
    "    part 3:64 2:480 out 2 32 240  # part gathered\n"
    "  end\n"
    "  with wait 2 record 3\n"
    "  copy 2:480 6:480  # gathered parts\n"
    "  reduce_scatter max f32 over dp tp\n"
    "    part 6:480 3:64 in 2 32 240  # parts part\n"
    "  end\n"
    "  all_to_all i32 over dp tp:2:2 at \"tiny.ptm\":9\n"
    "    part 4:64 4[1]:64 in 4 4 16 out 2 8 32  # tokens tokens\n"
    "  end\n"
    "  copy 1@16*dp+4*tp:4 0@16*tp:4  # whole w\n"
    "end\n";

static ptc_status_t parse(ptc_diag_t *diag, const char *json, const char *steps,
                          ptc_plan_t **plan) {
  return ptc_plan_parse(diag, "plan.json", json, strlen(json), "stage0.steps", steps, strlen(steps),
                        plan);
}

static char *replaced(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  if (!at) return NULL;
  ptc_str_t out = {0};
  ptc_str_append_n(&out, text, (size_t)(at - text));
  ptc_str_append(&out, to);
  ptc_str_append(&out, at + strlen(from));
  return out.data;
}

static void test_round_trip(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  const ptc_status_t status = parse(&diag, good_json, good_steps, &plan);
  ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
  ptc_str_t json = {0}, steps = {0};
  ptc_plan_print(plan, &json, &steps);
  CU_ASSERT_STRING_EQUAL(json.data, good_json);
  CU_ASSERT_STRING_EQUAL(steps.data, good_steps);
  CU_ASSERT_EQUAL(ptc_plan_world(plan), 8);
  const ptc_task_t *train = ptc_plan_find_task(plan, "train");
  const ptc_collective_t *gather = train->steps[4].collective;
  CU_ASSERT(gather->kind == PTC_COLLECTIVE_ALL_GATHER && gather->num_axes == 2);
  CU_ASSERT(gather->parts[0].out.row == 240 && gather->parts[0].in.row == 64);
  CU_ASSERT_EQUAL(train->steps[6].collective->reduce, PTC_REDUCE_MAX);
  CU_ASSERT_EQUAL(ptc_plan_num_streams(plan), 3);
  CU_ASSERT_EQUAL(ptc_plan_num_events(plan), 3);
  // A turn late: two turns in the second and third trip.
  const ptc_step_t *repeat = &train->steps[3];
  int64_t first, end, turn = -1;
  ptc_repeat_trips(repeat, &first, &end);
  CU_ASSERT(first == 0 && end == 3);
  CU_ASSERT_FALSE(ptc_repeat_turn(repeat, repeat->body, 0, &turn));
  CU_ASSERT(ptc_repeat_turn(repeat, repeat->body, 1, &turn) && turn == 0);
  CU_ASSERT(ptc_repeat_turn(repeat, repeat->body, 2, &turn) && turn == 1);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  ptc_plan_destroy(plan);
  ptc_diag_deinit(&diag);
}

// --- what is broken

static const struct {
  bool in_json;
  const char *from, *to, *id;
} broken[] = {
    {true, "[[\"dp\", 2]", "[[\"dp\", 0]", "plan-mesh"},
    {true, "[[\"dp\", 2]", "[[\"tp\", 2]", "plan-mesh"},
    {true, "[[\"dp\", 2]", "[[\"t0\", 2]", "plan-mesh"},
    {true, "[[\"dp\", 2]", "[[\"d p\", 2]", "plan-mesh"},
    {true, "[[\"dp\", 2]", "[[\"dp\"]", "plan-json"},
    {true, "[[\"dp\", 2]", "[[2, 2]", "plan-json"},
    {true, "[[\"dp\", 2], [\"tp\", 4]]", "2", "plan-json"},
    {true, "[[\"dp\", 2]", "[[\"dp\", 1000000]", "plan-limit"},
    {true, "[[\"dp\", 2]", "[[\"dq\", 2]", "plan-text"},
    {true, "[\"tp\", 4]", "[\"tp\", 2]", "plan-layout"},
    {false, "3/tp:1:2", "3/tp:1:4", "plan-layout"},
    {false, "3/tp:1:2", "3/tp:1:3", "plan-layout"},
    {false, "3/tp:1:2", "3/tp:0:2", "plan-layout"},
    {false, "3/tp:1:2", "3/tp", "plan-layout"},
    {false, "3/tp:1:2", "5/tp:1:2", "plan-layout"},
    {false, "3/tp:1:2", "3/ep", "plan-text"},
    {false, "3/tp:1:2 32", "3/tp:1:2", "plan-text"},
    {false, "over dp tp\n", "over dp dp\n", "plan-collective"},
    {false, "over dp tp\n", "over dp tp:1:3\n", "plan-collective"},
    {false, "over dp tp\n", "over dp\n", "plan-collective"},
    {false, "over dp tp\n", "over dp ep\n", "plan-text"},
    {false, "partial sum dp", "partial sum tp", "plan-collective"},
    {false, "partial sum dp", "partial max dp", "plan-collective"},
    {false, "partial sum dp", "partial dp", "plan-text"},
    {false, "partial sum dp", "partial sum", "plan-text"},
    {false, "partial sum dp", "over dp", "plan-collective"},
    {false, "of [2 60/dp/tp]", "over dp", "plan-collective"},
    {false, "sum f32", "mean f32", "plan-text"},
    {false, "sum f32", "sum f16", "plan-collective"},
    {false, "sum f32", "sum u8", "plan-text"},
    {false, "5[1+t0]:64  # whole", "5[1+t0]:60  # whole", "plan-collective"},
    {false, "5[1+t0]:64  # whole", "5[dp]:64  # whole", "plan-ref"},
    {false, "1:64 5[", "1[dp]:64 5[", "plan-ref"},
    // A rank's part of what it has whole lies on the axes that say where it begins.
    {false, "part 3:64 2:480 out 2 32 240", "part 5@32*dp+8*tp:8 5[1]:64 out 1 8 64", "none"},
    {false, "part 3:64 2:480 out 2 32 240", "part 5@32*dp:8 5[1]:64 out 1 8 64", "plan-collective"},
    {false, "part 3:64 2:480 out 2 32 240", "part 5:8 5[1]:64 out 1 8 64", "plan-collective"},
    {false, "part 3:64 2:480 out 2 32 240", "part 3@4*tp:8 5:64 out 1 8 64", "plan-collective"},
    {false, "out 2 32 240", "out 2 32 244", "plan-collective"},
    {false, "out 2 32 240", "out 2 28 240", "plan-collective"},
    {false, "out 2 32 240", "out 1 64 484", "plan-collective"},
    {false, "out 2 32 240", "out 2 32", "plan-text"},
    {false, "out 2 32 240", "in 2 32 240", "plan-text"},
    {false, "in 2 32 240", "in 2 32 4611686018427387904", "plan-collective"},
    {false, "in 4 4 16", "in 8 2 8", "plan-collective"},
    {false, "in 4 4 16", "in 2 8 32", "none"},
    {false, "part 6:480 3:64", "part 6:480 6:64", "plan-collective"},
    {false, "part 6:480 3:64", "part 6:480", "plan-text"},
    {false, "    part 6:480 3:64 in 2 32 240  # parts part\n", "", "plan-collective"},
    {false, "16*dp+4*tp", "16*dp+16*tp", "plan-ref"},
    {false, "16*dp+4*tp", "16*dp+4*dp", "plan-text"},
    {false, "16*dp+4*tp", "16*dp+4*t11", "plan-number"},
    {false, "0@16*tp:4", "0@8*tp:8", "plan-ref"},
};

static void test_broken(void) {
  for (size_t i = 0; i < sizeof broken / sizeof *broken; ++i) {
    char *changed =
        replaced(broken[i].in_json ? good_json : good_steps, broken[i].from, broken[i].to);
    UNIT_CHECK(changed != NULL, broken[i].from);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_plan_t *plan = NULL;
    if (changed)
      (void)parse(&diag, broken[i].in_json ? changed : good_json,
                  broken[i].in_json ? good_steps : changed, &plan);
    const char *id = diag.num_items ? diag.items[0].id : "none";
    if (strcmp(id, broken[i].id) != 0) {
      printf("\n\"%s\" -> \"%s\": wanted [%s]\n", broken[i].from, broken[i].to, broken[i].id);
      ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    }
    UNIT_CHECK(strcmp(id, broken[i].id) == 0, broken[i].to);
    ptc_plan_destroy(plan);
    ptc_diag_deinit(&diag);
    free(changed);
  }
}

static void test_changed_bytes(void) {
  uint64_t random = unit_seed();
  int accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    char *steps = strdup(good_steps), *json = strdup(good_json);
    char *text = i % 4 ? steps : json;
    const size_t len = strlen(text);
    for (uint64_t n = unit_random(&random) % 2 + 1; n > 0; --n)
      text[unit_random(&random) % len] = text[unit_random(&random) % len];
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_plan_t *plan = NULL, *again = NULL;
    const ptc_status_t status = parse(&diag, json, steps, &plan);
    CU_ASSERT((status == PTC_OK) == (diag.num_errors == 0));
    if (plan) {
      accepted++;
      ptc_str_t first[2] = {{0}}, second[2] = {{0}};
      ptc_plan_print(plan, &first[0], &first[1]);
      CU_ASSERT_EQUAL_FATAL(parse(&diag, first[0].data, first[1].data, &again), PTC_OK);
      ptc_plan_print(again, &second[0], &second[1]);
      for (int f = 0; f < 2; ++f) {
        CU_ASSERT_STRING_EQUAL(first[f].data, second[f].data);
        ptc_str_deinit(&first[f]);
        ptc_str_deinit(&second[f]);
      }
      (void)ptc_plan_verify(&diag, plan);
    }
    ptc_plan_destroy(plan);
    ptc_plan_destroy(again);
    ptc_diag_deinit(&diag);
    free(steps);
    free(json);
  }
  printf("%d of 10000 accepted ", accepted);
  CU_ASSERT(accepted > 100);
}

// --- arithmetic of ranks

static const ptc_mesh_axis_t axes[] = {{"dp", 2}, {"cp", 3}, {"tp", 8}};
static const ptc_mesh_t mesh = {axes, 3};

static void test_groups(void) {
  int64_t coords[3];
  for (int64_t r = 0; r < 48; ++r) {
    ptc_mesh_coords(&mesh, r, coords);
    CU_ASSERT(coords[0] == r / 24 && coords[1] == r / 8 % 3 && coords[2] == r % 8);
    CU_ASSERT_EQUAL(ptc_mesh_rank(&mesh, coords), r);
  }
  // dp, and the middle factor of tp = 2 x 2 x 2.
  const ptc_axis_ref_t refs[] = {{axes[2].name, 2, 2}, {axes[0].name, 0, 0}};
  CU_ASSERT_EQUAL(ptc_group_size(&mesh, refs, 2), 4);
  for (int64_t r = 0; r < 48; ++r) {
    const int64_t dp = r / 24, middle = r / 2 % 2;
    CU_ASSERT_EQUAL(ptc_group_member(&mesh, refs, 2, r), middle * 2 + dp);
    for (int64_t g = 0; g < 4; ++g) {
      const int64_t other = ptc_group_rank(&mesh, refs, 2, r, g);
      CU_ASSERT_EQUAL(other, r + (g % 2 - dp) * 24 + (g / 2 - middle) * 2);
      CU_ASSERT_EQUAL(ptc_group_member(&mesh, refs, 2, other), g);
    }
  }
}

static void test_owners(void) {
  const ptc_axis_ref_t minor = {axes[2].name, 4, 2}, cp = {axes[1].name, 0, 0};
  const ptc_dim_t layout[] = {{.name = "x", .extent = 4, .axes = &minor, .num_axes = 1},
                              {.name = "y", .extent = 6, .axes = &cp, .num_axes = 1}};
  const ptc_buffer_t sharded = {.num_dims = 2, .layout = layout}, whole = {.num_dims = 2};
  const ptc_plan_t plan = {.mesh = mesh};
  int owners = 0;
  for (int64_t r = 0; r < 48; ++r) {
    const bool owner = ptc_plan_is_owner(&plan, &sharded, r);
    CU_ASSERT_EQUAL(owner, r / 24 == 0 && r % 8 / 2 == 0);
    owners += owner;
    CU_ASSERT_EQUAL(ptc_plan_is_owner(&plan, &whole, r), r == 0);
  }
  CU_ASSERT_EQUAL(owners, 6);
}

// Byte |at| of the stream of piece |g|: where it lies in the array, or -1.
static int64_t place_of(const ptc_pieces_t *pieces, int64_t g, int64_t at) {
  const int64_t within = g * pieces->chunk + at % pieces->chunk;
  return within < pieces->row ? at / pieces->chunk * pieces->row + within : -1;
}

static int64_t counted(const ptc_collective_t *c, int64_t size, int64_t me) {
  const ptc_collective_part_t *part = &c->parts[0];
  const int64_t stream =
      c->kind == PTC_COLLECTIVE_ALL_GATHER ? part->in.row : part->in.outer * part->in.chunk;
  int64_t bytes = 0;
  for (int64_t g = 0; g < size; ++g) {
    for (int64_t at = 0; g != me && at < stream; ++at) {
      const bool sent = c->kind == PTC_COLLECTIVE_ALL_GATHER || place_of(&part->in, me, at) >= 0;
      const bool kept =
          c->kind == PTC_COLLECTIVE_REDUCE_SCATTER || place_of(&part->out, g, at) >= 0;
      bytes += sent && kept;
    }
  }
  return bytes;
}

static void test_volume(void) {
  const ptc_mesh_axis_t one[] = {{"tp", 4}};
  const ptc_mesh_t four = {one, 1};
  const ptc_axis_ref_t ref = {one[0].name, 0, 0};
  // [a, 7] cut into pieces of 2, 2, 2, 1 of 4 bytes; to all: 10 rows of 3, 3, 3, 1 against that.
  ptc_collective_part_t parts[] = {
      {{3, 8, 28}, {1, 24, 24}}, {{1, 24, 24}, {3, 8, 28}}, {{5, 8, 32}, {1, 40, 160}},
      {{6, 8, 28}, {2, 24, 88}}, {{2, 24, 88}, {6, 8, 28}},
  };
  const ptc_collective_kind_t kinds[] = {PTC_COLLECTIVE_REDUCE_SCATTER, PTC_COLLECTIVE_ALL_GATHER,
                                         PTC_COLLECTIVE_ALL_TO_ALL, PTC_COLLECTIVE_ALL_TO_ALL,
                                         PTC_COLLECTIVE_ALL_TO_ALL};
  for (int i = 0; i < 5; ++i) {
    const ptc_collective_t c = {.kind = kinds[i],
                                .dtype = PTC_F32,
                                .num_axes = 1,
                                .num_parts = 1,
                                .axes = &ref,
                                .parts = &parts[i]};
    for (int64_t r = 0; r < 4; ++r)
      CU_ASSERT_EQUAL(ptc_collective_bytes(&four, &c, r), counted(&c, 4, r));
  }
  // 2 (N - 1) / N n in the mean over members: of 10 numbers, members sum 3, 3, 3 and 1.
  ptc_collective_part_t whole = {{1, 40, 40}, {1, 40, 40}};
  const ptc_collective_t c = {.kind = PTC_COLLECTIVE_ALL_REDUCE,
                              .dtype = PTC_F32,
                              .num_axes = 1,
                              .num_parts = 1,
                              .axes = &ref,
                              .parts = &whole};
  int64_t total = 0;
  for (int64_t r = 0; r < 4; ++r) total += ptc_collective_bytes(&four, &c, r);
  CU_ASSERT_EQUAL(total, 2 * 3 * 40);
  CU_ASSERT_EQUAL(ptc_collective_bytes(&four, &c, 3), 3 * 4 + 36);
}

// --- the replay

static void test_replay(void) {
  static const struct {
    const char *from, *to, *id;
  } rows[] = {
      {"steps 3", "steps 3", "none"},
      {"  launch make 3:64  # part\n", "", "plan-uninitialized"},
      {"  launch make 4:64  # tokens\n", "", "plan-uninitialized"},
      // Only the ranks with tp = 3 read beyond what was written.
      {"  launch make 1:64  # whole\n", "  copy 0:60 1:60\n  copy 1:64 1[1]:64\n",
       "plan-uninitialized"},
      {"copy 1@16*dp+4*tp:4 0@16*tp:4", "copy 5[2]@16*dp+4*tp:4 0@16*tp:4", "none"},
      {"repeat 2", "repeat 1", "none"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char *changed = replaced(good_steps, rows[i].from, rows[i].to);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_plan_t *plan = NULL;
    UNIT_CHECK(changed && parse(&diag, good_json, changed, &plan) == PTC_OK, rows[i].to);
    if (plan) (void)ptc_plan_verify(&diag, plan);
    const char *id = diag.num_items ? diag.items[0].id : "none";
    if (strcmp(id, rows[i].id) != 0) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    UNIT_CHECK(strcmp(id, rows[i].id) == 0, rows[i].to);
    ptc_plan_destroy(plan);
    ptc_diag_deinit(&diag);
    free(changed);
  }
  // A rank's own part alone is written: the others' are not, whoever looks.
  char *changed = replaced(good_steps, "  copy 1@16*dp+4*tp:4 0@16*tp:4",
                           "  copy 1:32 1[2]@32*dp:32\n  copy 1[2]@32*dp:32 0:32");
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  CU_ASSERT_EQUAL(parse(&diag, good_json, changed, &plan), PTC_OK);
  if (plan) CU_ASSERT_EQUAL(ptc_plan_verify(&diag, plan), PTC_OK);
  ptc_plan_destroy(plan);
  ptc_diag_deinit(&diag);
  free(changed);
}

static const unit_test_t tests[] = {
    {"text and back", test_round_trip},
    {"broken", test_broken},
    {"changed bytes", test_changed_bytes},
    {"groups", test_groups},
    {"owners", test_owners},
    {"volume", test_volume},
    {"replay", test_replay},
};
UNIT_MAIN("plan of many ranks", tests)
