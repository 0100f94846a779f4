#include "frontend/cluster_props.h"

#include <string.h>

#include "ir/base/str.h"
#include "ir/cluster.h"

static const char *const flag_words[] = {"off", "on", NULL};
static const char *const arch_words[] = {"cpu",    "volta",     "ampere", "ada",
                                         "hopper", "blackwell", "other",  NULL};
static const int32_t arch_values[] = {0, 70, 80, 89, 90, 100, 1};
static const char *const fabric_words[] = {"ib", "roce", "efa", "tcpx", "tcp", NULL};
static const int32_t fabric_values[] = {PTC_FABRIC_IB, PTC_FABRIC_IB, PTC_FABRIC_EFA,
                                        PTC_FABRIC_TCPX, PTC_FABRIC_TCP};
static const char *const cpu_words[] = {"intel", "amd", "arm", NULL};

#define DEVICE(name, unit, field) \
  { name, 'd', PTC_UNIT_##unit, PTC_STORE_DOUBLE, offsetof(ptc_device_model_t, field), NULL, NULL }
#define NODE(name, owner, unit, field) \
  { name, owner, PTC_UNIT_##unit, PTC_STORE_DOUBLE, offsetof(ptc_node_model_t, field), NULL, NULL }
#define COUNT(name, owner, field) \
  { name, owner, PTC_UNIT_NONE, PTC_STORE_INT, offsetof(ptc_node_model_t, field), NULL, NULL }
#define FLAG(name, owner, field)                                                               \
  {                                                                                            \
    name, owner, PTC_UNIT_WORD, PTC_STORE_FLAG, offsetof(ptc_node_model_t, field), flag_words, \
        NULL                                                                                   \
  }

static const ptc_prop_info_t props[] = {
    DEVICE("memory", BYTES, memory_bytes),
    DEVICE("bandwidth", RATE, memory_rate),
    {"f64", 'd', PTC_UNIT_FLOPS, PTC_STORE_NONE, 0, NULL, NULL},
    DEVICE("f32", FLOPS, peak[PTC_PREC_F32]),
    DEVICE("tf32", FLOPS, peak[PTC_PREC_TF32]),
    DEVICE("f16", FLOPS, peak[PTC_PREC_F16]),
    DEVICE("bf16", FLOPS, peak[PTC_PREC_BF16]),
    DEVICE("fp8", FLOPS, peak[PTC_PREC_FP8]),
    DEVICE("fp4", FLOPS, peak[PTC_PREC_FP4]),
    DEVICE("l2", BYTES, l2_bytes),
    DEVICE("shared", BYTES, shared_bytes),
    {"sms", 'd', PTC_UNIT_NONE, PTC_STORE_INT, offsetof(ptc_device_model_t, sms), NULL, NULL},
    DEVICE("clock", HZ, clock),
    DEVICE("power", WATT, power),
    DEVICE("launch", TIME, launch_s),
    DEVICE("price", NONE, price_per_hour),
    {"arch", 'd', PTC_UNIT_WORD, PTC_STORE_WORD, offsetof(ptc_device_model_t, arch), arch_words,
     arch_values},
    DEVICE("gemm", NONE, gemm_eff),
    DEVICE("gemm_burst", NONE, gemm_burst_eff),
    DEVICE("gemm_settle", TIME, gemm_settle_s),
    DEVICE("gemm_tile", TIME, gemm_tile_s),
    DEVICE("attention_64", NONE, attention_eff[0]),
    DEVICE("attention_128", NONE, attention_eff[1]),
    DEVICE("attention_256", NONE, attention_eff[2]),
    DEVICE("attention_grad_64", NONE, attention_grad_eff[0]),
    DEVICE("attention_grad_128", NONE, attention_grad_eff[1]),
    DEVICE("attention_grad_256", NONE, attention_grad_eff[2]),
    DEVICE("attention_half", NONE, attention_half),
    DEVICE("stream", NONE, memory_eff),
    DEVICE("stream_half", BYTES, memory_half_bytes),
    NODE("bandwidth", 'l', RATE, link_rate),
    NODE("latency", 'l', TIME, link_latency),
    NODE("ring", 'l', RATE, link_busbw),
    COUNT("channels", 'l', link_channels),
    COUNT("domain", 'l', link_domain),
    COUNT("islands", 'l', link_islands),
    NODE("across", 'l', RATE, link_across),
    FLAG("switched", 'l', link_switched),
    FLAG("sharp", 'l', link_reduces),
    NODE("bandwidth", 'n', RATE, nic_rate),
    NODE("latency", 'n', TIME, net_latency),
    COUNT("rails", 'n', nics),
    {"fabric", 'n', PTC_UNIT_WORD, PTC_STORE_WORD, offsetof(ptc_node_model_t, fabric), fabric_words,
     fabric_values},
    NODE("efficiency", 'n', NONE, nic_eff),
    FLAG("sharp", 'n', net_reduces),
    {"nodes", 'h', PTC_UNIT_NONE, PTC_STORE_NONE, 0, NULL, NULL},
    NODE("memory", 'h', BYTES, host_bytes),
    NODE("bandwidth", 'h', RATE, host_rate),
    NODE("pcie", 'h', RATE, pcie_rate),
    NODE("nvme", 'h', RATE, nvme_read_rate),
    NODE("nvme_write", 'h', RATE, nvme_write_rate),
    {"cpu", 'h', PTC_UNIT_WORD, PTC_STORE_FLAG, offsetof(ptc_node_model_t, host_amd), cpu_words,
     NULL},
};
enum { NUM_PROPS = sizeof(props) / sizeof(*props) };

const ptc_prop_info_t *ptc_prop_find(const char *name, char owner, const char **out_near) {
  const char *names[NUM_PROPS];
  int32_t num_names = 0;
  for (int32_t i = 0; i < NUM_PROPS; i++) {
    if (props[i].owner != owner) continue;
    names[num_names++] = props[i].name;
    if (strcmp(props[i].name, name) == 0) return &props[i];
  }
  if (out_near) *out_near = ptc_nearest_name(name, names, num_names);
  return NULL;
}

ptc_unit_kind_t ptc_unit_kind(const char *unit) {
  if (!unit) return PTC_UNIT_NONE;
  size_t len = strlen(unit);
  if (strstr(unit, "FLOP/s")) return PTC_UNIT_FLOPS;
  if (len >= 3 && strcmp(unit + len - 3, "B/s") == 0) return PTC_UNIT_RATE;
  if (len >= 3 && strcmp(unit + len - 3, "b/s") == 0) return PTC_UNIT_RATE;
  if (len >= 2 && strcmp(unit + len - 2, "Hz") == 0) return PTC_UNIT_HZ;
  if (strcmp(unit, "W") == 0) return PTC_UNIT_WATT;
  return unit[len - 1] == 's' ? PTC_UNIT_TIME : PTC_UNIT_BYTES;
}

const char *ptc_unit_text(ptc_unit_kind_t kind) {
  static const char *const texts[] = {"a plain number",
                                      "bytes (GB, GiB)",
                                      "bytes per second (GB/s)",
                                      "a time (us)",
                                      "FLOP/s (TFLOP/s)",
                                      "a frequency (GHz)",
                                      "watts (W)",
                                      "a word"};
  return texts[kind];
}

double ptc_unit_scale(const char *unit) {
  if (!unit) return 1;
  const char prefix = unit[0];
  switch (ptc_unit_kind(unit)) {
    case PTC_UNIT_TIME:
      return prefix == 'n' ? 1e-9 : prefix == 'u' ? 1e-6 : prefix == 'm' ? 1e-3 : 1;
    case PTC_UNIT_WATT: return 1;
    default: break;
  }
  static const char prefixes[] = "kMGTP";
  // "K" and "k" are alike; B and b without a prefix are found nowhere.
  const char *at = prefix == 'K' ? prefixes : strchr(prefixes, prefix);
  double scale = 1;
  const bool binary = at && unit[1] == 'i';
  for (int32_t i = at ? (int32_t)(at - prefixes) : -1; i >= 0; i--) scale *= binary ? 1024 : 1000;
  const char *base = unit + (at ? 1 : 0) + (binary ? 1 : 0);
  return base[0] == 'b' ? scale / 8 : scale;
}
