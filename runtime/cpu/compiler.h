// The system's C compiler: which one, its flags, one run of it.
#ifndef PTC_RUNTIME_CPU_COMPILER_H_
#define PTC_RUNTIME_CPU_COMPILER_H_

#include <stdatomic.h>
#include <sys/types.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/str.h"

typedef struct ptc_compiler_s {
  ptc_arena_t arena;         // owns what follows
  const char *const *words;  // the program and its flags, ending in NULL
  int32_t num_words;
  // Everything beside the source that the object depends on: the compiler's version, its flags and, for
  // -march=native, the CPU.
  const char *identity;
} ptc_compiler_t;

// The compiler that the environment variable CC names (with options, perhaps), or `cc`. |target| is a plan's:
// "cpu", or "cpu:" and a level of x86-64. Diagnostics: "no-compiler" (PTC_IO), "unknown-target",
// "cpu-features" (PTC_UNSUPPORTED: this CPU cannot run code of that target).
ptc_status_t ptc_compiler_find(ptc_diag_t *diag, const char *target, ptc_compiler_t *out_compiler);
void ptc_compiler_deinit(ptc_compiler_t *compiler);

// Whether |target| is one that ptc knows; "unknown-target" if not.
ptc_status_t ptc_compiler_check_target(ptc_diag_t *diag, const char *target);
// The value of -march for a known target.
const char *ptc_compiler_march(const char *target);
// The flags as one text, for the plan.
void ptc_compiler_flags(const char *target, ptc_str_t *out);

// Compiles |num_sources| files into the shared object |object|; messages go to the file |log|. |pid| holds
// the process while it runs (else 0), for whoever wants to end it. True if the compiler succeeded.
bool ptc_compiler_run(const ptc_compiler_t *compiler, const char *const *sources,
                      int32_t num_sources, const char *object, const char *log, _Atomic pid_t *pid);

#endif  // PTC_RUNTIME_CPU_COMPILER_H_
