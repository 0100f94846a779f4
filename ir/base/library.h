// Libraries that are found and loaded at run time.
#ifndef PTC_IR_BASE_LIBRARY_H_
#define PTC_IR_BASE_LIBRARY_H_

#include <stdbool.h>

#include "ir/base/str.h"

// Opens the first that loads: the file that the environment variable |file| names, and nothing else, if it is set; else of
// |names| (best first, NULL ends them) one in the folder of the variable |folder|, where the loader looks, in
// $CUDA_HOME/lib64, in /usr/local/cuda/lib64, in the nvidia-* packages of Python (of $VIRTUAL_ENV, the user, the system).
// It stays mapped until the process ends: such libraries keep threads
// and state of their own. Returns dlopen's handle; NULL: none, and |tried| lists what was tried.
void *ptc_library_find(const char *const *names, const char *file, const char *folder,
                       ptc_str_t *tried);

// Sets |out_function|, a pointer to a function pointer, to the library's symbol; false, and NULL: there is none.
bool ptc_library_symbol(void *library, const char *name, void *out_function);

#endif  // PTC_IR_BASE_LIBRARY_H_
