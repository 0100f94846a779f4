// Proves: kernels that are compiled in other processes come back whole; one that makes NVRTC crash, end or hang is named
// and tried in other ways; neither an interrupt nor the end of the caller leaves a process behind.
#include "codegen/nvrtc_pool.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "tests/support/unit.h"

enum { MAX_KERNELS = 32 };

#define HEAD "// mul  (a.ptm:41)\n"
#define KERNEL(bounds) "__global__ void __launch_bounds__(" bounds ") k() {}"

// One run with the library of tests/support/fake.
typedef struct run_s {
  ptc_diag_t diag;
  ptc_nvrtc_t *nvrtc;
  ptc_nvrtc_pool_t *pool;
  ptc_nvrtc_job_t jobs[MAX_KERNELS];
  ptc_status_t status;
} run_t;

static void run_open(run_t *run, int32_t num_workers, const volatile sig_atomic_t *cancel) {
  *run = (run_t){.status = PTC_INTERNAL};
  setenv("PTC_NVRTC", PTC_BINARY_DIR "/libfake_nvrtc.so", 1);
  ptc_diag_init(&run->diag);
  run->nvrtc = ptc_nvrtc_open(&run->diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(run->nvrtc);
  run->pool = ptc_nvrtc_pool_create(&run->diag, run->nvrtc, num_workers, cancel);
}

static void run_jobs(run_t *run, const char *target, const char *const *sources, int32_t count) {
  CU_ASSERT_PTR_NOT_NULL_FATAL(run->pool);
  for (int32_t i = 0; i < count; i++)
    run->jobs[i] = (ptc_nvrtc_job_t){.name = "k", .source = sources[i]};
  run->status = ptc_nvrtc_pool_compile(run->pool, &run->diag, target, run->jobs, count);
}

static void run_close(run_t *run) {
  for (int32_t i = 0; i < MAX_KERNELS; i++) free(run->jobs[i].code);
  ptc_nvrtc_pool_destroy(run->pool);
  ptc_nvrtc_close(run->nvrtc);
  ptc_diag_deinit(&run->diag);
  unsetenv("PTC_NVRTC");
  UNIT_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no process is left");
}

// One kernel.
static void run_one(run_t *run, const char *source) {
  run_open(run, 2, NULL);
  run_jobs(run, "sm_100", &source, 1);
}

static bool reports(const run_t *run, const char *id, const char *text) {
  for (int64_t i = 0; i < run->diag.num_items; i++)
    if (strcmp(run->diag.items[i].id, id) == 0 && strstr(run->diag.items[i].message, text))
      return true;
  return false;
}

static bool ends_with(const char *text, const char *end) {
  return text && strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

// --- what works

// More kernels than processes, small and large ones, twice with the same processes.
static void test_results(void) {
  char *sources[MAX_KERNELS];
  for (int i = 0; i < MAX_KERNELS; i++) {
    const size_t len = i % 5 == 4 ? 1000000 : 10;
    sources[i] = calloc(1, len + 1);
    memset(sources[i], 'a' + i % 26, len);
  }
  for (int32_t workers = 1; workers <= 3; workers++) {
    run_t run;
    run_open(&run, workers, NULL);
    for (int turn = 0; turn < 2; turn++) {
      for (int i = 0; i < MAX_KERNELS; i++) free(run.jobs[i].code);
      run_jobs(&run, turn ? "compute_80" : "sm_90a", (const char *const *)sources, MAX_KERNELS);
      UNIT_CHECK(run.status == PTC_OK && run.diag.num_items == 0, "compiled");
      for (int i = 0; i < MAX_KERNELS; i++)
        UNIT_CHECK(ends_with(run.jobs[i].code, sources[i]) &&
                       strlen(run.jobs[i].code) == run.jobs[i].len &&
                       strstr(run.jobs[i].code, turn ? "=compute_80 " : "=sm_90a "),
                   "its own code");
    }
    run_close(&run);
  }
  for (int i = 0; i < MAX_KERNELS; i++) free(sources[i]);
}

static void test_failure(void) {
  run_t run;
  run_one(&run, "FAIL");
  UNIT_CHECK(run.status == PTC_INTERNAL && reports(&run, "nvrtc-failed", "a planted error"), "log");
  UNIT_CHECK(!run.jobs[0].code, "no code");
  run_close(&run);
}

// --- crashes

static void test_retried(void) {
  static const char *const sources[] = {"x",          HEAD "CRASH_AS_IS " KERNEL("256, 2"),
                                        "y",          "CRASH_BOUNDS " KERNEL("512"),
                                        "EXIT_AS_IS", "z"};
  run_t run;
  run_open(&run, 2, NULL);
  run_jobs(&run, "sm_100", sources, 6);
  UNIT_CHECK(run.status == PTC_OK && run.diag.num_items == 3 && run.diag.num_errors == 0,
             "three warnings");
  UNIT_CHECK(reports(&run, "nvrtc-retried",
                     "NVRTC 12.9 crashes with signal 11 (Segmentation fault) on kernel \"k\" for "
                     "sm_100; compiled without optimizations that take long"),
             "without optimizations");
  UNIT_CHECK(reports(&run, "nvrtc-retried", "compiled without launch bounds, "), "without bounds");
  UNIT_CHECK(reports(&run, "nvrtc-retried", "ends its process with status 7"), "status");
  for (int i = 0; i < 6; i++)
    UNIT_CHECK(run.jobs[i].code && (i == 3 || ends_with(run.jobs[i].code, sources[i])), "code");
  UNIT_CHECK(strstr(run.jobs[1].code, "--Ofast-compile=min"), "option");
  // 65536 registers are for 512 threads.
  UNIT_CHECK(strstr(run.jobs[3].code, "--maxrregcount=128 ") &&
                 strstr(run.jobs[3].code, "__global__ void ") &&
                 !strstr(run.jobs[3].code, "launch_bounds") &&
                 !strstr(run.jobs[3].code, "--Ofast-compile"),
             "registers");
  UNIT_CHECK(
      !strstr(run.jobs[0].code, "--maxrregcount") && !strstr(run.jobs[0].code, "--Ofast-compile"),
      "others as they are");
  run_close(&run);
}

static void test_crashed(void) {
  run_t run;
  run_one(&run, HEAD "CRASH " KERNEL("256"));
  UNIT_CHECK(run.status == PTC_DEVICE && !run.jobs[0].code, "no code");
  UNIT_CHECK(reports(&run, "nvrtc-crashed", "NVRTC 12.9 crashes with signal 11") &&
                 reports(&run, "nvrtc-crashed", "kernel \"k\" for sm_100") &&
                 reports(&run, "nvrtc-crashed", "PTC_NVRTC_DIR or CUDA_HOME"),
             "what it says");
  UNIT_CHECK(run.diag.items[0].loc.line == 41 && strcmp(run.diag.items[0].loc.file, "a.ptm") == 0,
             "the line");
  run_close(&run);
}

static void test_hung(void) {
  setenv("PTC_NVRTC_LIMIT", "0.3", 1);
  run_t run;
  run_one(&run, "HANG_AS_IS");
  UNIT_CHECK(run.status == PTC_OK && run.jobs[0].code &&
                 reports(&run, "nvrtc-retried", "NVRTC 12.9 is not done after 0.3 s"),
             "retried");
  run_close(&run);
  run_one(&run, "HANG");
  UNIT_CHECK(run.status == PTC_DEVICE &&
                 reports(&run, "nvrtc-crashed", "is not done after 0.3 s") &&
                 reports(&run, "nvrtc-crashed", "PTC_NVRTC_LIMIT"),
             "given up");
  run_close(&run);
  unsetenv("PTC_NVRTC_LIMIT");
}

static void test_no_worker(void) {
  run_t run;
  setenv("PTC_NVRTC_WORKER", "/nowhere/ptc-nvrtc", 1);
  run_open(&run, 1, NULL);
  UNIT_CHECK(!run.pool && reports(&run, "nvrtc-worker", "/nowhere/ptc-nvrtc"), "not there");
  run_close(&run);
  setenv("PTC_NVRTC_WORKER", "/bin/false", 1);
  run_one(&run, "x");
  UNIT_CHECK(run.status == PTC_DEVICE && reports(&run, "nvrtc-worker", "ends with status 1"),
             "another program");
  run_close(&run);
  unsetenv("PTC_NVRTC_WORKER");
}

// --- the end

static void sleep_s(double seconds) {
  nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * seconds)}, NULL);
}

// The process that compiles, as it says in |path|; waits for it.
static pid_t read_pid(const char *path) {
  int pid = 0;
  for (int i = 0; i < 1000 && pid == 0; i++) {
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%d\n", &pid) != 1) pid = 0;
    if (file) fclose(file);
    sleep_s(0.01);
  }
  return (pid_t)pid;
}

static volatile sig_atomic_t cancelled;
static void cancel(int number) { cancelled = number; }

static void test_cancelled(void) {
  struct sigaction action = {.sa_handler = cancel}, before;
  sigaction(SIGALRM, &action, &before);
  cancelled = 0;
  run_t run;
  run_open(&run, 2, &cancelled);
  const double begin = ptc_now_s();
  alarm(1);
  run_jobs(&run, "sm_80", (const char *[]){"HANG", "HANG", "x"}, 3);
  UNIT_CHECK(run.status == PTC_IO && reports(&run, "compile-cancelled", "interrupted"), "told");
  UNIT_CHECK(ptc_now_s() - begin < 60, "at once");
  run_close(&run);
  sigaction(SIGALRM, &before, NULL);
}

// A caller that is killed, or that ends while a process of its compiles.
static void test_caller_ends(void) {
  char path[] = PTC_BINARY_DIR "/nvrtc-pids-XXXXXX";
  const int fd = mkstemp(path);
  CU_ASSERT_FATAL(fd >= 0);
  setenv("FAKE_NVRTC_PIDS", path, 1);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t caller = fork();
  if (caller == 0) {
    run_t run;
    run_one(&run, "HANG");
    _exit(1);
  }
  const pid_t worker = read_pid(path);
  UNIT_CHECK(worker > 0 && kill(worker, 0) == 0, "it compiles");
  // What a terminal sends to all is the caller's to handle.
  kill(worker, SIGINT);
  kill(worker, SIGTERM);
  sleep_s(0.1);
  UNIT_CHECK(worker > 0 && waitpid(worker, NULL, WNOHANG) <= 0 && kill(worker, 0) == 0,
             "it still does");
  kill(caller, SIGKILL);
  UNIT_CHECK(waitpid(caller, NULL, 0) == caller, "killed");
  int status = -1;
  pid_t ended = 0;
  for (int i = 0; i < 1000 && ended == 0; i++) {
    ended = waitpid(worker, &status, WNOHANG);
    sleep_s(0.01);
  }
  UNIT_CHECK(ended == worker && WIFEXITED(status), "it ends, too");
  if (worker > 0 && ended != worker) kill(worker, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  unsetenv("FAKE_NVRTC_PIDS");
  close(fd);
  unlink(path);
}

static const unit_test_t tests[] = {
    {"results", test_results},     {"failure", test_failure},
    {"retried", test_retried},     {"crashed", test_crashed},
    {"hung", test_hung},           {"no worker", test_no_worker},
    {"cancelled", test_cancelled}, {"caller ends", test_caller_ends}};
UNIT_MAIN("nvrtc pool", tests)
