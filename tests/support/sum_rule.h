// The contraction rule of frontend/LANGUAGE.md section 7, once more and independently: a small
// reader of index statements with dims of one letter, the rule, and a direct evaluation.
#ifndef PTC_TESTS_SUPPORT_SUM_RULE_H_
#define PTC_TESTS_SUPPORT_SUM_RULE_H_

#include <stdbool.h>
#include <stdint.h>

enum { RULE_MAX_NODES = 512, RULE_MAX_KIDS = 12, RULE_MAX_DIMS = 6, RULE_MAX_TENSORS = 32 };

typedef enum rule_kind_e {
  RULE_NUMBER,
  RULE_LEAF,  // name[places]; a place is a dim or a leaf (a gather)
  RULE_PAREN,
  RULE_NEG,
  RULE_SUM,      // sign: -1 for a subtracted term
  RULE_PRODUCT,  // sign: -1 for a divisor
  RULE_POWER,    // kids[0] ^ value
  RULE_CALL,     // name(kids[0])
  RULE_SOFTMAX,  // along dims[0]
  RULE_REDUCE,   // name is sum, mean or max; over dims
} rule_kind_t;

typedef struct rule_node_s {
  rule_kind_t kind;
  char name[12];
  double value;
  int kids[RULE_MAX_KIDS], sign[RULE_MAX_KIDS];  // LEAF: kids[i] < 0: place i is a dim
  int num_kids;
  char dims[RULE_MAX_DIMS + 1];  // LEAF: the places' dims, '.' for a gather
  uint32_t site;                 // PRODUCT: dims summed here, a bit per letter
} rule_node_t;

// A tensor of a statement: dims of its declaration ('v' where a gather stands), data row-major.
typedef struct rule_tensor_s {
  char name[12], dims[RULE_MAX_DIMS + 1];
  bool is_index;
  int64_t num_elements;
  double *data;
} rule_tensor_t;

typedef struct rule_s {
  rule_node_t nodes[RULE_MAX_NODES];
  int num_nodes, root;
  char left[RULE_MAX_DIMS + 1];
  rule_tensor_t tensors[RULE_MAX_TENSORS];
  int num_tensors;
  bool refused, ambiguous;  // after rule_place
} rule_t;

int64_t rule_extent(char dim);
// Reads `y[b, d] = ...`; false if it is malformed or too large.
bool rule_parse(rule_t *rule, const char *text);
void rule_deinit(rule_t *rule);
// Dims on the right that the left side lacks, a bit per letter.
uint32_t rule_missing(const rule_t *rule);
// Decides where every missing dim is summed.
void rule_place(rule_t *rule);
// Fills the tensors from |state|, a generator of unit_random.
void rule_fill(rule_t *rule, uint64_t *state);
// The statement's value at the left side's dims, each |at|[letter - 'a'].
double rule_eval(const rule_t *rule, int64_t at[26]);

#endif  // PTC_TESTS_SUPPORT_SUM_RULE_H_
