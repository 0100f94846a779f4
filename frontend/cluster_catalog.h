// The files of passes/planner/catalog, built into the program.
#ifndef PTC_FRONTEND_CLUSTER_CATALOG_H_
#define PTC_FRONTEND_CLUSTER_CATALOG_H_

#include <stddef.h>
#include <stdint.h>

typedef struct ptc_catalog_file_s {
  const char *name;  // "catalog/nvidia.ptm"
  const char *text;  // ends with a NUL that |len| does not count
  size_t len;
} ptc_catalog_file_t;

extern const ptc_catalog_file_t ptc_catalog_files[];
extern const int32_t ptc_num_catalog_files;

#endif  // PTC_FRONTEND_CLUSTER_CATALOG_H_
