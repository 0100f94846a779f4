// A folder of compiled kernels, each under the hash of everything that it was made from. Several processes
// may use it at once: files appear whole, and one that is damaged counts as absent.
#ifndef PTC_RUNTIME_CPU_OBJECT_CACHE_H_
#define PTC_RUNTIME_CPU_OBJECT_CACHE_H_

#include <stdbool.h>

#include "ir/base/diag.h"

typedef struct ptc_object_cache_s {
  char *folder;
  char *
      work;  // a folder inside it, of this process alone, once it was asked for; removed on closing
} ptc_object_cache_t;

// Opens |folder|, or (NULL) $PTC_CACHE, $XDG_CACHE_HOME/ptc, ~/.cache/ptc. To find objects it need not be
// writable. PTC_IO with a diagnostic ("cache-folder") if the user has no such folder.
ptc_status_t ptc_object_cache_open(ptc_diag_t *diag, const char *folder,
                                   ptc_object_cache_t *out_cache);
// Makes the folder, if need be, and the work folder in it: before objects are added. PTC_IO with
// "cache-folder" if it cannot be written.
ptc_status_t ptc_object_cache_prepare(ptc_diag_t *diag, ptc_object_cache_t *cache);
// Removes the work folder; if there was one and the cache is larger than its limit, removes what was not
// used for longest.
void ptc_object_cache_close(ptc_object_cache_t *cache);
// Where the object of |key| (a hash in hexadecimal) lies or would lie. malloc'ed.
char *ptc_object_cache_path(const ptc_object_cache_t *cache, const char *key);
// Whether the whole object is there; marks it as used.
bool ptc_object_cache_has(const ptc_object_cache_t *cache, const char *key);
// The object of |key| without its seal, malloc'ed and followed by a NUL that |out_len| excludes; NULL if the whole
// object is not there. Marks it as used.
char *ptc_object_cache_read(const ptc_object_cache_t *cache, const char *key, size_t *out_len);
// Seals the finished file |path| (of the work folder) and moves it to |key|.
// PTC_IO with errno set, without a diagnostic.
ptc_status_t ptc_object_cache_add(const ptc_object_cache_t *cache, const char *key,
                                  const char *path);

// Removes objects, least recently used first, until at most |limit_bytes| are left; objects of the last hour
// stay. Also what killed processes left behind a day ago.
void ptc_object_cache_trim(const ptc_object_cache_t *cache, int64_t limit_bytes);

#endif  // PTC_RUNTIME_CPU_OBJECT_CACHE_H_
