// What a software stack does with a device: which kernels it has, what it overlaps, what it keeps in memory.
//
// The facts are read off the stack's documentation; the constants, at most six, are fitted on measured runs
// (passes/planner/README.md says which). None belongs to a model, a cluster or a run.
#ifndef PTC_PASSES_PLANNER_STACK_H_
#define PTC_PASSES_PLANNER_STACK_H_

#include <stdbool.h>
#include <stdint.h>

#include "passes/planner/work.h"

typedef struct ptc_stack_s {
  const char *name, *what;
  // Facts.
  ptc_save_profile_t saves;
  int32_t gemm_precision;  // ptc_precision_t of products inside repeats; -1: the program's
  bool unfused_attention;  // scores go through memory
  int32_t
      attention;  // generation of the attention kernels: FlashAttention 2, 3, 4 or equal; 0: the catalog's
  bool keeps_products;  // selective recompute keeps every second product: half of a turn again
  bool masters_alone;   // zero 3: shards are f32 masters, 16-bit copies live while gathered
  double logit_bytes;   // of memory for each logit at the loss's peak
  double sum_bytes;  // of an element of the sums over micro-batches that it keeps beside gradients
  double bucket_bytes;    // buffer in which gradients are collected
  int64_t zero;           // its ZeRO stage where a run does not say
  double grad_bytes;      // of an element that is summed over replicas
  bool wgrad_f32;         // weight gradients are added up in f32 by the product itself
  bool keeps_gathered;    // zero 3: gathered parameters stay until the backward pass
  bool gathers_in_turn;   // zero 1: each rank broadcasts its part after the others'
  bool hides_regathers;   // gathers of operands for weight gradients go beside the other product
  bool sums_together;     // stages sum gradients once all of them are done (tied ones are first)
  bool sums_by_chunk;     // interleaved: a chunk sums beside the passes of the others
  bool narrow;            // between kernels values have 16 bits, on the way to experts, too
  bool launches_experts;  // its host launches each expert
  bool graphs_on_racks;   // where links span nodes, graphs launch all but the experts
  bool experts_close;     // experts lie on neighbours whatever tp and cp are
  // A token goes once to each rank (each node) that has experts of its own, not once to each of these experts: within
  // a domain of links; between nodes.
  bool dedups_inside, dedups_between;
  bool fuses_expert_casts;  // kernels of experts write what the next ones read, in fewer bits
  bool fp8_attention;       // where products have fewer than 16 bits
  bool splits_sends;        // pipeline: each rank of tp sends its part, the receivers gather
  bool hides_chunk_sends;   // sends of an interleaved pipeline go beside computing
  double hidden_inner;      // part of tp, cp and pp traffic that its kernels hide
  // Constants.
  double unfused;  // memory-bound kernels: 0 moves what fused ones do, 1 what single ones do
  double
      launch_s;  // what the host needs for a kernel, beside the device that works; 0: less than any
  double attention_rate;  // of the device's best attention
  double hidden_late;     // part of gradient and parameter traffic that can hide behind computing
  double late_rate;       // of that traffic: of the rate of one large message
  double allocator;       // reserved memory to memory in use
} ptc_stack_t;

// The table of known stacks; "ptc" is our own.
extern const ptc_stack_t ptc_stacks[];
extern const int32_t ptc_num_stacks;
const ptc_stack_t *ptc_stack_find(const char *name);  // NULL: unknown

#endif  // PTC_PASSES_PLANNER_STACK_H_
