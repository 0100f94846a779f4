#include "ir/cluster.h"

const char *const ptc_precision_names[PTC_NUM_PRECS] = {"f32", "tf32", "f16", "bf16", "fp8", "fp4"};
