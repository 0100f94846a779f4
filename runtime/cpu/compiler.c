#include "runtime/cpu/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/vec.h"

extern char **environ;

// No -ffast-math: results must follow from the source alone (DESIGN.md section 7). Traps and errno are
// given up, since nobody looks at them and they keep loops scalar.
static const char *const common_flags[] = {
    "-std=c17",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fPIC",
    "-shared",
    "-w",
#ifdef PTC_SANITIZE
    // As the program itself, and compiled quickly: what is checked does not run for long.
    "-O0",
    "-g",
    ("-fsanitize=" PTC_SANITIZE),
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
#else
    "-O3",
#endif
};
enum { NUM_COMMON_FLAGS = sizeof common_flags / sizeof *common_flags };

// --- targets

static const struct {
  const char *name, *march;
} targets[] = {{"cpu", "native"},
               {"cpu:x86-64", "x86-64"},
               {"cpu:x86-64-v2", "x86-64-v2"},
               {"cpu:x86-64-v3", "x86-64-v3"},
               {"cpu:x86-64-v4", "x86-64-v4"}};
enum { NUM_TARGETS = sizeof targets / sizeof *targets };

const char *ptc_compiler_march(const char *target) {
  for (size_t i = 0; i < NUM_TARGETS; i++)
    if (strcmp(targets[i].name, target) == 0) return targets[i].march;
  return NULL;
}

ptc_status_t ptc_compiler_check_target(ptc_diag_t *diag, const char *target) {
  if (ptc_compiler_march(target)) return PTC_OK;
  const char *names[NUM_TARGETS];
  for (size_t i = 0; i < NUM_TARGETS; i++) names[i] = targets[i].name;
  const char *near = ptc_nearest_name(target, names, NUM_TARGETS);
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "unknown-target",
                   "there is no target \"%s\"; %s\"%s\"", target,
                   near ? "did you mean " : "there are cpu, cpu:x86-64-v2, cpu:x86-64-v3 and ",
                   near ? near : "cpu:x86-64-v4");
}

// What this CPU lacks of |march|, or NULL.
static const char *missing_feature(const char *march) {
  if (strcmp(march, "native") == 0) return NULL;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const int level = strcmp(march, "x86-64") == 0 ? 1 : march[strlen(march) - 1] - '0';
  if (level >= 2 && !__builtin_cpu_supports("sse4.2")) return "SSE4.2";
  if (level >= 3 && !__builtin_cpu_supports("avx2")) return "AVX2";
  if (level >= 3 && !__builtin_cpu_supports("fma")) return "FMA";
  if (level >= 3 && !__builtin_cpu_supports("bmi2")) return "BMI2";
  if (level >= 4 && !__builtin_cpu_supports("avx512f")) return "AVX512F";
  if (level >= 4 && !__builtin_cpu_supports("avx512bw")) return "AVX512BW";
  if (level >= 4 && !__builtin_cpu_supports("avx512dq")) return "AVX512DQ";
  if (level >= 4 && !__builtin_cpu_supports("avx512vl")) return "AVX512VL";
  return NULL;
#else
  return "the x86-64 instruction set";
#endif
}

void ptc_compiler_flags(const char *target, ptc_str_t *out) {
  const char *march = ptc_compiler_march(target);
  ptc_str_printf(out, "-march=%s", march ? march : "native");
  for (size_t i = 0; i < NUM_COMMON_FLAGS; i++) ptc_str_printf(out, " %s", common_flags[i]);
}

// --- processes

// Starts |words| with output and errors in |out_path|, input from nowhere, in a process group of its own,
// with the signals of a fresh process. 0, or an errno.
static int spawn(const char *const *words, const char *out_path, pid_t *out_pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_path, O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  // The words are only read.
  const int error = posix_spawnp(out_pid, words[0], &actions, &attributes,
                                 (char *const *)(uintptr_t)words, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Whether the process ended with status 0.
static bool succeeded(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool ptc_compiler_run(const ptc_compiler_t *compiler, const char *const *sources,
                      int32_t num_sources, const char *object, const char *log,
                      _Atomic pid_t *pid) {
  PTC_VEC(const char *) words = {0};
  for (int32_t i = 0; i < compiler->num_words; i++) PTC_VEC_PUSH(&words, compiler->words[i]);
  PTC_VEC_PUSH(&words, "-o");
  PTC_VEC_PUSH(&words, object);
  for (int32_t i = 0; i < num_sources; i++) PTC_VEC_PUSH(&words, sources[i]);
  PTC_VEC_PUSH(&words, NULL);
  pid_t child = 0;
  bool ok = spawn(words.data, log, &child) == 0;
  if (ok) {
    atomic_store(pid, child);
    ok = succeeded(child);
    atomic_store(pid, 0);
  }
  PTC_VEC_FREE(&words);
  return ok;
}

// --- who it is

// Runs `COMPILER --version`; what it says is kept in |arena|. NULL: errno tells.
static char *ask_version(ptc_arena_t *arena, const char *const *command, int32_t num_words) {
  char path[] = "/tmp/ptc-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) return NULL;
  const char **words = PTC_ARENA_ARRAY(arena, const char *, num_words + 2);
  memcpy(words, command, (size_t)num_words * sizeof *words);
  words[num_words] = "--version";
  pid_t pid;
  int error = spawn(words, path, &pid);
  char *text = NULL;
  size_t len = 0;
  if (!error && !succeeded(pid)) error = ENOEXEC;
  if (!error && ptc_read_file(path, &text, &len) != PTC_OK) error = errno;
  char *kept = error ? NULL : ptc_arena_strndup(arena, text, len);
  free(text);
  close(fd);
  unlink(path);
  errno = error;
  return kept;
}

// The lines of /proc/cpuinfo that say which instructions the first CPU has.
static void append_cpu(ptc_str_t *out) {
  static const char *const keys[] = {"vendor_id",       "cpu family", "model", "stepping",
                                     "flags",           "Features",   "isa",   "cpu",
                                     "CPU implementer", "CPU part",   "uarch"};
  char *text = NULL;
  size_t len = 0;
  if (ptc_read_file("/proc/cpuinfo", &text, &len) != PTC_OK) return;
  char *save = NULL;
  // The first CPU's block ends with an empty line.
  char *block_end = strstr(text, "\n\n");
  if (block_end) *block_end = '\0';
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    const size_t key_len = strcspn(line, "\t:");
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
      if (strlen(keys[k]) == key_len && strncmp(line, keys[k], key_len) == 0)
        ptc_str_printf(out, "%s\n", line);
  }
  free(text);
}

// The words of |text| at blanks, then the flags.
static void make_words(ptc_compiler_t *compiler, const char *text, const char *march) {
  ptc_arena_t *arena = &compiler->arena;
  PTC_VEC(const char *) words = {0};
  char *save = NULL;
  for (char *word = strtok_r(ptc_arena_strdup(arena, text), " \t", &save); word;
       word = strtok_r(NULL, " \t", &save))
    PTC_VEC_PUSH(&words, word);
  PTC_VEC_PUSH(&words, ptc_arena_printf(arena, "-march=%s", march));
  for (size_t i = 0; i < NUM_COMMON_FLAGS; i++) PTC_VEC_PUSH(&words, common_flags[i]);
  const char **kept = PTC_ARENA_ARRAY(arena, const char *, words.len + 1);
  memcpy(kept, words.data, (size_t)words.len * sizeof *kept);
  compiler->words = kept;
  compiler->num_words = (int32_t)words.len;
  PTC_VEC_FREE(&words);
}

static const char *compiler_command(void) {
  const char *named = getenv("CC");
  if (named && strspn(named, " \t") < strlen(named)) return named;
#ifdef PTC_SANITIZE
  return PTC_SANITIZE_CC;  // its runtime is in this program
#else
  return "cc";
#endif
}

ptc_status_t ptc_compiler_find(ptc_diag_t *diag, const char *target, ptc_compiler_t *out_compiler) {
  *out_compiler = (ptc_compiler_t){0};
  PTC_TRY(ptc_compiler_check_target(diag, target));
  const char *march = ptc_compiler_march(target), *missing = missing_feature(march);
  if (missing)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_UNSUPPORTED, "cpu-features",
                     "the plan is for %s, but this machine lacks %s: compile the model again "
                     "with --target cpu",
                     target, missing);
  make_words(out_compiler, compiler_command(), march);
  const int32_t num_own = out_compiler->num_words - (int32_t)NUM_COMMON_FLAGS - 1;
  const char *version = ask_version(&out_compiler->arena, out_compiler->words, num_own);
  if (!version) {
    ptc_status_t status = ptc_error(
        diag, (ptc_loc_t){0}, PTC_IO, "no-compiler",
        "cannot run the C compiler \"%s\": %s; install one (on Debian: apt-get install gcc "
        "libc6-dev) or set CC",
        out_compiler->words[0], strerror(errno));
    ptc_compiler_deinit(out_compiler);
    return status;
  }
  ptc_str_t identity = {0};
  ptc_str_printf(&identity, "%s\n", version);
  for (int32_t i = 0; i < out_compiler->num_words; i++)
    ptc_str_printf(&identity, "%s\n", out_compiler->words[i]);
  if (strcmp(march, "native") == 0) append_cpu(&identity);
  out_compiler->identity = ptc_arena_strdup(&out_compiler->arena, identity.data);
  ptc_str_deinit(&identity);
  return PTC_OK;
}

void ptc_compiler_deinit(ptc_compiler_t *compiler) {
  ptc_arena_deinit(&compiler->arena);
  *compiler = (ptc_compiler_t){0};
}
