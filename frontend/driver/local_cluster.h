// The cluster `local`: this machine, measured once and kept in the user's cache folder.
#ifndef PTC_FRONTEND_DRIVER_LOCAL_CLUSTER_H_
#define PTC_FRONTEND_DRIVER_LOCAL_CLUSTER_H_

#include "frontend/cluster.h"

// Looks |spec| up as ptc_cluster_find does, and knows "local" and "local:RANKS" besides: one node with RANKS devices
// (1), each of them an equal part of the cores. The first time it measures (about two seconds; a note on stderr unless
// |quiet|) and writes local.ptm to the cache folder; delete that file to measure again.
ptc_status_t ptc_driver_find_cluster(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_ast_t *program,
                                     const char *spec, bool quiet, ptc_cluster_t **out_cluster);

// The path of local.ptm, measured if need be; |arena| owns it.
ptc_status_t ptc_driver_local_file(ptc_diag_t *diag, ptc_arena_t *arena, bool quiet,
                                   const char **out_path);

#endif  // PTC_FRONTEND_DRIVER_LOCAL_CLUSTER_H_
