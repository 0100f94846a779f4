// Proves: the parts that ranks hold of a whole tensor, in blocks and zigzags, padded, over parts of axes, are the elements
// that ir/type.h says; owners cover the whole once; a file that all ranks write together is, byte for byte, the one that
// a single rank writes, with the checksums of its content; whoever fails, all ranks return an error. An executor
// without other ranks refuses their steps, and one of another number of ranks is no part of a plan.
#include "runtime/shards.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/executor.h"
#include "tests/support/unit.h"

static const ptc_mesh_axis_t axes[] = {{"dp", 2}, {"tp", 4}};
enum { WORLD = 8, MAX_ELEMENTS = 4096 };

static const ptc_axis_ref_t dp = {axes[0].name, 0, 0}, tp = {axes[1].name, 0, 0},
                            major = {axes[1].name, 1, 2}, minor = {axes[1].name, 2, 2};
static const ptc_axis_ref_t dp_tp[] = {{axes[0].name, 0, 0}, {axes[1].name, 0, 0}};

static const struct {
  const char *name;
  ptc_dim_t dims[3];
  int32_t num_dims;
} layouts[] = {
    {"a scalar", {{0}}, 0},
    {"whole", {{"a", 3, NULL, 0, PTC_DIST_BLOCK}, {"b", 5, NULL, 0, PTC_DIST_BLOCK}}, 2},
    {"outer", {{"a", 8, &tp, 1, PTC_DIST_BLOCK}, {"b", 5, NULL, 0, PTC_DIST_BLOCK}}, 2},
    {"inner", {{"a", 3, NULL, 0, PTC_DIST_BLOCK}, {"b", 8, &dp, 1, PTC_DIST_BLOCK}}, 2},
    {"padded", {{"a", 5, &tp, 1, PTC_DIST_BLOCK}, {"b", 3, &dp, 1, PTC_DIST_BLOCK}}, 2},
    {"both", {{"a", 16, dp_tp, 2, PTC_DIST_BLOCK}, {"b", 2, NULL, 0, PTC_DIST_BLOCK}}, 2},
    {"zigzag",
     {{"a", 2, NULL, 0, PTC_DIST_BLOCK},
      {"b", 19, &tp, 1, PTC_DIST_ZIGZAG},
      {"c", 3, &dp, 1, PTC_DIST_BLOCK}},
     3},
    {"parts",
     {{"a", 4, &major, 1, PTC_DIST_BLOCK},
      {"b", 6, &minor, 1, PTC_DIST_BLOCK},
      {"c", 2, &dp, 1, PTC_DIST_BLOCK}},
     3},
};
enum { NUM_LAYOUTS = sizeof layouts / sizeof *layouts };

typedef struct tensor_s {
  ptc_buffer_t buffer;
  int64_t extents[3];
  const char *names[3];
  int64_t count, local_count;
  float whole[MAX_ELEMENTS], parts[WORLD][MAX_ELEMENTS];
} tensor_t;

static const ptc_plan_t plan = {.mesh = {axes, 2}};

static void make_tensor(int l, tensor_t *t) {
  memset(t, 0, sizeof *t);
  t->count = t->local_count = 1;
  for (int32_t d = 0; d < layouts[l].num_dims; d++) {
    t->extents[d] = ptc_dim_local_extent(&plan.mesh, &layouts[l].dims[d]);
    t->names[d] = layouts[l].dims[d].name;
    t->count *= layouts[l].dims[d].extent;
    t->local_count *= t->extents[d];
  }
  t->buffer = (ptc_buffer_t){.name = layouts[l].name,
                             .dtype = PTC_F32,
                             .num_dims = layouts[l].num_dims,
                             .dim_names = t->names,
                             .extents = t->extents,
                             .layout = layouts[l].dims,
                             .num_instances = 1,
                             .bytes = 4 * t->local_count};
  for (int64_t i = 0; i < t->count; i++) t->whole[i] = (float)(l * 1000 + i + 1);
  for (int64_t r = 0; r < WORLD; r++)
    for (int64_t i = 0; i < t->local_count; i++) t->parts[r][i] = -1;
}

static ptc_shard_t shard_of(tensor_t *t, int64_t rank) {
  return ptc_shard_of(&plan, &t->buffer, rank, t->buffer.name, t->parts[rank]);
}

// The value that |rank| must have at local element |i|; -1: padding.
static float expected(const tensor_t *t, int l, int64_t rank, int64_t i) {
  int64_t coords[2], at[3], whole = 0;
  ptc_mesh_coords(&plan.mesh, rank, coords);
  for (int32_t d = layouts[l].num_dims - 1; d >= 0; d--) {
    at[d] = i % t->extents[d];
    i /= t->extents[d];
  }
  for (int32_t d = 0; d < layouts[l].num_dims; d++) {
    const ptc_dim_t *dim = &layouts[l].dims[d];
    const int64_t global =
        ptc_dim_global_index(&plan.mesh, dim, ptc_dim_shard_index(&plan.mesh, dim, coords), at[d]);
    if (global >= dim->extent) return -1;
    whole = whole * dim->extent + global;
  }
  return t->whole[whole];
}

typedef struct cover_s {
  int32_t times[MAX_ELEMENTS];
} cover_t;

static ptc_status_t cover(void *arg, int64_t whole_at, char *part, int64_t bytes) {
  (void)part;
  for (int64_t i = 0; i < bytes / 4; i++) ((cover_t *)arg)->times[whole_at / 4 + i]++;
  return PTC_OK;
}

static void test_parts(void) {
  static tensor_t t;
  for (int l = 0; l < NUM_LAYOUTS; l++) {
    make_tensor(l, &t);
    static cover_t owned;
    memset(&owned, 0, sizeof owned);
    bool right = true, once = true;
    for (int64_t r = 0; r < WORLD; r++) {
      const ptc_shard_t shard = shard_of(&t, r);
      ptc_shard_load(&shard, t.whole);
      for (int64_t i = 0; i < t.local_count; i++)
        right = right && t.parts[r][i] == expected(&t, l, r, i);
      if (shard.is_owner) (void)ptc_shard_walk(&shard, cover, &owned);
    }
    for (int64_t i = 0; i < t.count; i++) once = once && owned.times[i] == 1;
    UNIT_CHECK(right, layouts[l].name);
    UNIT_CHECK(once, layouts[l].name);
  }
}

// --- files

typedef struct rank_s {
  pthread_t thread;
  ptc_comm_t *comm;
  const char *path;
  tensor_t *tensors;
  ptc_shards_file_t file;
  ptc_status_t status;
} rank_t;

static void *write_main(void *arg) {
  rank_t *rank = arg;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_shard_t shards[NUM_LAYOUTS];
  for (int l = 0; l < NUM_LAYOUTS; l++) shards[l] = shard_of(&rank->tensors[l], rank->comm->rank);
  rank->status = ptc_shards_write(&diag, rank->comm, rank->path, shards, NUM_LAYOUTS, &rank->file);
  ptc_diag_deinit(&diag);
  return NULL;
}

static void write_together(tensor_t *tensors, const char *path, rank_t *ranks) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_comm_t *comms[WORLD];
  CU_ASSERT_EQUAL_FATAL(ptc_comm_open_threads(&diag, WORLD, comms), PTC_OK);
  for (int r = 0; r < WORLD; r++) {
    ranks[r] = (rank_t){.comm = comms[r], .path = path, .tensors = tensors};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&ranks[r].thread, NULL, write_main, &ranks[r]), 0);
  }
  for (int r = 0; r < WORLD; r++) pthread_join(ranks[r].thread, NULL);
  for (int r = 0; r < WORLD; r++) ptc_comm_close(comms[r]);
  ptc_diag_deinit(&diag);
}

static void test_files(void) {
  char folder[] = "/tmp/ptc_shards_XXXXXX";
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  ptc_str_t one = {0}, many = {0}, nowhere = {0};
  ptc_str_printf(&one, "%s/one", folder);
  ptc_str_printf(&many, "%s/many", folder);
  ptc_str_printf(&nowhere, "%s/no/such", folder);
  tensor_t *tensors = ptc_xmalloc(sizeof *tensors * NUM_LAYOUTS);
  ptc_host_tensor_t whole[NUM_LAYOUTS];
  for (int l = 0; l < NUM_LAYOUTS; l++) {
    make_tensor(l, &tensors[l]);
    for (int64_t r = 0; r < WORLD; r++) {
      const ptc_shard_t shard = shard_of(&tensors[l], r);
      ptc_shard_load(&shard, tensors[l].whole);
      whole[l] = shard.whole;
    }
    whole[l].data = tensors[l].whole;
  }
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(ptc_safetensors_save(&diag, one.data, whole, NUM_LAYOUTS), PTC_OK);
  rank_t ranks[WORLD];
  write_together(tensors, many.data, ranks);
  char *a = NULL, *b = NULL;
  size_t a_len = 0, b_len = 0;
  CU_ASSERT_EQUAL(ptc_read_file(one.data, &a, &a_len), PTC_OK);
  CU_ASSERT_EQUAL(ptc_read_file(many.data, &b, &b_len), PTC_OK);
  CU_ASSERT(a && b && a_len == b_len && memcmp(a, b, a_len) == 0);
  for (int r = 0; r < WORLD; r++) CU_ASSERT_EQUAL(ranks[r].status, PTC_OK);
  CU_ASSERT_EQUAL(ranks[0].file.bytes, (int64_t)b_len);
  CU_ASSERT_EQUAL(ranks[0].file.crc, (uint32_t)crc32_z(0, (const Bytef *)b, b_len));
  for (int l = 0; l < NUM_LAYOUTS; l++)
    CU_ASSERT_EQUAL(
        ranks[0].file.tensor_crcs[l],
        (uint32_t)crc32_z(0, (const Bytef *)tensors[l].whole, (z_size_t)(4 * tensors[l].count)));
  free(ranks[0].file.tensor_crcs);
  write_together(tensors, nowhere.data, ranks);
  for (int r = 0; r < WORLD; r++)
    CU_ASSERT(ranks[r].status != PTC_OK && !ranks[r].file.tensor_crcs);
  unlink(one.data);
  unlink(many.data);
  rmdir(folder);
  free(a);
  free(b);
  free(tensors);
  ptc_str_deinit(&one);
  ptc_str_deinit(&many);
  ptc_str_deinit(&nowhere);
  ptc_diag_deinit(&diag);
}

// --- executors

static const char json[] =
    "{\"version\": 3, \"model\": \"\", \"target\": \"cpu\", \"compiler_flags\": \"\", \"mesh\": "
    "[[\"dp\", 2]], \"arena_bytes\": 192, \"bound_bytes\": 0, \"batch\": 0, \"seq\": 0, "
    "\"flops_per_step\": 0, \"hashes\": {}, \"globals\": [{\"path\": \"w\", \"kind\": \"param\", "
    "\"buffer\": 0}], \"settings\": []}";
static const char steps[] =
    "steps 3\nbuffer 0 \"w\" param f32 [n=4]\n  at 0\nbuffer 1 \"sum\" temp f32 [n=4]\n  at 64\n"
    "buffer 2 \"term\" temp f32 [n=4] partial sum dp\n  at 128\n"
    "task \"train\"\n  copy 0:16 2:16\n  all_reduce sum f32 over dp\n    part 2:16 1:16\n  end\n"
    "  copy 1:16 0:16\n  copy 1@8*dp:8 0@8*dp:8\nend\n";

typedef struct member_s {
  pthread_t thread;
  ptc_comm_t *comm;
  ptc_executor_t *executor;
  const ptc_plan_t *plan;
  ptc_status_t status;
  int64_t bytes;
} member_t;

static void *member_main(void *arg) {
  member_t *m = arg;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_task_t *task = ptc_plan_find_task(m->plan, "train");
  m->status = ptc_executor_join(&diag, m->executor, m->comm);
  if (m->status == PTC_OK) m->status = ptc_executor_run(&diag, m->executor, task);
  if (m->status == PTC_OK)
    m->bytes = ptc_exchange_bytes(ptc_executor_exchange(m->executor), task->steps[1].collective);
  ptc_diag_deinit(&diag);
  return NULL;
}

static void test_executors(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *read = NULL;
  CU_ASSERT_EQUAL_FATAL(
      ptc_plan_parse(&diag, "plan.json", json, strlen(json), "steps", steps, strlen(steps), &read),
      PTC_OK);
  ptc_comm_t *comms[2], *three[3];
  member_t members[2];
  CU_ASSERT_EQUAL_FATAL(ptc_comm_open_threads(&diag, 2, comms), PTC_OK);
  CU_ASSERT_EQUAL_FATAL(ptc_comm_open_threads(&diag, 3, three), PTC_OK);
  for (int r = 0; r < 2; r++) {
    members[r] = (member_t){.comm = comms[r], .plan = read};
    CU_ASSERT_EQUAL_FATAL(ptc_executor_create(&diag, read, NULL, 1, &members[r].executor), PTC_OK);
    float *w = ptc_executor_global(members[r].executor, &read->globals[0], 0);
    for (int i = 0; i < 4; i++) w[i] = (float)(10 * r + i);
  }
  CU_ASSERT_EQUAL(ptc_executor_run(&diag, members[0].executor, &read->tasks[0]), PTC_UNSUPPORTED);
  CU_ASSERT_STRING_EQUAL(diag.items[diag.num_items - 1].id, "no-communicator");
  ptc_exchange_t *exchange;
  CU_ASSERT_EQUAL(ptc_exchange_create(&diag, read, three[0], &exchange), PTC_INVALID_INPUT);
  CU_ASSERT_STRING_EQUAL(diag.items[diag.num_items - 1].id, "comm-world");
  CU_ASSERT_PTR_NULL(exchange);
  for (int r = 0; r < 2; r++)
    CU_ASSERT_EQUAL_FATAL(pthread_create(&members[r].thread, NULL, member_main, &members[r]), 0);
  for (int r = 0; r < 2; r++) pthread_join(members[r].thread, NULL);
  for (int r = 0; r < 2; r++) {
    const float *w = ptc_executor_global(members[r].executor, &read->globals[0], 0);
    CU_ASSERT_EQUAL(members[r].status, PTC_OK);
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(w[i], (float)(10 + 2 * i));
    CU_ASSERT_EQUAL(members[r].bytes, 16);
    ptc_executor_destroy(members[r].executor);
    ptc_comm_close(comms[r]);
  }
  for (int r = 0; r < 3; r++) ptc_comm_close(three[r]);
  ptc_plan_destroy(read);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"parts", test_parts},
    {"files", test_files},
    {"executors", test_executors},
};
UNIT_MAIN("shards", tests)
