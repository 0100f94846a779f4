// SHA-256, for names of cached objects and for what plan.json says of the kernels.
#ifndef PTC_RUNTIME_HASH_H_
#define PTC_RUNTIME_HASH_H_

#include <stddef.h>

enum { PTC_HASH_CHARS = 64 };

// The hash of |len| bytes as hexadecimal digits and a NUL.
void ptc_hash(const void *data, size_t len, char out_text[PTC_HASH_CHARS + 1]);

#endif  // PTC_RUNTIME_HASH_H_
