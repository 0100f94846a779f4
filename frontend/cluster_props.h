// The properties of cluster and device blocks: their units, their words, where they lie in ir/cluster.h.
#ifndef PTC_FRONTEND_CLUSTER_PROPS_H_
#define PTC_FRONTEND_CLUSTER_PROPS_H_

#include <stddef.h>

#include "frontend/ast.h"

typedef enum ptc_unit_kind_e {
  PTC_UNIT_NONE,
  PTC_UNIT_BYTES,
  PTC_UNIT_RATE,
  PTC_UNIT_TIME,
  PTC_UNIT_FLOPS,
  PTC_UNIT_HZ,
  PTC_UNIT_WATT,
  PTC_UNIT_WORD  // one of |words|
} ptc_unit_kind_t;

typedef enum ptc_prop_store_e {
  PTC_STORE_DOUBLE,
  PTC_STORE_INT,   // int32_t
  PTC_STORE_FLAG,  // bool: words "off", "on"
  PTC_STORE_WORD,  // int32_t: |values| of the word
  PTC_STORE_NONE   // read by hand, or only checked
} ptc_prop_store_t;

// |owner|: l(ink), n(etwork), h(ost), d(evice). |offset|: into ptc_device_model_t for devices, else ptc_node_model_t.
typedef struct ptc_prop_info_s {
  const char *name;
  char owner;
  ptc_unit_kind_t unit;
  ptc_prop_store_t store;
  size_t offset;
  const char *const *words;  // ends with NULL
  const int32_t *values;
} ptc_prop_info_t;

// NULL if |owner| has no such property; |out_near| (may be NULL) is then one that may have been meant, or NULL.
const ptc_prop_info_t *ptc_prop_find(const char *name, char owner, const char **out_near);
ptc_unit_kind_t ptc_unit_kind(const char *unit);  // NULL: NONE
const char *ptc_unit_text(ptc_unit_kind_t kind);  // "bytes (GB, GiB)"
// What one |unit| is in bytes, bytes/s, seconds, FLOP/s, Hz, W; 1 for NULL.
double ptc_unit_scale(const char *unit);

#endif  // PTC_FRONTEND_CLUSTER_PROPS_H_
