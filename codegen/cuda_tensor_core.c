// What GEMMs and attention on tensor cores are printed with: copies to shared memory, fragments, mma.sync.
#include "codegen/cuda_codegen.h"

static const char copies_text[] =
    "static inline unsigned smem_address(const void *p) {\n"
    "  return (unsigned)__cvta_generic_to_shared(p);\n"
    "}\n"
    "static inline void copy16(unsigned to, const void *from, bool valid) {\n"
    "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" ::\"r\"(to), \"l\"(from), "
    "\"r\"(valid ? 16 : 0));\n"
    "}\n"
    "static inline void commit() { asm volatile(\"cp.async.commit_group;\"); }\n"
    "static inline void wait1() { asm volatile(\"cp.async.wait_group 1;\"); }\n"
    "static inline void wait0() { asm volatile(\"cp.async.wait_group 0;\"); }\n"
    "static inline void ldsm(unsigned *r, unsigned a) {\n"
    "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\"\n"
    "               : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"(a));\n"
    "}\n"
    "static inline void ldsm_trans(unsigned *r, unsigned a) {\n"
    "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\"\n"
    "               : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"(a));\n"
    "}\n";

// tf32: rounded to nearest, ties away; mma.sync itself would cut the lower bits off.
static const char tf32_text[] =
    "static inline unsigned round_tf32(unsigned x) {\n"
    "  unsigned r;\n"
    "  asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(r) : \"f\"(__uint_as_float(x)));\n"
    "  return r;\n"
    "}\n";

void ptc_cuda_tensor_core(ptc_str_t *out, ptc_dtype_t dtype) {
  const char *type = dtype == PTC_F32 ? "tf32" : dtype == PTC_BF16 ? "bf16" : "f16";
  ptc_str_append(out, copies_text);
  if (dtype == PTC_F32) ptc_str_append(out, tf32_text);
  ptc_str_printf(
      out,
      "static inline void mma(float *c, const unsigned *a, const unsigned *b) {\n"
      "  asm volatile(\"mma.sync.aligned.m16n8k%d.row.col.f32.%s.%s.f32 {%%0,%%1,%%2,%%3}, "
      "{%%4,%%5,%%6,%%7}, {%%8,%%9}, {%%0,%%1,%%2,%%3};\"\n"
      "               : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3])\n"
      "               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), "
      "\"r\"(b[1]));\n"
      "}\n",
      dtype == PTC_F32 ? 8 : 16, type, type);
}
