// Reads from the sources which constraint labels the shape functions have.
#ifndef PTC_TESTS_SUPPORT_SHAPE_LABELS_H_
#define PTC_TESTS_SUPPORT_SHAPE_LABELS_H_

#include "ir/base/map.h"

// The comment above a shape function lists its constraints in lines "//   c1  text"; those in a
// header have whole labels. Adds to |labels| (interned label -> itself) the label of each op that
// uses the function: "add-c1". Returns the number of shape functions in the file, -1 if it cannot
// be read.
int shape_labels_of(const char *path, ptc_interner_t *interner, ptc_map_t *labels);
// Number of different names in the shape column of the op table.
int shape_labels_num_shapes(void);

#endif  // PTC_TESTS_SUPPORT_SHAPE_LABELS_H_
