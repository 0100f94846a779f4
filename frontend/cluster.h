// Cluster and device blocks as numbers (ir/cluster.h), and the catalog of known ones.
#ifndef PTC_FRONTEND_CLUSTER_H_
#define PTC_FRONTEND_CLUSTER_H_

#include "frontend/ast.h"
#include "ir/cluster.h"

// Looks |spec| up: "NAME" or "NAME:NODES" (NODES: the cluster's formal `nodes`), where NAME is a cluster block of
// |program| (may be NULL), of the catalog ('-' and '_', great and small letters are alike), or the path of a .ptm file,
// whose last cluster block is meant. |arena| owns the result. Ids: "unknown-cluster" (with near names),
// "cluster-nodes", "unknown-device", "cluster-figure" where the cost model needs a property that nobody gives.
ptc_status_t ptc_cluster_find(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_ast_t *program,
                              const char *spec, ptc_cluster_t **out_cluster);

// All cluster blocks of the catalog, each with its defaults. |out_num| clusters, in the order of the files.
ptc_status_t ptc_cluster_catalog(ptc_diag_t *diag, ptc_arena_t *arena,
                                 ptc_cluster_t ***out_clusters, int32_t *out_num);
// All devices of the catalog.
ptc_status_t ptc_device_catalog(ptc_diag_t *diag, ptc_arena_t *arena,
                                ptc_device_model_t ***out_devices, int32_t *out_num);
// The text of the block |name| in the catalog, with the comments above it; NULL if there is none.
const char *ptc_catalog_text(ptc_arena_t *arena, const char *name);

#endif  // PTC_FRONTEND_CLUSTER_H_
