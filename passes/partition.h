// How a step would be split over devices.
#ifndef PTC_PASSES_PARTITION_H_
#define PTC_PASSES_PARTITION_H_

#include "ir/module.h"

// The dim of the parameter that is a group of every product of activations with it (the experts of a mixture); NULL if
// there is none. |batch| is the interned name of the samples' dim.
const char *ptc_partition_group_dim(const ptc_module_t *module, const char *batch,
                                    const ptc_global_t *global);

// Chooses which dim names of parameters lie on tp: "h on tp;n on tp:1:2", what config "layout" says. |module| is used up.
ptc_status_t ptc_partition_layout(ptc_module_t *module, ptc_arena_t *scratch, ptc_str_t *out_layout);

#endif  // PTC_PASSES_PARTITION_H_
