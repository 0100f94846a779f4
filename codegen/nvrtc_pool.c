#include "codegen/nvrtc_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/nvrtc_message.h"
#include "ir/base/clock.h"

#ifndef PTC_WORKER_FOLDER
#define PTC_WORKER_FOLDER "/../lib/ptc"  // from the program's folder, where it is installed
#endif

extern char **environ;

enum { PATH_BYTES = 1024, MAX_WORKERS = 64, POLL_MS = 50, LIMIT_S = 600, MAX_CODE_BYTES = 1 << 30 };

// --- how a kernel is compiled: as it is, or, when NVRTC died of it, differently

enum { AS_IS, QUICK, BOUNDED, QUICK_BOUNDED, NUM_WAYS };
static const char *const way_names[NUM_WAYS] = {
    "as it is", "without optimizations that take long", "without launch bounds",
    "without launch bounds and optimizations that take long"};

static const char bounds_word[] = "__launch_bounds__(";
enum { REGISTERS_OF_BLOCK = 65536, MAX_REGISTERS = 255 };

// So many registers of a thread let a block of the launch bounds of |source| run on every target.
static int32_t registers_within(const char *source) {
  const char *bounds = strstr(source, bounds_word);
  const long threads = bounds ? strtol(bounds + sizeof bounds_word - 1, NULL, 10) : 0;
  // They are given out in eights.
  const long registers = REGISTERS_OF_BLOCK / (threads > 0 ? threads : 1024) / 8 * 8;
  return registers > MAX_REGISTERS ? MAX_REGISTERS : (int32_t)registers;
}

// The lines stay.
static void blank_bounds(char *source) {
  for (char *at = source; (at = strstr(at, bounds_word));)
    for (int depth = 0; *at; at++) {
      depth += (*at == '(') - (*at == ')');
      const bool last = *at == ')' && depth == 0;
      if (*at != '\n') *at = ' ';
      if (last) break;
    }
}

// --- processes

typedef struct worker_s {
  pid_t pid;         // 0: none
  int fd;            // our end of its socket
  bool ready;        // it has NVRTC loaded
  int32_t job, way;  // what it is on; job < 0: nothing
  double begin;      // when it got that
  bool hung;         // it was on it for too long
  int death;         // what waitpid said of the first that died of this job
  ptc_str_t out;     // the request
  size_t sent;
  ptc_nvrtc_reply_t head;
  char *code;  // what comes after |head|
  size_t received;
} worker_t;

struct ptc_nvrtc_pool_s {
  const ptc_nvrtc_t *nvrtc;
  char program[PATH_BYTES];
  int32_t num_workers;
  double limit_s;  // 0: none
  const volatile sig_atomic_t *cancel;
  worker_t workers[];
};

// Starts |worker|'s process: its standard input is a socket, its output nowhere. Ctrl-C and the like, which may go to all
// processes of a terminal, are the parent's to handle; its end ends this one. 0, or an errno.
static int start(const ptc_nvrtc_pool_t *pool, worker_t *worker) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t blocked, all;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGHUP);
  sigfillset(&all);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  // The words are only read.
  const int error = posix_spawn(&worker->pid, pool->program, &actions, &attributes,
                                (char *const[]){(char *)(uintptr_t) "ptc-nvrtc", NULL}, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    close(ends[0]);
    if (!error) kill(worker->pid, SIGKILL);
    if (!error) waitpid(worker->pid, NULL, 0);
    worker->pid = 0;
    return error ? error : EIO;
  }
  worker->fd = ends[0];
  worker->ready = false;
  return 0;
}

static void drop_reply(worker_t *worker) {
  free(worker->code);
  worker->code = NULL;
  worker->received = 0;
}

// Ends the process, if it has not ended; what waitpid says of it.
static int stop(worker_t *worker, bool by_force) {
  int status = 0;
  if (!worker->pid) return status;
  if (by_force) kill(worker->pid, SIGKILL);
  close(worker->fd);
  while (waitpid(worker->pid, &status, 0) < 0)
    if (errno != EINTR) break;
  drop_reply(worker);
  ptc_str_deinit(&worker->out);
  worker->pid = 0;
  return status;
}

// --- the pool

static bool find_program(char *path) {
  const char *named = getenv("PTC_NVRTC_WORKER");
  static const char *const folders[] = {"", "/..", PTC_WORKER_FOLDER};
  char self[PATH_BYTES / 2];
  const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  self[len > 0 ? len : 0] = '\0';
  char *slash = strrchr(self, '/');
  if (slash) *slash = '\0';
  for (size_t i = 0; i < (named ? 1 : sizeof folders / sizeof *folders); i++) {
    if (named)
      snprintf(path, PATH_BYTES, "%s", named);
    else
      snprintf(path, PATH_BYTES, "%s%s/ptc-nvrtc", self, folders[i]);
    if (access(path, X_OK) == 0) return true;
  }
  return false;
}

ptc_nvrtc_pool_t *ptc_nvrtc_pool_create(ptc_diag_t *diag, const ptc_nvrtc_t *nvrtc,
                                        int32_t num_workers, const volatile sig_atomic_t *cancel) {
  if (num_workers < 1) num_workers = 1;
  if (num_workers > MAX_WORKERS) num_workers = MAX_WORKERS;
  const size_t bytes = sizeof(ptc_nvrtc_pool_t) + sizeof(worker_t) * (size_t)num_workers;
  ptc_nvrtc_pool_t *pool = ptc_xmalloc(bytes);
  memset(pool, 0, bytes);
  const char *limit = getenv("PTC_NVRTC_LIMIT");
  pool->nvrtc = nvrtc;
  pool->num_workers = num_workers;
  pool->limit_s = limit && *limit ? strtod(limit, NULL) : LIMIT_S;
  pool->cancel = cancel;
  if (find_program(pool->program)) return pool;
  ptc_error(
      diag, (ptc_loc_t){0}, PTC_DEVICE, "nvrtc-worker",
      "the program ptc-nvrtc, in which NVRTC runs, is not at %s; install ptc as a whole, or name "
      "the program's file in PTC_NVRTC_WORKER",
      pool->program);
  free(pool);
  return NULL;
}

void ptc_nvrtc_pool_destroy(ptc_nvrtc_pool_t *pool) {
  if (!pool) return;
  for (int32_t w = 0; w < pool->num_workers; w++) stop(&pool->workers[w], true);
  free(pool);
}

// --- a run: jobs go to idle workers

typedef struct run_s {
  ptc_nvrtc_pool_t *pool;
  ptc_diag_t *diag;
  const char *target;
  ptc_nvrtc_job_t *jobs;
  int32_t num_jobs, next, num_done;
} run_t;

// "gpt2.ptm:33" at the end of the comment that |source| begins with.
static ptc_loc_t place_of(const char *source, char *file) {
  const size_t len = strcspn(source, "\n");
  const char *end =
      len > 3 && strncmp(source, "//", 2) == 0 && source[len - 1] == ')' ? source + len - 1 : NULL;
  const char *colon = end, *begin;
  while (colon && colon > source && *colon != ':') colon--;
  for (begin = colon; begin && begin > source && *begin != '(';) begin--;
  if (!begin || begin == source || colon - begin >= PATH_BYTES) return (ptc_loc_t){0};
  memcpy(file, begin + 1, (size_t)(colon - begin - 1));
  file[colon - begin - 1] = '\0';
  return (ptc_loc_t){.file = file, .line = (int32_t)strtol(colon + 1, NULL, 10), .column = 1};
}

// How the first process that the job had ended, in words.
static void describe_death(const run_t *run, const worker_t *worker, ptc_str_t *out) {
  const int version = ptc_nvrtc_version(run->pool->nvrtc);
  ptc_str_printf(out, "NVRTC %d.%d ", version / 1000, version % 1000 / 10);
  if (worker->hung)
    ptc_str_printf(out, "is not done after %g s", run->pool->limit_s);
  else if (WIFSIGNALED(worker->death))
    ptc_str_printf(out, "crashes with signal %d (%s)", WTERMSIG(worker->death),
                   strsignal(WTERMSIG(worker->death)));
  else
    ptc_str_printf(out, "ends its process with status %d", WEXITSTATUS(worker->death));
  ptc_str_printf(out, " on kernel \"%s\" for %s", run->jobs[worker->job].name, run->target);
}

static void compose(const run_t *run, worker_t *worker) {
  const ptc_nvrtc_job_t *job = &run->jobs[worker->job];
  const bool bounded = worker->way == BOUNDED || worker->way == QUICK_BOUNDED;
  const ptc_nvrtc_request_t head = {.magic = PTC_NVRTC_REQUEST,
                                    .quick = worker->way == QUICK || worker->way == QUICK_BOUNDED,
                                    .max_registers = bounded ? registers_within(job->source) : 0,
                                    .name_bytes = (uint32_t)strlen(job->name) + 1,
                                    .target_bytes = (uint32_t)strlen(run->target) + 1,
                                    .source_bytes = (uint32_t)strlen(job->source) + 1};
  ptc_str_deinit(&worker->out);
  worker->sent = 0;
  ptc_str_append_n(&worker->out, (const char *)&head, sizeof head);
  ptc_str_append_n(&worker->out, job->name, head.name_bytes);
  ptc_str_append_n(&worker->out, run->target, head.target_bytes);
  const size_t source = worker->out.len;
  ptc_str_append_n(&worker->out, job->source, head.source_bytes);
  if (bounded) blank_bounds(worker->out.data + source);
  worker->begin = ptc_now_s();
}

// Gives |worker| its job, in the way it says.
static ptc_status_t give(run_t *run, worker_t *worker) {
  const int error = worker->pid ? 0 : start(run->pool, worker);
  if (error)
    return ptc_error(run->diag, (ptc_loc_t){0}, PTC_DEVICE, "nvrtc-worker",
                     "cannot start %s, in which NVRTC runs: %s", run->pool->program,
                     strerror(error));
  compose(run, worker);
  return PTC_OK;
}

static ptc_status_t give_up(run_t *run, worker_t *worker) {
  char file[PATH_BYTES];
  ptc_str_t what = {0};
  describe_death(run, worker, &what);
  ptc_status_t status = ptc_error(
      run->diag, place_of(run->jobs[worker->job].source, file), PTC_DEVICE, "nvrtc-crashed",
      "%s, %s; it is a fault of NVRTC: take another release of the CUDA toolkit, whose folder "
      "PTC_NVRTC_DIR or CUDA_HOME names",
      what.data,
      worker->hung ? "also with fewer optimizations; PTC_NVRTC_LIMIT sets how long it may take"
                   : "also with fewer optimizations and without launch bounds");
  ptc_str_deinit(&what);
  return status;
}

// The next way, in the same process if it still runs.
static ptc_status_t try_next_way(run_t *run, worker_t *worker) {
  // A hang costs its whole limit: it is given one more chance.
  if (++worker->way >= (worker->hung ? BOUNDED : NUM_WAYS)) return give_up(run, worker);
  return give(run, worker);
}

static ptc_status_t died(run_t *run, worker_t *worker, bool hung) {
  const int death = stop(worker, hung);
  if (!worker->ready && !hung)
    return ptc_error(run->diag, (ptc_loc_t){0}, PTC_DEVICE, "nvrtc-worker",
                     "%s, in which NVRTC runs, ends with %s %d before it has loaded NVRTC",
                     run->pool->program, WIFSIGNALED(death) ? "signal" : "status",
                     WIFSIGNALED(death) ? WTERMSIG(death) : WEXITSTATUS(death));
  if (worker->way == AS_IS) worker->death = death;
  worker->hung |= hung;
  return try_next_way(run, worker);
}

static void finish(run_t *run, worker_t *worker) {
  ptc_nvrtc_job_t *job = &run->jobs[worker->job];
  job->code = worker->code;
  job->len = (size_t)worker->head.bytes;
  job->resources = worker->head.resources;
  worker->code = NULL;
  run->num_done++;
  if (worker->way != AS_IS) {
    char file[PATH_BYTES];
    ptc_str_t what = {0};
    describe_death(run, worker, &what);
    ptc_warning(run->diag, place_of(job->source, file), "nvrtc-retried",
                "%s; compiled %s, it may be slower", what.data, way_names[worker->way]);
    ptc_str_deinit(&what);
  }
  worker->job = -1;
}

// A whole reply is here.
static ptc_status_t take_reply(run_t *run, worker_t *worker) {
  const ptc_status_t said = (ptc_status_t)worker->head.status;
  ptc_status_t status = PTC_OK;
  if (said == PTC_OK && !worker->ready)
    worker->ready = true;
  else if (said == PTC_OK)
    finish(run, worker);
  else if (worker->ready && worker->way != AS_IS)
    status = try_next_way(run, worker);  // an older NVRTC may not know an option
  else
    status = ptc_error(run->diag, (ptc_loc_t){0}, said,
                       worker->ready ? "nvrtc-failed" : "nvrtc-missing", "%s", worker->code);
  drop_reply(worker);
  return status;
}

// --- moving bytes

// That the other end is closed shows when we receive.
static void send_some(worker_t *worker) {
  const ssize_t put = send(worker->fd, worker->out.data + worker->sent,
                           worker->out.len - worker->sent, MSG_NOSIGNAL);
  if (put > 0) worker->sent += (size_t)put;
}

// Receives what there is. False: the process has ended, or says what it should not.
static bool receive_some(worker_t *worker) {
  for (;;) {
    const bool in_head = worker->received < sizeof worker->head;
    const size_t end = sizeof worker->head + (in_head ? 0 : (size_t)worker->head.bytes);
    if (!in_head && worker->received == end) return true;
    char *to = in_head ? (char *)&worker->head + worker->received
                       : worker->code + (worker->received - sizeof worker->head);
    const ssize_t got = recv(worker->fd, to, end - worker->received, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    worker->received += (size_t)got;
    if (in_head && worker->received == sizeof worker->head) {
      if (worker->head.magic != PTC_NVRTC_REPLY || worker->head.bytes > MAX_CODE_BYTES)
        return false;
      worker->code = ptc_xmalloc((size_t)worker->head.bytes + 1);
      worker->code[worker->head.bytes] = '\0';
    }
  }
}

static ptc_status_t look_after(run_t *run, worker_t *worker, short events) {
  if (events & POLLOUT) send_some(worker);
  if (events & (POLLIN | POLLHUP | POLLERR)) {
    if (!receive_some(worker)) return died(run, worker, false);
    if (worker->code && worker->received == sizeof worker->head + worker->head.bytes)
      return take_reply(run, worker);
  }
  const double limit = run->pool->limit_s;
  if (limit > 0 && ptc_now_s() - worker->begin > limit) return died(run, worker, true);
  return PTC_OK;
}

// Waits for what the workers say, or a moment.
static ptc_status_t turn(run_t *run) {
  ptc_nvrtc_pool_t *pool = run->pool;
  struct pollfd ends[MAX_WORKERS];
  for (int32_t w = 0; w < pool->num_workers; w++) {
    worker_t *worker = &pool->workers[w];
    if (worker->job < 0 && run->next < run->num_jobs) {
      worker->job = run->next++;
      worker->way = AS_IS;
      worker->hung = false;
      PTC_TRY(give(run, worker));
    }
    const bool sends = worker->sent < worker->out.len;
    ends[w] = (struct pollfd){.fd = worker->job < 0 ? -1 : worker->fd,
                              .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
  }
  if (poll(ends, (nfds_t)pool->num_workers, POLL_MS) < 0) return PTC_OK;
  for (int32_t w = 0; w < pool->num_workers; w++)
    if (pool->workers[w].job >= 0) PTC_TRY(look_after(run, &pool->workers[w], ends[w].revents));
  return PTC_OK;
}

ptc_status_t ptc_nvrtc_pool_compile(ptc_nvrtc_pool_t *pool, ptc_diag_t *diag, const char *target,
                                    ptc_nvrtc_job_t *jobs, int32_t num_jobs) {
  run_t run = {.pool = pool, .diag = diag, .target = target, .jobs = jobs, .num_jobs = num_jobs};
  for (int32_t k = 0; k < num_jobs; k++) jobs[k].code = NULL;
  for (int32_t w = 0; w < pool->num_workers; w++) pool->workers[w].job = -1;
  ptc_status_t status = PTC_OK;
  while (status == PTC_OK && run.num_done < num_jobs) {
    if (pool->cancel && *pool->cancel)
      status = ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "compile-cancelled",
                         "compiling the kernels was interrupted");
    else
      status = turn(&run);
  }
  // Those that are on a job no longer wanted.
  for (int32_t w = 0; w < pool->num_workers; w++)
    if (pool->workers[w].job >= 0) stop(&pool->workers[w], true);
  return status;
}
