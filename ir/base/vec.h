// Growable arrays: a pointer, a length, a capacity. Elements live on the heap.
#ifndef PTC_IR_BASE_VEC_H_
#define PTC_IR_BASE_VEC_H_

#include <stdint.h>
#include <stdlib.h>

#include "ir/base/arena.h"

// Declares a vector field or variable: PTC_VEC(int) ids = {0};
#define PTC_VEC(type) \
  struct {            \
    type *data;       \
    int64_t len, cap; \
  }
// Appends |value|; may move the data.
#define PTC_VEC_PUSH(vec, value)                                                          \
  do {                                                                                    \
    if ((vec)->len == (vec)->cap) {                                                       \
      (vec)->cap = (vec)->cap ? 2 * (vec)->cap : 8;                                       \
      (vec)->data = ptc_xrealloc((vec)->data, (size_t)(vec)->cap * sizeof(*(vec)->data)); \
    }                                                                                     \
    (vec)->data[(vec)->len++] = (value);                                                  \
  } while (0)
#define PTC_VEC_FREE(vec)        \
  do {                           \
    free((vec)->data);           \
    (vec)->data = NULL;          \
    (vec)->len = (vec)->cap = 0; \
  } while (0)

#endif  // PTC_IR_BASE_VEC_H_
