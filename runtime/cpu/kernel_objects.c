#include "runtime/cpu/kernel_objects.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/str.h"
#include "runtime/cpu/compiler.h"
#include "runtime/cpu/cores.h"
#include "runtime/cpu/object_cache.h"
#include "runtime/hash.h"

enum { MAX_JOBS = 64, MAX_LOG_LINES = 12 };

typedef struct object_s {
  char key[PTC_HASH_CHARS + 1];
  void *handle;
  ptc_kernel_fn_t entry;
} object_t;

struct ptc_kernel_objects_s {
  int32_t count, num_compiled;
  object_t objects[];
};

// One build: the jobs take the missing sources one after the other.
typedef struct build_s {
  const ptc_kernel_source_t *sources;
  ptc_kernel_objects_t *objects;
  const ptc_compiler_t *compiler;
  const ptc_object_cache_t *cache;
  int32_t *missing;  // numbers of sources
  int32_t num_missing;
  _Atomic int32_t next, num_done, num_running;
  _Atomic bool stop;
  _Atomic pid_t pids[MAX_JOBS];
  // Of the first job that failed; guarded by |mutex|.
  pthread_mutex_t mutex;
  int32_t failed;  // number of the source, -1: none
  char *failed_log;
  int failed_errno;  // 0: the compiler's log says why
} build_t;

typedef struct job_s {
  build_t *build;
  int32_t number;
} job_t;

static char *work_path(const build_t *build, int32_t source, const char *suffix) {
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/%d.%s", build->cache->work, (int)source, suffix);
  return path.data;
}

static bool write_file(const char *path, const char *text, size_t len) {
  FILE *file = fopen(path, "we");
  if (!file) return false;
  const bool ok = fwrite(text, 1, len, file) == len;
  return fclose(file) == 0 && ok;
}

static void fail(build_t *build, int32_t source, const char *log_path, int error) {
  pthread_mutex_lock(&build->mutex);
  if (!atomic_exchange(&build->stop, true)) {
    size_t len;
    build->failed = source;
    build->failed_errno = error;
    if (!error && ptc_read_file(log_path, &build->failed_log, &len) != PTC_OK)
      build->failed_errno = errno;
  }
  pthread_mutex_unlock(&build->mutex);
}

static void compile_one(build_t *build, int32_t source, _Atomic pid_t *pid) {
  char *text = work_path(build, source, "c"), *log = work_path(build, source, "log"),
       *object = work_path(build, source, "so");
  if (!write_file(text, build->sources[source].text, build->sources[source].len))
    fail(build, source, log, errno);
  else if (!ptc_compiler_run(build->compiler, &(const char *){text}, 1, object, log, pid))
    fail(build, source, log, 0);
  else if (ptc_object_cache_add(build->cache, build->objects->objects[source].key, object) !=
           PTC_OK)
    fail(build, source, log, errno);
  free(text);
  free(log);
  free(object);
}

static void *job_main(void *raw) {
  const job_t job = *(job_t *)raw;
  build_t *build = job.build;
  while (!atomic_load(&build->stop)) {
    const int32_t i = atomic_fetch_add(&build->next, 1);
    if (i >= build->num_missing) break;
    compile_one(build, build->missing[i], &build->pids[job.number]);
    atomic_fetch_add(&build->num_done, 1);
  }
  atomic_fetch_sub(&build->num_running, 1);
  return NULL;
}

// --- the build as a whole

static void show_progress(const build_t *build, bool terminal) {
  if (terminal)
    fprintf(stderr, "\r\033[Kcompiling %d/%d kernels", (int)atomic_load(&build->num_done),
            (int)build->num_missing);
}

// Runs the jobs until they end, or ends them.
static ptc_status_t run_jobs(ptc_diag_t *diag, build_t *build,
                             const ptc_kernel_objects_options_t *options) {
  int32_t num_jobs = options->num_jobs > 0 ? options->num_jobs : ptc_num_cores();
  if (num_jobs > MAX_JOBS) num_jobs = MAX_JOBS;
  if (num_jobs > build->num_missing) num_jobs = build->num_missing;
  const bool terminal = isatty(STDERR_FILENO);
  const double begin = ptc_now_s();
  if (options->progress && !terminal)
    fprintf(stderr, "compiling %d kernels\n", (int)build->num_missing);
  pthread_t threads[MAX_JOBS];
  job_t jobs[MAX_JOBS];
  int32_t num_started = 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals come to this thread
  for (; num_started < num_jobs; num_started++) {
    jobs[num_started] = (job_t){build, num_started};
    atomic_fetch_add(&build->num_running, 1);
    if (pthread_create(&threads[num_started], NULL, job_main, &jobs[num_started]) != 0) {
      atomic_fetch_sub(&build->num_running, 1);
      break;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (num_started == 0)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "thread-start", "cannot start a thread");
  bool cancelled = false;
  while (atomic_load(&build->num_running) > 0) {
    cancelled |= options->cancel && *options->cancel;
    if (cancelled) atomic_store(&build->stop, true);
    if (atomic_load(&build->stop))
      for (int32_t i = 0; i < num_started; i++) {
        const pid_t pid = atomic_load(&build->pids[i]);
        if (pid > 0) kill(-pid, SIGTERM);
      }
    if (options->progress) show_progress(build, terminal);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  for (int32_t i = 0; i < num_started; i++) pthread_join(threads[i], NULL);
  if (options->progress && terminal) fputs("\r\033[K", stderr);
  if (cancelled)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "compile-cancelled",
                     "interrupted while compiling kernels");
  if (options->progress && build->failed < 0)
    fprintf(stderr, "compiled %d kernels in %.1f s\n", (int)build->num_missing,
            ptc_now_s() - begin);
  return PTC_OK;
}

// The compiler's complaint, its first lines as notes.
static ptc_status_t report_failure(ptc_diag_t *diag, build_t *build) {
  const char *name = build->sources[build->failed].name;
  if (build->failed_errno)
    return ptc_error(diag, (ptc_loc_t){.file = build->cache->folder}, PTC_IO, "compile-failed",
                     "cannot keep kernel \"%s\" here: %s", name, strerror(build->failed_errno));
  ptc_error(diag, (ptc_loc_t){0}, PTC_INTERNAL, "compile-failed",
            "the C compiler \"%s\" does not compile kernel \"%s\"%s", build->compiler->words[0],
            name, build->failed_log[0] ? "; it says" : " and does not say why");
  char *save = NULL;
  int32_t num_lines = 0;
  for (char *line = strtok_r(build->failed_log, "\n", &save); line && num_lines < MAX_LOG_LINES;
       line = strtok_r(NULL, "\n", &save), num_lines++)
    ptc_note(diag, (ptc_loc_t){0}, "%s", line);
  return PTC_INTERNAL;
}

static ptc_status_t compile_missing(ptc_diag_t *diag, build_t *build,
                                    const ptc_kernel_objects_options_t *options) {
  if (build->num_missing == 0) return PTC_OK;
  pthread_mutex_init(&build->mutex, NULL);
  ptc_status_t status = run_jobs(diag, build, options);
  if (status == PTC_OK && build->failed >= 0) status = report_failure(diag, build);
  free(build->failed_log);
  pthread_mutex_destroy(&build->mutex);
  return status;
}

// --- keys and loading

static void make_key(const ptc_compiler_t *compiler, const ptc_kernel_source_t *source,
                     char out_key[PTC_HASH_CHARS + 1]) {
  ptc_str_t text = {0};
  ptc_str_printf(&text, "kernel abi %d\n%s\n%s\n", PTC_KERNEL_ABI, compiler->identity,
                 source->name);
  ptc_str_append_n(&text, source->text, source->len);
  ptc_hash(text.data, text.len, out_key);
  ptc_str_deinit(&text);
}

static ptc_status_t load(ptc_diag_t *diag, const ptc_object_cache_t *cache, const char *name,
                         object_t *object) {
  char *path = ptc_object_cache_path(cache, object->key);
  ptc_status_t status = PTC_OK;
  object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *entry = object->handle ? dlsym(object->handle, name) : NULL;
  if (!entry)
    status = ptc_error(diag, (ptc_loc_t){.file = path}, PTC_DEVICE, "object-load",
                       "cannot load kernel \"%s\": %s", name, dlerror());
  // POSIX wants a function's address to fit in void *; ISO C has no cast for it.
  memcpy(&object->entry, &entry, sizeof entry);
  free(path);
  return status;
}

// Several sources may have one key: equal kernels are compiled once.
static void find_missing(build_t *build) {
  object_t *objects = build->objects->objects;
  for (int32_t i = 0; i < build->objects->count; i++) {
    bool again = false;
    for (int32_t j = 0; j < build->num_missing && !again; j++)
      again = strcmp(objects[build->missing[j]].key, objects[i].key) == 0;
    if (!again && !ptc_object_cache_has(build->cache, objects[i].key))
      build->missing[build->num_missing++] = i;
  }
}

static int by_length(const void *a, const void *b, void *arg) {
  const ptc_kernel_source_t *sources = arg;
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  if (sources[x].len != sources[y].len) return sources[x].len < sources[y].len ? 1 : -1;
  return x < y ? -1 : x > y;
}

void ptc_kernel_sources_sort(const ptc_kernel_source_t *sources, int32_t *numbers, int32_t count) {
  // The sources are only read.
  qsort_r(numbers, (size_t)count, sizeof *numbers, by_length, (void *)(uintptr_t)sources);
}

static ptc_status_t build_all(ptc_diag_t *diag, const ptc_kernel_source_t *sources,
                              const ptc_kernel_objects_options_t *options,
                              const ptc_compiler_t *compiler, ptc_object_cache_t *cache,
                              ptc_kernel_objects_t *objects) {
  for (int32_t i = 0; i < objects->count; i++)
    make_key(compiler, &sources[i], objects->objects[i].key);
  build_t build = {.sources = sources,
                   .objects = objects,
                   .compiler = compiler,
                   .cache = cache,
                   .failed = -1,
                   .missing = ptc_xmalloc(sizeof(int32_t) * (size_t)(objects->count + 1))};
  find_missing(&build);
  ptc_kernel_sources_sort(sources, build.missing, build.num_missing);
  objects->num_compiled = build.num_missing;
  ptc_status_t status = PTC_OK;
  if (build.num_missing > 0) status = ptc_object_cache_prepare(diag, cache);
  if (status == PTC_OK) status = compile_missing(diag, &build, options);
  free(build.missing);
  for (int32_t i = 0; i < objects->count && status == PTC_OK; i++)
    status = load(diag, cache, sources[i].name, &objects->objects[i]);
  return status;
}

ptc_status_t ptc_kernel_objects_create(ptc_diag_t *diag, const ptc_kernel_source_t *sources,
                                       int32_t num_sources,
                                       const ptc_kernel_objects_options_t *options,
                                       ptc_kernel_objects_t **out_objects) {
  *out_objects = NULL;
  ptc_compiler_t compiler;
  ptc_object_cache_t cache;
  PTC_TRY(ptc_compiler_find(diag, options->target ? options->target : "cpu", &compiler));
  ptc_status_t status = ptc_object_cache_open(diag, options->cache_folder, &cache);
  if (status != PTC_OK) {
    ptc_compiler_deinit(&compiler);
    return status;
  }
  const size_t bytes = sizeof(ptc_kernel_objects_t) + sizeof(object_t) * (size_t)num_sources;
  ptc_kernel_objects_t *objects = ptc_xmalloc(bytes);
  memset(objects, 0, bytes);
  objects->count = num_sources;
  status = build_all(diag, sources, options, &compiler, &cache, objects);
  ptc_object_cache_close(&cache);
  ptc_compiler_deinit(&compiler);
  if (status == PTC_OK)
    *out_objects = objects;
  else
    ptc_kernel_objects_destroy(objects);
  return status;
}

void ptc_kernel_objects_destroy(ptc_kernel_objects_t *objects) {
  if (!objects) return;
  for (int32_t i = 0; i < objects->count; i++)
    if (objects->objects[i].handle) dlclose(objects->objects[i].handle);
  free(objects);
}

ptc_kernel_fn_t ptc_kernel_objects_entry(const ptc_kernel_objects_t *objects, int32_t index) {
  return objects->objects[index].entry;
}

int32_t ptc_kernel_objects_num_compiled(const ptc_kernel_objects_t *objects) {
  return objects->num_compiled;
}
