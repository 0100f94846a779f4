#include "frontend/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/str.h"

enum { MAX_TERMS = 64, MAX_FACTORS = 16 };

__extension__ typedef __int128 wide_t;  // holds products of two int64

// An atom (parameter, or opaque sub-expression) to a nonzero power.
typedef struct factor_s {
  const char *atom;  // interned
  int32_t exponent;
} factor_t;

struct ptc_term_s {
  int64_t num, den;  // coefficient, lowest terms, den > 0, num != 0
  int32_t num_factors;
  const factor_t *factors;  // sorted by atom text
};

// num / den in lowest terms; false if it does not fit.
static bool reduce(wide_t num, wide_t den, int64_t *out_num, int64_t *out_den) {
  if (den == 0) return false;
  if (den < 0) {
    num = -num;
    den = -den;
  }
  wide_t a = num < 0 ? -num : num, b = den;
  while (b) {
    wide_t t = a % b;
    a = b;
    b = t;
  }
  if (a) {
    num /= a;
    den /= a;
  }
  if (num > INT64_MAX || num < -(wide_t)INT64_MAX || den > INT64_MAX) return false;
  *out_num = (int64_t)num;
  *out_den = (int64_t)den;
  return true;
}

static ptc_number_t from_ratio(int64_t num, int64_t den) {
  return (ptc_number_t){.value = (double)num / (double)den, .exact = true, .num = num, .den = den};
}

static void set_atom(ptc_number_ctx_t *ctx, ptc_number_t *a, const char *atom) {
  factor_t *factor = PTC_ARENA_NEW(ctx->arena, factor_t);
  *factor = (factor_t){ptc_intern(ctx->names, atom), 1};
  ptc_term_t *term = PTC_ARENA_NEW(ctx->arena, ptc_term_t);
  *term = (ptc_term_t){1, 1, 1, factor};
  a->terms = term;
  a->num_terms = 1;
}

// The expression of a plain number is its value.
static void set_constant(ptc_number_ctx_t *ctx, ptc_number_t *a) {
  if (!a->exact) {
    ptc_str_t text = {0};
    ptc_str_append_double(&text, a->value);
    set_atom(ctx, a, text.data);
    ptc_str_deinit(&text);
    return;
  }
  a->terms = NULL;
  a->num_terms = 0;
  if (a->num == 0) return;
  ptc_term_t *term = PTC_ARENA_NEW(ctx->arena, ptc_term_t);
  *term = (ptc_term_t){a->num, a->den, 0, NULL};
  a->terms = term;
  a->num_terms = 1;
}

ptc_number_t ptc_number_from_int(ptc_number_ctx_t *ctx, int64_t value) {
  ptc_number_t a = from_ratio(value, 1);
  set_constant(ctx, &a);
  return a;
}

ptc_number_t ptc_number_from_double(ptc_number_ctx_t *ctx, double value) {
  if (fabs(value) < 9e15 && value == trunc(value)) return ptc_number_from_int(ctx, (int64_t)value);
  ptc_number_t a = {.value = value};
  set_constant(ctx, &a);
  return a;
}

ptc_number_t ptc_number_parse(ptc_number_ctx_t *ctx, const char *text) {
  ptc_number_t a = {.value = strtod(text, NULL)};
  wide_t num = 0, den = 1;
  const wide_t limit = (wide_t)1 << 100;
  bool fits = true, after_point = false;
  const char *p = text;
  for (; *p && *p != 'e' && *p != 'E'; p++) {
    if (*p == '.') {
      after_point = true;
      continue;
    }
    num = num * 10 + (*p - '0');
    if (after_point) den *= 10;
    if (num > limit || den > limit) {
      fits = false;
      break;
    }
  }
  if (fits && *p) {
    long exponent = strtol(p + 1, NULL, 10);
    if (exponent > 30 || exponent < -30) fits = false;
    for (; fits && exponent > 0; exponent--) fits = (num *= 10) <= limit;
    for (; fits && exponent < 0; exponent++) fits = (den *= 10) <= limit;
  }
  a.exact = fits && reduce(num, den, &a.num, &a.den);
  set_constant(ctx, &a);
  return a;
}

ptc_number_t ptc_number_named(ptc_number_ctx_t *ctx, const char *name, ptc_number_t value) {
  set_atom(ctx, &value, name);
  return value;
}

static void print_terms(ptc_str_t *out, ptc_number_t a) {
  if (!a.num_terms) ptc_str_append(out, "0");
  for (int32_t i = 0; i < a.num_terms; i++) {
    const ptc_term_t *term = &a.terms[i];
    if (i) ptc_str_append(out, " + ");
    bool one = term->num == 1 && term->den == 1;
    if (!one || !term->num_factors) ptc_str_printf(out, "%" PRId64, term->num);
    if (term->den != 1) ptc_str_printf(out, "/%" PRId64, term->den);
    for (int32_t f = 0; f < term->num_factors; f++) {
      if (f || !one) ptc_str_append(out, "*");
      ptc_str_append(out, term->factors[f].atom);
      if (term->factors[f].exponent != 1)
        ptc_str_printf(out, "^%" PRId32, term->factors[f].exponent);
    }
  }
}

const char *ptc_number_key(ptc_number_ctx_t *ctx, ptc_number_t a) {
  ptc_str_t text = {0};
  print_terms(&text, a);
  const char *key = ptc_intern(ctx->names, text.data);
  ptc_str_deinit(&text);
  return key;
}

static int compare_factors(const ptc_term_t *a, const ptc_term_t *b) {
  for (int32_t i = 0; i < a->num_factors && i < b->num_factors; i++) {
    int c = strcmp(a->factors[i].atom, b->factors[i].atom);
    if (c) return c;
    if (a->factors[i].exponent != b->factors[i].exponent)
      return a->factors[i].exponent - b->factors[i].exponent;
  }
  return a->num_factors - b->num_factors;
}

static int compare_terms(const void *a, const void *b) {
  return compare_factors((const ptc_term_t *)a, (const ptc_term_t *)b);
}

// Sorts, adds up terms of equal factors. False if a coefficient overflows or there are too many.
static bool set_terms(ptc_number_ctx_t *ctx, ptc_number_t *out, ptc_term_t *terms, int32_t count) {
  qsort(terms, (size_t)count, sizeof(*terms), compare_terms);
  int32_t n = 0;
  for (int32_t i = 0; i < count; i++) {
    if (n && compare_factors(&terms[n - 1], &terms[i]) == 0) {
      wide_t num =
          (wide_t)terms[n - 1].num * terms[i].den + (wide_t)terms[i].num * terms[n - 1].den;
      if (!reduce(num, (wide_t)terms[n - 1].den * terms[i].den, &terms[n - 1].num,
                  &terms[n - 1].den))
        return false;
      if (terms[n - 1].num == 0) n--;
    } else if (terms[i].num != 0) {
      terms[n++] = terms[i];
    }
  }
  if (n > MAX_TERMS) return false;
  ptc_term_t *copy = PTC_ARENA_ARRAY(ctx->arena, ptc_term_t, n);
  if (n) memcpy(copy, terms, (size_t)n * sizeof(*copy));
  out->terms = copy;
  out->num_terms = n;
  return true;
}

static bool multiply_terms(ptc_number_ctx_t *ctx, const ptc_term_t *a, const ptc_term_t *b,
                           int32_t sign, ptc_term_t *out) {
  factor_t factors[2 * MAX_FACTORS];
  int32_t n = 0, i = 0, j = 0;
  while (i < a->num_factors || j < b->num_factors) {
    int c = i == a->num_factors   ? 1
            : j == b->num_factors ? -1
                                  : strcmp(a->factors[i].atom, b->factors[j].atom);
    factor_t f = c <= 0 ? a->factors[i] : b->factors[j];
    if (c > 0) f.exponent *= sign;
    if (c == 0) f.exponent += sign * b->factors[j].exponent;
    if (c <= 0) i++;
    if (c >= 0) j++;
    if (f.exponent == 0) continue;
    if (n == MAX_FACTORS || f.exponent > 1000 || f.exponent < -1000) return false;
    factors[n++] = f;
  }
  wide_t num = (wide_t)a->num * (sign > 0 ? b->num : b->den);
  wide_t den = (wide_t)a->den * (sign > 0 ? b->den : b->num);
  if (!reduce(num, den, &out->num, &out->den)) return false;
  factor_t *copy = PTC_ARENA_ARRAY(ctx->arena, factor_t, n);
  if (n) memcpy(copy, factors, (size_t)n * sizeof(*copy));
  out->factors = copy;
  out->num_factors = n;
  return true;
}

static bool combine_terms(ptc_number_ctx_t *ctx, ptc_operator_t op, ptc_number_t a, ptc_number_t b,
                          ptc_number_t *out) {
  ptc_term_t terms[MAX_TERMS * 2];
  int32_t n = 0;
  if (op == PTC_OPR_ADD || op == PTC_OPR_SUB) {
    if (a.num_terms + b.num_terms > 2 * MAX_TERMS) return false;
    for (int32_t i = 0; i < a.num_terms; i++) terms[n++] = a.terms[i];
    for (int32_t i = 0; i < b.num_terms; i++) {
      terms[n] = b.terms[i];
      if (op == PTC_OPR_SUB) terms[n].num = -terms[n].num;
      n++;
    }
    return set_terms(ctx, out, terms, n);
  }
  if (op == PTC_OPR_DIV && b.num_terms != 1) return false;
  if (op != PTC_OPR_MUL && op != PTC_OPR_DIV) return false;
  if (a.num_terms * (b.num_terms ? b.num_terms : 1) > 2 * MAX_TERMS) return false;
  for (int32_t i = 0; i < a.num_terms; i++)
    for (int32_t j = 0; j < b.num_terms; j++)
      if (!multiply_terms(ctx, &a.terms[i], &b.terms[j], op == PTC_OPR_MUL ? 1 : -1, &terms[n++]))
        return false;
  return set_terms(ctx, out, terms, n);
}

// The atom for an expression without a polynomial form.
static void set_opaque(ptc_number_ctx_t *ctx, ptc_number_t *out, const char *head,
                       const ptc_number_t *args, int32_t num_args) {
  ptc_str_t text = {0};
  ptc_str_printf(&text, "%s(", head);
  for (int32_t i = 0; i < num_args; i++) {
    if (i) ptc_str_append(&text, ", ");
    print_terms(&text, args[i]);
  }
  ptc_str_append(&text, ")");
  // A very long expression is identified by a hash (FNV-1a) rather than by endless text.
  if (text.len > 4096) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < text.len; i++)
      hash = (hash ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    text.len = 0;
    ptc_str_printf(&text, "%s(#%016" PRIx64 ")", head, hash);
  }
  set_atom(ctx, out, text.data);
  ptc_str_deinit(&text);
}

static bool exact_binary(ptc_operator_t op, ptc_number_t a, ptc_number_t b, ptc_number_t *out) {
  if (!a.exact || !b.exact) return false;
  wide_t an = a.num, ad = a.den, bn = b.num, bd = b.den, num, den;
  switch (op) {
    case PTC_OPR_ADD: num = an * bd + bn * ad, den = ad * bd; break;
    case PTC_OPR_SUB: num = an * bd - bn * ad, den = ad * bd; break;
    case PTC_OPR_MUL: num = an * bn, den = ad * bd; break;
    case PTC_OPR_DIV: num = an * bd, den = ad * bn; break;
    case PTC_OPR_MOD: {
      if (bn == 0 || ad != 1 || bd != 1) return false;
      num = an % bn;
      if (num != 0 && (num < 0) != (bn < 0)) num += bn;
      den = 1;
      break;
    }
    case PTC_OPR_POW: {
      if (bd != 1 || bn < 0 || bn > 64) return false;
      int64_t rn = 1, rd = 1;
      for (int64_t i = 0; i < b.num; i++)
        if (!reduce((wide_t)rn * an, (wide_t)rd * ad, &rn, &rd)) return false;
      num = rn, den = rd;
      break;
    }
    default: return false;
  }
  int64_t n, d;
  if (!reduce(num, den, &n, &d)) return false;
  out->value = (double)n / (double)d;
  out->exact = true;
  out->num = n;
  out->den = d;
  return true;
}

static double apply(ptc_operator_t op, double a, double b) {
  switch (op) {
    case PTC_OPR_ADD: return a + b;
    case PTC_OPR_SUB: return a - b;
    case PTC_OPR_MUL: return a * b;
    case PTC_OPR_DIV: return a / b;
    case PTC_OPR_MOD: return a - floor(a / b) * b;
    case PTC_OPR_POW: return pow(a, b);
    case PTC_OPR_EQ: return a == b;
    case PTC_OPR_NE: return a != b;
    case PTC_OPR_LT: return a < b;
    case PTC_OPR_LE: return a <= b;
    case PTC_OPR_GT: return a > b;
    case PTC_OPR_GE: return a >= b;
    case PTC_OPR_AND: return a != 0 && b != 0;
    case PTC_OPR_OR: return a != 0 || b != 0;
    case PTC_OPR_NOT:
    case PTC_OPR_NEG: break;
  }
  return 0;
}

ptc_number_t ptc_number_binary(ptc_number_ctx_t *ctx, ptc_operator_t op, ptc_number_t a,
                               ptc_number_t b) {
  if (op >= PTC_OPR_EQ) return ptc_number_from_int(ctx, (int64_t)apply(op, a.value, b.value));
  ptc_number_t out = {0};
  if (!exact_binary(op, a, b, &out)) {
    out.value = apply(op, a.value, b.value);
    out.exact = false;
  }
  bool squared = op == PTC_OPR_POW && b.exact && b.den == 1 && b.num == 2;
  if (combine_terms(ctx, squared ? PTC_OPR_MUL : op, a, squared ? a : b, &out)) return out;
  if (!a.num_terms || !b.num_terms ||
      (a.num_terms == 1 && !a.terms->num_factors && b.num_terms == 1 && !b.terms->num_factors)) {
    set_constant(ctx, &out);
    return out;
  }
  const ptc_number_t args[2] = {a, b};
  set_opaque(ctx, &out, ptc_operator_text(op), args, 2);
  return out;
}

ptc_number_t ptc_number_neg(ptc_number_ctx_t *ctx, ptc_number_t a) {
  return ptc_number_binary(ctx, PTC_OPR_SUB, ptc_number_from_int(ctx, 0), a);
}

static const char *const function_names[] = {"ceil", "floor", "sqrt", "exp", "log",
                                             "abs",  "sin",   "cos",  "tanh"};

bool ptc_number_is_function(const char *name) {
  for (size_t i = 0; i < sizeof(function_names) / sizeof(*function_names); i++)
    if (strcmp(function_names[i], name) == 0) return true;
  return false;
}

static int64_t floor_div(int64_t num, int64_t den) {
  int64_t q = num / den;
  return q - (num % den != 0 && num < 0);
}

bool ptc_number_call(ptc_number_ctx_t *ctx, const char *name, ptc_number_t a, ptc_number_t *out) {
  if (!ptc_number_is_function(name)) return false;
  ptc_number_t r = {0};
  bool is_ceil = strcmp(name, "ceil") == 0;
  if (is_ceil || strcmp(name, "floor") == 0) {
    if (a.exact && a.den == 1) {
      *out = a;
      return true;
    }
    if (a.exact) {
      int64_t q = floor_div(a.num, a.den);
      r = from_ratio(is_ceil ? q + 1 : q, 1);
    } else {
      r = ptc_number_from_double(ctx, is_ceil ? ceil(a.value) : floor(a.value));
    }
  } else if (strcmp(name, "abs") == 0) {
    if (a.value >= 0) {
      *out = a;
      return true;
    }
    r = ptc_number_neg(ctx, a);
    *out = r;
    return true;
  } else {
    double (*f)(double) = name[0] == 'e'   ? exp
                          : name[0] == 'l' ? log
                          : name[0] == 't' ? tanh
                          : name[0] == 'c' ? cos
                          : name[1] == 'q' ? sqrt
                                           : sin;
    r = ptc_number_from_double(ctx, f(a.value));
  }
  if (a.num_terms == 0 || (a.num_terms == 1 && !a.terms->num_factors))
    set_constant(ctx, &r);
  else
    set_opaque(ctx, &r, name, &a, 1);
  *out = r;
  return true;
}

bool ptc_number_is_int(ptc_number_t a) { return a.exact && a.den == 1; }
