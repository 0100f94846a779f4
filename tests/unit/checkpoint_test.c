// Proves: a checkpoint gives back every bit and where the run stood; the latest ones are kept; whatever byte
// changes, it is refused with the file's name, and only on request the one before is taken; a writer that is
// killed at any instant, or runs out of disk, leaves the latest one intact.
#include "runtime/checkpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/unit.h"

static char base[32];

static void test_set_up(void) { unit_make_folder(base); }

static void test_clean_up(void) {
  char command[96];
  snprintf(command, sizeof(command), "rm -r '%s'", base);
  CU_ASSERT_EQUAL(system(command), 0);
}

// --- a run whose tensors follow from the step

enum { NUM_MODEL = 3, NUM_OPTIMIZER = 2, MAX_BYTES = 40000 };

typedef struct run_s {
  char folder[96];
  char data[NUM_MODEL + NUM_OPTIMIZER][MAX_BYTES];
  ptc_host_tensor_t model[NUM_MODEL], optimizer[NUM_OPTIMIZER];
} run_t;

static ptc_host_tensor_t tensor_of(const char *name, ptc_dtype_t dtype, int32_t num_dims,
                                   int64_t extent, char *data) {
  return (ptc_host_tensor_t){
      .name = name, .dtype = dtype, .num_dims = num_dims, .shape = {extent}, .data = data};
}

// |scale|: elements of the largest tensor, at most 10000.
static run_t *run_new(const char *name, int64_t scale) {
  run_t *run = calloc(1, sizeof(*run));
  snprintf(run->folder, sizeof(run->folder), "%s/%s", base, name);
  run->model[0] = tensor_of("block.0.w", PTC_F32, 2, scale / 4, run->data[0]);
  run->model[0].shape[1] = 4;
  run->model[1] = tensor_of("block.1.w", PTC_BF16, 1, scale, run->data[1]);
  run->model[2] = tensor_of("none", PTC_F32, 1, 0, run->data[2]);
  run->optimizer[0] = tensor_of("block.0.w.m", PTC_F32, 1, scale / 2, run->data[3]);
  run->optimizer[1] = tensor_of("scale", PTC_F32, 0, 0, run->data[4]);
  return run;
}

static void fill(run_t *run, int64_t step) {
  uint64_t random = (uint64_t)step;
  for (int t = 0; t < NUM_MODEL + NUM_OPTIMIZER; t++) {
    const ptc_host_tensor_t *tensor =
        t < NUM_MODEL ? &run->model[t] : &run->optimizer[t - NUM_MODEL];
    for (int64_t i = 0; i < ptc_host_tensor_bytes(tensor); i++)
      run->data[t][i] = (char)unit_random(&random);
  }
}

static ptc_status_t save(run_t *run, ptc_diag_t *diag, int64_t step, int32_t keep) {
  const ptc_checkpoint_setting_t settings[] = {{"train.lr", "0.0006"}, {"data.text", "\"x y\"\n"}};
  ptc_checkpoint_state_t state = {.step = step,
                                  .position = 8 * step,
                                  .seed = UINT64_MAX - 3,
                                  .model = "gpt2",
                                  .settings = settings,
                                  .num_settings = 2};
  fill(run, step);
  return ptc_checkpoint_write(diag, run->folder, &state, run->model, NUM_MODEL, run->optimizer,
                              NUM_OPTIMIZER, keep);
}

// Whether |checkpoint| gives back the tensors of its step.
static bool matches(run_t *run, const ptc_checkpoint_t *checkpoint) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  run_t *wanted = run_new("x", run->model[1].shape[0]);
  fill(wanted, checkpoint->state.step);
  memset(run->data, 0, sizeof(run->data));
  bool ok = ptc_checkpoint_load(&diag, checkpoint, run->model, NUM_MODEL) == PTC_OK &&
            ptc_checkpoint_load(&diag, checkpoint, run->optimizer, NUM_OPTIMIZER) == PTC_OK &&
            memcmp(wanted->data, run->data, sizeof(run->data)) == 0;
  free(wanted);
  ptc_diag_deinit(&diag);
  return ok;
}

// The step of the latest checkpoint, -1 if it cannot be opened, -2 if it is not what was saved.
static int64_t latest(run_t *run, bool fall_back) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_checkpoint_t checkpoint;
  int64_t step = -1;
  if (ptc_checkpoint_open_latest(&diag, run->folder, fall_back, &checkpoint) == PTC_OK) {
    step = matches(run, &checkpoint) ? checkpoint.state.step : -2;
    ptc_checkpoint_close(&checkpoint);
  }
  CU_ASSERT_EQUAL(step == -1, diag.num_errors > 0);
  ptc_diag_deinit(&diag);
  return step;
}

static int64_t count_entries(const run_t *run, const char *pattern) {
  char command[160];
  snprintf(command, sizeof(command), "ls -A '%s/ckpt' | grep -c '%s'", run->folder, pattern);
  FILE *out = popen(command, "r");
  long long count = -1;
  CU_ASSERT_EQUAL(fscanf(out, "%lld", &count), 1);
  pclose(out);
  return count;
}

// --- tests

static void test_round_trip(void) {
  run_t *run = run_new("deep/er/run", 10000);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_checkpoint_t checkpoint;
  CU_ASSERT_EQUAL(ptc_checkpoint_open_latest(&diag, run->folder, true, &checkpoint), PTC_IO);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "no-checkpoint");
  ptc_diag_deinit(&diag);
  ptc_diag_init(&diag);
  for (int64_t step = 10; step <= 50; step += 10)
    CU_ASSERT_EQUAL(save(run, &diag, step, 3), PTC_OK);
  CU_ASSERT_EQUAL(count_entries(run, "^step-000000[345]0$"), 3);
  CU_ASSERT_EQUAL(count_entries(run, "."), 3);
  CU_ASSERT_EQUAL_FATAL(ptc_checkpoint_open_latest(&diag, run->folder, false, &checkpoint), PTC_OK);
  const ptc_checkpoint_state_t *state = &checkpoint.state;
  CU_ASSERT(state->step == 50 && state->position == 400 && state->seed == UINT64_MAX - 3);
  CU_ASSERT_STRING_EQUAL(state->model, "gpt2");
  CU_ASSERT_EQUAL_FATAL(state->num_settings, 2);
  for (int i = 0; i < 2; i++)
    CU_ASSERT(strcmp(state->settings[i].value,
                     state->settings[i].name[0] == 't' ? "0.0006" : "\"x y\"\n") == 0);
  CU_ASSERT(matches(run, &checkpoint));
  // Of another shape, another dtype, another name.
  ptc_host_tensor_t odd = run->model[0];
  odd.shape[0]--;
  CU_ASSERT_EQUAL(ptc_checkpoint_load(&diag, &checkpoint, &odd, 1), PTC_INVALID_INPUT);
  odd = run->model[1];
  odd.dtype = PTC_F16;
  CU_ASSERT_EQUAL(ptc_checkpoint_load(&diag, &checkpoint, &odd, 1), PTC_INVALID_INPUT);
  odd.name = "block.2.w";
  CU_ASSERT_EQUAL(ptc_checkpoint_load(&diag, &checkpoint, &odd, 1), PTC_INVALID_INPUT);
  CU_ASSERT_EQUAL(diag.num_errors, 3);
  CU_ASSERT_STRING_EQUAL(diag.items[2].id, "checkpoint-tensor");
  ptc_checkpoint_close(&checkpoint);
  ptc_diag_deinit(&diag);

  // Again at a step that is there, and at one before: the later ones make way.
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(save(run, &diag, 50, 3), PTC_OK);
  CU_ASSERT_EQUAL(latest(run, false), 50);
  CU_ASSERT_EQUAL(save(run, &diag, 35, 1), PTC_OK);
  CU_ASSERT_EQUAL(latest(run, false), 35);
  CU_ASSERT_EQUAL(count_entries(run, "^step-"), 1);
  CU_ASSERT_EQUAL(count_entries(run, "^superseded-step-000000[45]0$"), 2);
  CU_ASSERT_EQUAL(count_entries(run, "."), 3);
  CU_ASSERT_EQUAL(save(run, &diag, 123456789, 0), PTC_OK);
  CU_ASSERT_EQUAL(latest(run, false), 123456789);
  CU_ASSERT_EQUAL(count_entries(run, "^step-"), 2);
  ptc_diag_deinit(&diag);
  free(run);
}

static char *read_file(const char *path, size_t *out_len) {
  char *text = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_read_file(path, &text, out_len), PTC_OK);
  return text;
}

static void write_file(const char *path, const char *text, size_t len) {
  FILE *file = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  fwrite(text, 1, len, file);
  fclose(file);
}

// Any byte of any file: refused with the file's name (or it meant the same: spaces of the manifest).
static void test_damage(void) {
  static const char *const files[] = {"manifest.json", "model.safetensors",
                                      "optimizer.safetensors"};
  run_t *run = run_new("damage", 12);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(save(run, &diag, 1, 0), PTC_OK);
  CU_ASSERT_EQUAL(save(run, &diag, 2, 0), PTC_OK);
  ptc_diag_deinit(&diag);
  uint64_t random = unit_seed();
  for (int f = 0; f < 3; f++) {
    char path[192];
    snprintf(path, sizeof(path), "%s/ckpt/step-00000002/%s", run->folder, files[f]);
    size_t len;
    char *good = read_file(path, &len);
    for (size_t i = 0; i <= len + 1; i++) {
      char *bad = malloc(len + 2);
      memcpy(bad, good, len);
      size_t bad_len = len;
      if (i < len)
        bad[i] = (char)(bad[i] ^ (1 + unit_random(&random) % 255));
      else if (i == len)
        bad_len = unit_random(&random) % len;
      else
        bad[bad_len++] = ' ';
      write_file(path, bad, bad_len);
      ptc_diag_init(&diag);
      ptc_checkpoint_t checkpoint;
      ptc_status_t status = ptc_checkpoint_open_latest(&diag, run->folder, false, &checkpoint);
      if (status == PTC_OK) {
        UNIT_CHECK(f == 0 && matches(run, &checkpoint), path);
        ptc_checkpoint_close(&checkpoint);
      } else {
        UNIT_CHECK(diag.num_errors == 1 && strstr(diag.items[0].message, files[f]), path);
        CU_ASSERT_EQUAL(latest(run, true), 1);
      }
      ptc_diag_deinit(&diag);
      free(bad);
    }
    unlink(path);
    CU_ASSERT_EQUAL(latest(run, false), -1);
    CU_ASSERT_EQUAL(latest(run, true), 1);
    write_file(path, good, len);
    CU_ASSERT_EQUAL(latest(run, false), 2);
    free(good);
  }
  free(run);
}

// Which tensor is damaged, and how to go on, are said.
static void test_words(void) {
  run_t *run = run_new("words", 64);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(save(run, &diag, 1, 0), PTC_OK);
  CU_ASSERT_EQUAL(save(run, &diag, 2, 0), PTC_OK);
  char path[192];
  snprintf(path, sizeof(path), "%s/ckpt/step-00000002/model.safetensors", run->folder);
  size_t len;
  char *text = read_file(path, &len);
  text[len - 1] ^= 1;
  write_file(path, text, len);
  free(text);
  ptc_checkpoint_t checkpoint;
  CU_ASSERT_EQUAL(ptc_checkpoint_open_latest(&diag, run->folder, false, &checkpoint),
                  PTC_INVALID_INPUT);
  CU_ASSERT_EQUAL_FATAL(diag.num_items, 2);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "bad-checkpoint");
  CU_ASSERT_PTR_NOT_NULL(
      strstr(diag.items[0].message, "model.safetensors\": it is damaged: \"block.1.w\""));
  CU_ASSERT_EQUAL(diag.items[1].severity, PTC_NOTE);
  CU_ASSERT_PTR_NOT_NULL(strstr(diag.items[1].message, "/ckpt/step-00000001\""));
  CU_ASSERT_EQUAL(ptc_checkpoint_open_latest(&diag, run->folder, true, &checkpoint), PTC_OK);
  CU_ASSERT_EQUAL(checkpoint.state.step, 1);
  CU_ASSERT_EQUAL(diag.num_errors, 1);
  CU_ASSERT_EQUAL(diag.items[2].severity, PTC_WARNING);
  ptc_checkpoint_close(&checkpoint);
  ptc_diag_deinit(&diag);
  free(run);
}

// A child saves one checkpoint after the other and tells which are done; it is killed at some instant.
static int64_t save_until_killed(run_t *run, int64_t step, useconds_t after_us) {
  int pipe_ends[2];
  CU_ASSERT_EQUAL_FATAL(pipe(pipe_ends), 0);
  pid_t child = fork();
  if (child == 0) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    for (;; step++) {
      if (save(run, &diag, step, 2) != PTC_OK) _exit(1);
      if (write(pipe_ends[1], &step, sizeof(step)) != sizeof(step)) _exit(1);
    }
  }
  close(pipe_ends[1]);
  usleep(after_us);
  kill(child, SIGKILL);
  int status;
  waitpid(child, &status, 0);
  CU_ASSERT(WIFSIGNALED(status));
  int64_t done = -1;
  for (int64_t next; read(pipe_ends[0], &next, sizeof(next)) == sizeof(next);) done = next;
  close(pipe_ends[0]);
  return done;
}

static int64_t now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void test_killed(void) {
  enum { NUM_KILLS = 40 };
  run_t *run = run_new("killed", 8000);
  uint64_t random = unit_seed();
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(save(run, &diag, 0, 2), PTC_OK);
  const int64_t begin_us = now_us();
  for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(save(run, &diag, 0, 2), PTC_OK);
  ptc_diag_deinit(&diag);
  // Most children finish some, and most are in the middle of one; a slow machine gives them more time.
  uint64_t longest_us = (uint64_t)(now_us() - begin_us) + 4000;
  if (longest_us > 1000000) longest_us = 1000000;
  int64_t step = 0, during = 0;
  for (int i = 0; i < NUM_KILLS; i++) {
    int64_t done =
        save_until_killed(run, step + 1, (useconds_t)(unit_random(&random) % longest_us));
    int64_t found = latest(run, false);
    CU_ASSERT(found >= step && found >= done);
    CU_ASSERT(found <= (done < 0 ? step : done) + 1);  // at most the one that was about to be told
    during += count_entries(run, "\\.tmp$") > 0;
    step = found;
  }
  printf("(%lld saved, killed within %lld) ", (long long)step, (long long)during);
  CU_ASSERT(step + during > 0);  // with a machine so busy that children get nowhere
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(save(run, &diag, step + 1, 2), PTC_OK);  // cleans up
  CU_ASSERT_EQUAL(count_entries(run, "."), 2);
  ptc_diag_deinit(&diag);
  free(run);
}

// Files cannot grow beyond some bytes: an error, nothing new, the latest one as before.
static void test_full_disk(void) {
  run_t *run = run_new("full", 8000);
  uint64_t random = unit_seed();
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(save(run, &diag, 7, 2), PTC_OK);
  ptc_diag_deinit(&diag);
  for (int i = 0; i < 30; i++) {
    rlim_t limit = i == 0 ? 0 : unit_random(&random) % 32000;
    pid_t child = fork();
    if (child == 0) {
      signal(SIGXFSZ, SIG_IGN);
      setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit});
      ptc_diag_init(&diag);
      ptc_status_t status = save(run, &diag, i % 2 ? 7 : 8, 2);  // 7 would replace what is there
      _exit(status == PTC_IO && diag.num_errors == 1 && !strcmp(diag.items[0].id, "write-file")
                ? 0
                : 1);
    }
    int status;
    waitpid(child, &status, 0);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CU_ASSERT_EQUAL(latest(run, false), 7);
    CU_ASSERT_EQUAL(count_entries(run, "."), 1);
  }
  free(run);
}

static void test_no_folder(void) {
  run_t *run = run_new("file/run", 12);
  char path[96];
  snprintf(path, sizeof(path), "%s/file", base);
  write_file(path, "x", 1);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(save(run, &diag, 1, 0), PTC_IO);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "write-file");
  ptc_checkpoint_t checkpoint;
  CU_ASSERT_EQUAL(ptc_checkpoint_open(&diag, "/nonexistent", &checkpoint), PTC_IO);
  CU_ASSERT_STRING_EQUAL(diag.items[1].id, "read-file");
  ptc_diag_deinit(&diag);
  free(run);
}

// What JSON cannot hold is not left out in silence.
static void test_no_text(void) {
  run_t *run = run_new("text", 12);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_checkpoint_setting_t setting = {"data", "\xff"};
  ptc_checkpoint_state_t state = {.model = "m", .settings = &setting, .num_settings = 1};
  CU_ASSERT_EQUAL(ptc_checkpoint_write(&diag, run->folder, &state, run->model, 1, NULL, 0, 0),
                  PTC_IO);
  CU_ASSERT_EQUAL(diag.num_errors, 1);
  state = (ptc_checkpoint_state_t){.model = "\xff"};
  CU_ASSERT_EQUAL(ptc_checkpoint_write(&diag, run->folder, &state, run->model, 1, NULL, 0, 0),
                  PTC_IO);
  CU_ASSERT_EQUAL(diag.num_errors, 2);
  ptc_diag_deinit(&diag);
  CU_ASSERT_EQUAL(latest(run, true), -1);
  free(run);
}

static const unit_test_t tests[] = {
    {"set up", test_set_up},       {"round trip", test_round_trip}, {"damage", test_damage},
    {"words", test_words},         {"killed", test_killed},         {"full disk", test_full_disk},
    {"no folder", test_no_folder}, {"no text", test_no_text},       {"clean up", test_clean_up},
};
UNIT_MAIN("checkpoint", tests)
