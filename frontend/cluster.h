// Cluster and device blocks as numbers (ir/cluster.h), and the catalog of known ones.
#ifndef PTC_FRONTEND_CLUSTER_H_
#define PTC_FRONTEND_CLUSTER_H_

#include "frontend/ast.h"
#include "ir/cluster.h"

// Looks |spec| up: "NAME", "NAME:NODES" (the cluster's formal `nodes`), where NAME is a cluster block of |program|
// (may be NULL), of the catalog, or the path of a .ptm file with one cluster block. |arena| owns the result. A name
// that does not exist is "unknown-cluster", with near names.
ptc_status_t ptc_cluster_find(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_ast_t *program,
                              const char *spec, ptc_cluster_t **out_cluster);

#endif  // PTC_FRONTEND_CLUSTER_H_
