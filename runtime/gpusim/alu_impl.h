// Loops over lanes. A destination may be one of the operands, never part of one, so no lane depends on another.
#ifndef PTC_RUNTIME_GPUSIM_ALU_IMPL_H_
#define PTC_RUNTIME_GPUSIM_ALU_IMPL_H_

#include "runtime/gpusim/alu.h"

#ifdef __clang__
#define ALU_NO_DEPENDENCE
#else
#define ALU_NO_DEPENDENCE _Pragma("GCC ivdep")
#endif
#define ALU_LANES ALU_NO_DEPENDENCE for (int i = 0; i < SIM_LANES; ++i)

// Functions of one, two, three operands: d = EXPR of x, y, z.
#define ALU_FN1(name, D, A, expr)                                              \
  static void name(void *d_, const void *a_, const void *b_, const void *c_) { \
    D *d = d_;                                                                 \
    const A *a = a_;                                                           \
    (void)b_;                                                                  \
    (void)c_;                                                                  \
    ALU_LANES {                                                                \
      const A x = a[i];                                                        \
      d[i] = (D)(expr);                                                        \
    }                                                                          \
  }
#define ALU_FN2(name, D, A, B, expr)                                           \
  static void name(void *d_, const void *a_, const void *b_, const void *c_) { \
    D *d = d_;                                                                 \
    const A *a = a_;                                                           \
    const B *b = b_;                                                           \
    (void)c_;                                                                  \
    ALU_LANES {                                                                \
      const A x = a[i];                                                        \
      const B y = b[i];                                                        \
      d[i] = (D)(expr);                                                        \
    }                                                                          \
  }
#define ALU_FN3(name, D, A, B, C, expr)                                        \
  static void name(void *d_, const void *a_, const void *b_, const void *c_) { \
    D *d = d_;                                                                 \
    const A *a = a_;                                                           \
    const B *b = b_;                                                           \
    const C *c = c_;                                                           \
    ALU_LANES {                                                                \
      const A x = a[i];                                                        \
      const B y = b[i];                                                        \
      const C z = c[i];                                                        \
      d[i] = (D)(expr);                                                        \
    }                                                                          \
  }

#define W16 PTX_WIDTH_16
#define W32 PTX_WIDTH_32
#define W64 PTX_WIDTH_64
#define ROW1(op, fn, w, a, class, flops) {op, fn, 1, w, {a, 0, 0}, SIM_CLASS_##class, flops},
#define ROW2(op, fn, w, a, b, class, flops) {op, fn, 2, w, {a, b, 0}, SIM_CLASS_##class, flops},
#define ROW3(op, fn, w, a, b, c, class, flops) {op, fn, 3, w, {a, b, c}, SIM_CLASS_##class, flops},

#endif  // PTC_RUNTIME_GPUSIM_ALU_IMPL_H_
