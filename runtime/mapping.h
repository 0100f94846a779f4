// Files mapped for reading, and what makes files durable.
#ifndef PTC_RUNTIME_MAPPING_H_
#define PTC_RUNTIME_MAPPING_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/diag.h"
#include "ir/base/str.h"

// A whole file, read-only. The file must not shrink while it is mapped.
typedef struct ptc_mapping_s {
  const unsigned char *data;  // never NULL when open, not even for an empty file
  int64_t bytes;
} ptc_mapping_t;

// PTC_IO with "read-file" if |path| cannot be read or is no regular file.
ptc_status_t ptc_mapping_open(ptc_diag_t *diag, const char *path, ptc_mapping_t *out_mapping);
void ptc_mapping_close(ptc_mapping_t *mapping);

// Writes all |num_bytes|, whatever it takes. False: errno tells.
bool ptc_write_all(int fd, const void *data, int64_t num_bytes);
// Syncs the folder |path|, so that names in it outlive a power cut. False: errno tells.
bool ptc_sync_folder(const char *path);
// Syncs the folder that |path| is in.
bool ptc_sync_parent(const char *path);

#endif  // PTC_RUNTIME_MAPPING_H_
