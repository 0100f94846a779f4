#include "runtime/hash.h"

// libmd's header uses the BSD names of the integer types.
#include <sys/types.h>
// After it.
#include <sha2.h>

_Static_assert(SHA256_DIGEST_STRING_LENGTH == PTC_HASH_CHARS + 1, "two digits per byte");

void ptc_hash(const void *data, size_t len, char out_text[PTC_HASH_CHARS + 1]) {
  SHA256Data(data, len, out_text);
}
