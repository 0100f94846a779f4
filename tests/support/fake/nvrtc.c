// A library that stands where NVRTC would and does what a source asks for: the words CRASH, EXIT, HANG, FAIL in it. A
// word that ends in _AS_IS holds only without --Ofast-compile, one in _BOUNDS only with launch bounds. Its code is the
// options and the source. FAKE_NVRTC in the environment stands for a word in every source; FAKE_NVRTC_PIDS names a file
// that gets a line with the number of each process that compiles.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct program_s {
  char *source, *code;
} program_t;

int nvrtcVersion(int *major, int *minor);
int nvrtcCreateProgram(void **program, const char *source, const char *name, int num_headers,
                       const char *const *headers, const char *const *include_names);
int nvrtcCompileProgram(void *program, int num_options, const char *const *options);
int nvrtcGetProgramLogSize(void *program, size_t *bytes);
int nvrtcGetProgramLog(void *program, char *log);
int nvrtcGetPTXSize(void *program, size_t *bytes);
int nvrtcGetPTX(void *program, char *ptx);
int nvrtcGetCUBINSize(void *program, size_t *bytes);
int nvrtcGetCUBIN(void *program, char *cubin);
int nvrtcDestroyProgram(void **program);

int nvrtcVersion(int *major, int *minor) {
  *major = 12;
  *minor = 9;
  return 0;
}

int nvrtcCreateProgram(void **out_program, const char *source, const char *name, int num_headers,
                       const char *const *headers, const char *const *include_names) {
  (void)name, (void)num_headers, (void)headers, (void)include_names;
  program_t *program = calloc(1, sizeof *program);
  if (!program) return 1;
  program->source = strdup(source);
  *out_program = program;
  return 0;
}

static void note_process(void) {
  const char *path = getenv("FAKE_NVRTC_PIDS");
  FILE *file = path ? fopen(path, "ae") : NULL;
  if (!file) return;
  fprintf(file, "%d\n", (int)getpid());
  fclose(file);
}

// Whether |word| is to be done.
static int asks(const char *text, const char *word, int quick, int bounds) {
  const size_t len = strlen(word);
  for (const char *at = text; at && (at = strstr(at, word)); at += len) {
    const char *rest = at + len;
    if (strncmp(rest, "_AS_IS", 6) == 0 ? !quick : strncmp(rest, "_BOUNDS", 7) == 0 ? bounds : 1)
      return 1;
  }
  return 0;
}

int nvrtcCompileProgram(void *opaque, int num_options, const char *const *options) {
  program_t *program = opaque;
  size_t bytes = strlen(program->source) + 1;
  int quick = 0;
  for (int i = 0; i < num_options; i++) {
    bytes += strlen(options[i]) + 1;
    quick |= strcmp(options[i], "--Ofast-compile=min") == 0;
  }
  const int bounds = strstr(program->source, "__launch_bounds__") != NULL;
  note_process();
  const char *texts[] = {program->source, getenv("FAKE_NVRTC")};
  for (int i = 0; i < 2; i++) {
    if (asks(texts[i], "CRASH", quick, bounds)) raise(SIGSEGV);
    if (asks(texts[i], "EXIT", quick, bounds)) _exit(7);
    while (asks(texts[i], "HANG", quick, bounds)) sleep(1);
    if (asks(texts[i], "FAIL", quick, bounds)) return 6;
  }
  program->code = calloc(1, bytes);
  if (!program->code) return 1;
  for (int i = 0; i < num_options; i++) {
    strcat(program->code, options[i]);
    strcat(program->code, " ");
  }
  strcat(program->code, program->source);
  return 0;
}

int nvrtcGetProgramLogSize(void *opaque, size_t *bytes) {
  const program_t *program = opaque;
  *bytes = program->code ? 1 : 16;
  return 0;
}

int nvrtcGetProgramLog(void *opaque, char *log) {
  const program_t *program = opaque;
  strcpy(log, program->code ? "" : "a planted error");
  return 0;
}

int nvrtcGetPTXSize(void *opaque, size_t *bytes) {
  const program_t *program = opaque;
  *bytes = strlen(program->code) + 1;
  return 0;
}

int nvrtcGetPTX(void *opaque, char *ptx) {
  const program_t *program = opaque;
  memcpy(ptx, program->code, strlen(program->code) + 1);
  return 0;
}

// No text: without a NUL.
int nvrtcGetCUBINSize(void *opaque, size_t *bytes) {
  const program_t *program = opaque;
  *bytes = strlen(program->code);
  return 0;
}

int nvrtcGetCUBIN(void *opaque, char *cubin) {
  const program_t *program = opaque;
  memcpy(cubin, program->code, strlen(program->code));
  return 0;
}

int nvrtcDestroyProgram(void **opaque) {
  program_t *program = *opaque;
  free(program->source);
  free(program->code);
  free(program);
  *opaque = NULL;
  return 0;
}
