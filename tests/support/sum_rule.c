#include "tests/support/sum_rule.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

int64_t rule_extent(char dim) {
  switch (dim) {
    case 'd':
    case 'e':
    case 't': return 3;
    case 'f': return 4;
    case 'v': return 5;
    default: return 2;
  }
}

static uint32_t bit(char dim) { return 1u << (dim - 'a'); }

// --- reading

typedef struct reader_s {
  rule_t *rule;
  const char *at;
  bool failed;
} reader_t;

static char peek(reader_t *r) {
  while (*r->at == ' ') r->at++;
  return *r->at;
}

static bool accept(reader_t *r, char c) {
  if (peek(r) != c) return false;
  r->at++;
  return true;
}

static void need(reader_t *r, char c) { r->failed |= !accept(r, c); }

static int new_node(reader_t *r, rule_kind_t kind) {
  if (r->rule->num_nodes == RULE_MAX_NODES) {
    r->failed = true;
    return 0;
  }
  int n = r->rule->num_nodes++;
  r->rule->nodes[n] = (rule_node_t){.kind = kind};
  return n;
}

static void add_kid(reader_t *r, int node, int kid, int sign) {
  rule_node_t *n = &r->rule->nodes[node];
  if (n->num_kids == RULE_MAX_KIDS) {
    r->failed = true;
    return;
  }
  n->kids[n->num_kids] = kid;
  n->sign[n->num_kids++] = sign;
}

static void read_name(reader_t *r, char *out, size_t size) {
  size_t n = 0;
  (void)peek(r);
  while (isalnum((unsigned char)*r->at) || *r->at == '_') {
    if (n + 1 < size)
      out[n++] = *r->at;
    else
      r->failed = true;
    r->at++;
  }
  out[n] = '\0';
  r->failed |= n == 0;
}

static void declare(reader_t *r, const char *name, const char *dims, bool is_index) {
  rule_t *rule = r->rule;
  for (int i = 0; i < rule->num_tensors; i++) {
    if (strcmp(rule->tensors[i].name, name) != 0) continue;
    r->failed |= strlen(rule->tensors[i].dims) != strlen(dims);
    return;
  }
  if (rule->num_tensors == RULE_MAX_TENSORS) {
    r->failed = true;
    return;
  }
  rule_tensor_t *tensor = &rule->tensors[rule->num_tensors++];
  *tensor = (rule_tensor_t){.is_index = is_index, .num_elements = 1};
  strcpy(tensor->name, name);
  for (int i = 0; dims[i]; i++) {
    tensor->dims[i] = dims[i] == '.' ? 'v' : dims[i];
    tensor->num_elements *= rule_extent(tensor->dims[i]);
  }
}

static int read_sum(reader_t *r);

// After the name: brackets of places.
static int read_leaf(reader_t *r, const char *name, bool is_index) {
  int node = new_node(r, RULE_LEAF);
  strcpy(r->rule->nodes[node].name, name);
  do {
    char place[12] = "";
    read_name(r, place, sizeof(place));
    int kid = -1;
    if (accept(r, '[')) kid = read_leaf(r, place, true);
    int n = r->rule->nodes[node].num_kids;
    add_kid(r, node, kid, 1);
    if (n < RULE_MAX_DIMS)
      r->rule->nodes[node].dims[n] = kid < 0 ? place[0] : '.';
    else
      r->failed = true;
  } while (accept(r, ',') && !r->failed);
  need(r, ']');
  declare(r, name, r->rule->nodes[node].dims, is_index);
  return node;
}

static int read_primary(reader_t *r) {
  if (isdigit((unsigned char)peek(r))) {
    int node = new_node(r, RULE_NUMBER);
    char *end;
    r->rule->nodes[node].value = strtod(r->at, &end);
    r->at = end;
    return node;
  }
  if (accept(r, '(')) {
    int kid = read_sum(r), node = new_node(r, RULE_PAREN);
    need(r, ')');
    add_kid(r, node, kid, 1);
    return node;
  }
  char name[12] = "";
  read_name(r, name, sizeof(name));
  const char *before = r->at;
  if (accept(r, '[')) {
    // f[dims](x) or a leaf?
    const char *close = strchr(r->at, ']');
    if (!close || close[1] != '(') {
      r->at = before;
      need(r, '[');
      return read_leaf(r, name, false);
    }
    int node = new_node(r, strcmp(name, "softmax") == 0 ? RULE_SOFTMAX : RULE_REDUCE);
    int n = 0;
    for (; r->at < close; r->at++)
      if (isalpha((unsigned char)*r->at) && n < RULE_MAX_DIMS)
        r->rule->nodes[node].dims[n++] = *r->at;
    strcpy(r->rule->nodes[node].name, name);
    need(r, ']');
    need(r, '(');
    int kid = read_sum(r);
    need(r, ')');
    add_kid(r, node, kid, 1);
    return node;
  }
  need(r, '(');
  int kid = read_sum(r), node = new_node(r, RULE_CALL);
  need(r, ')');
  strcpy(r->rule->nodes[node].name, name);
  add_kid(r, node, kid, 1);
  return node;
}

static int read_power(reader_t *r) {
  int base = read_primary(r);
  if (!accept(r, '^')) return base;
  int node = new_node(r, RULE_POWER);
  char *end;
  (void)peek(r);
  r->rule->nodes[node].value = strtod(r->at, &end);
  r->failed |= end == r->at;
  r->at = end;
  add_kid(r, node, base, 1);
  return node;
}

static int read_unary(reader_t *r) {
  if (!accept(r, '-')) return read_power(r);
  int kid = read_unary(r), node = new_node(r, RULE_NEG);
  add_kid(r, node, kid, 1);
  return node;
}

static int read_product(reader_t *r) {
  int first = read_unary(r);
  if (peek(r) != '*' && peek(r) != '/') return first;
  int node = new_node(r, RULE_PRODUCT);
  add_kid(r, node, first, 1);
  while (!r->failed && (peek(r) == '*' || peek(r) == '/')) {
    int sign = *r->at++ == '*' ? 1 : -1;
    add_kid(r, node, read_unary(r), sign);
  }
  return node;
}

static int read_sum(reader_t *r) {
  int first = read_product(r);
  if (peek(r) != '+' && peek(r) != '-') return first;
  int node = new_node(r, RULE_SUM);
  add_kid(r, node, first, 1);
  while (!r->failed && (peek(r) == '+' || peek(r) == '-')) {
    int sign = *r->at++ == '+' ? 1 : -1;
    add_kid(r, node, read_product(r), sign);
  }
  return node;
}

bool rule_parse(rule_t *rule, const char *text) {
  *rule = (rule_t){0};
  reader_t r = {rule, text, false};
  char name[12];
  read_name(&r, name, sizeof(name));
  need(&r, '[');
  int n = 0;
  for (; *r.at && *r.at != ']'; r.at++)
    if (isalpha((unsigned char)*r.at) && n < RULE_MAX_DIMS) rule->left[n++] = *r.at;
  need(&r, ']');
  need(&r, '=');
  rule->root = read_sum(&r);
  return !r.failed && peek(&r) == '\0';
}

void rule_deinit(rule_t *rule) {
  for (int i = 0; i < rule->num_tensors; i++) free(rule->tensors[i].data);
}

// --- the rule

static uint32_t letters(const char *dims) {
  uint32_t set = 0;
  for (; *dims; dims++)
    if (*dims != '.') set |= bit(*dims);
  return set;
}

static uint32_t free_dims(const rule_t *rule, int node) {
  const rule_node_t *n = &rule->nodes[node];
  uint32_t set = n->kind == RULE_LEAF ? letters(n->dims) : 0;
  for (int i = 0; i < n->num_kids; i++)
    if (n->kids[i] >= 0) set |= free_dims(rule, n->kids[i]);
  return n->kind == RULE_REDUCE ? set & ~letters(n->dims) : set;
}

static bool has(const rule_t *rule, int node, char dim) {
  return (free_dims(rule, node) & bit(dim)) != 0;
}

static int count_holders(const rule_t *rule, const rule_node_t *n, char dim, int sign) {
  int count = 0;
  for (int i = 0; i < n->num_kids; i++) count += n->sign[i] == sign && has(rule, n->kids[i], dim);
  return count;
}

// Whether some product in |node| has |dim| in two of its factors or divisors.
static bool holds_product(const rule_t *rule, int node, char dim) {
  const rule_node_t *n = &rule->nodes[node];
  if (!has(rule, node, dim) || n->kind == RULE_LEAF) return false;
  if (n->kind == RULE_PRODUCT &&
      count_holders(rule, n, dim, 1) + count_holders(rule, n, dim, -1) >= 2)
    return true;
  for (int i = 0; i < n->num_kids; i++)
    if (holds_product(rule, n->kids[i], dim)) return true;
  return false;
}

static void place(rule_t *rule, int node, char dim) {
  rule_node_t *n = &rule->nodes[node];
  if (!has(rule, node, dim)) return;
  if (n->kind == RULE_PAREN || n->kind == RULE_NEG || n->kind == RULE_SUM) {
    for (int i = 0; i < n->num_kids; i++) place(rule, n->kids[i], dim);
    return;
  }
  int above = n->kind == RULE_PRODUCT ? count_holders(rule, n, dim, 1) : 0;
  int below = n->kind == RULE_PRODUCT ? count_holders(rule, n, dim, -1) : 0;
  if (above >= 2) {
    n->site |= bit(dim);
    for (int i = 0; i < n->num_kids; i++) rule->ambiguous |= holds_product(rule, n->kids[i], dim);
  } else if (above == 1 && below == 0) {
    for (int i = 0; i < n->num_kids; i++) place(rule, n->kids[i], dim);
  } else {
    rule->refused = true;
  }
}

uint32_t rule_missing(const rule_t *rule) {
  return free_dims(rule, rule->root) & ~letters(rule->left);
}

void rule_place(rule_t *rule) {
  uint32_t missing = rule_missing(rule);
  for (char dim = 'a'; dim <= 'z'; dim++)
    if (missing & bit(dim)) place(rule, rule->root, dim);
}

// --- evaluation

void rule_fill(rule_t *rule, uint64_t *state) {
  for (int i = 0; i < rule->num_tensors; i++) {
    rule_tensor_t *tensor = &rule->tensors[i];
    tensor->data = calloc((size_t)tensor->num_elements, sizeof(double));
    for (int64_t k = 0; k < tensor->num_elements; k++) {
      uint64_t x = unit_random(state);
      double u = (double)(x >> 11) * 0x1p-53;
      tensor->data[k] = tensor->is_index ? (double)(x % 5) : (x & 1 ? 0.25 + u : -0.25 - u);
    }
  }
}

static double eval(const rule_t *rule, int node, int64_t at[26]);

static double eval_leaf(const rule_t *rule, const rule_node_t *n, int64_t at[26]) {
  int64_t offset = 0;
  const rule_tensor_t *tensor = rule->tensors;
  while (strcmp(tensor->name, n->name) != 0) tensor++;
  for (int i = 0; i < n->num_kids; i++) {
    int64_t index = n->kids[i] < 0 ? at[n->dims[i] - 'a'] : (int64_t)eval(rule, n->kids[i], at);
    offset = offset * rule_extent(tensor->dims[i]) + index;
  }
  return tensor->data[offset];
}

static double eval_call(const char *name, double x) {
  if (strcmp(name, "gelu") == 0) return x * 0.5 * (1 + erf(x / sqrt(2)));
  if (strcmp(name, "silu") == 0) return x / (1 + exp(-x));
  if (strcmp(name, "tanh") == 0) return tanh(x);
  if (strcmp(name, "sigmoid") == 0) return 1 / (1 + exp(-x));
  if (strcmp(name, "cos") == 0) return cos(x);
  return sin(x);
}

static double eval_product(const rule_t *rule, const rule_node_t *n, int64_t at[26]) {
  double value = 1;
  for (int i = 0; i < n->num_kids; i++) {
    double x = eval(rule, n->kids[i], at);
    value = n->sign[i] > 0 ? value * x : value / x;
  }
  return value;
}

// Calls eval_product or eval of the kid for all values of the dims in |set|; combines by |how|:
// '+' the sum, 'm' the maximum.
static double eval_over(const rule_t *rule, const rule_node_t *n, uint32_t set, char how,
                        int64_t at[26]) {
  if (!set) return n->kind == RULE_PRODUCT ? eval_product(rule, n, at) : eval(rule, n->kids[0], at);
  char dim = 'a';
  while (!(set & bit(dim))) dim++;
  int64_t saved = at[dim - 'a'];
  double value = how == '+' ? 0 : -INFINITY;
  for (int64_t i = 0; i < rule_extent(dim); i++) {
    at[dim - 'a'] = i;
    double x = eval_over(rule, n, set & ~bit(dim), how, at);
    value = how == '+' ? value + x : fmax(value, x);
  }
  at[dim - 'a'] = saved;
  return value;
}

static double eval_softmax(const rule_t *rule, const rule_node_t *n, int64_t at[26]) {
  int64_t *position = &at[n->dims[0] - 'a'], saved = *position;
  double own = eval(rule, n->kids[0], at), sum = 0;
  for (*position = 0; *position < rule_extent(n->dims[0]); ++*position)
    sum += exp(eval(rule, n->kids[0], at) - own);
  *position = saved;
  return 1 / sum;
}

static double eval_reduce(const rule_t *rule, const rule_node_t *n, int64_t at[26]) {
  double value = eval_over(rule, n, letters(n->dims), strcmp(n->name, "max") == 0 ? 'm' : '+', at);
  if (strcmp(n->name, "mean") != 0) return value;
  for (const char *dim = n->dims; *dim; dim++) value /= (double)rule_extent(*dim);
  return value;
}

static double eval(const rule_t *rule, int node, int64_t at[26]) {
  const rule_node_t *n = &rule->nodes[node];
  switch (n->kind) {
    case RULE_NUMBER: return n->value;
    case RULE_LEAF: return eval_leaf(rule, n, at);
    case RULE_PAREN: return eval(rule, n->kids[0], at);
    case RULE_NEG: return -eval(rule, n->kids[0], at);
    case RULE_POWER: return pow(eval(rule, n->kids[0], at), n->value);
    case RULE_CALL: return eval_call(n->name, eval(rule, n->kids[0], at));
    case RULE_SOFTMAX: return eval_softmax(rule, n, at);
    case RULE_REDUCE: return eval_reduce(rule, n, at);
    case RULE_PRODUCT: return eval_over(rule, n, n->site, '+', at);
    case RULE_SUM: {
      double value = 0;
      for (int i = 0; i < n->num_kids; i++) value += n->sign[i] * eval(rule, n->kids[i], at);
      return value;
    }
  }
  return NAN;
}

double rule_eval(const rule_t *rule, int64_t at[26]) { return eval(rule, rule->root, at); }
