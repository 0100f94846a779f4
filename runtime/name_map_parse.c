// Lines of a name map to rules. Grammar:
//   line  = "optional-prefix" NAME | "ignore" NAME | side "=" side [":" dims] ["where" split {"," split}]
//   side  = NAME ["[" slice {"," slice} "]"]        NAME has {variables}
//   slice = ":" | INT "/" INT | INT ":" INT | INT | "{" IDENT "}"
//   dims  = names {"," names}      names = {IDENT | INT}
//   split = IDENT "=" IDENT [":" INT] IDENT [":" INT]
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/mapping.h"
#include "runtime/name_map_impl.h"

typedef struct parser_s {
  ptc_diag_t *diag;
  ptc_name_map_t *map;
  const char *path;
  const char *line, *at, *end;  // the line being read
  int32_t number;
} parser_t;

static ptc_status_t fail(const parser_t *p, const char *what) {
  ptc_loc_t loc = {p->path, p->number, (int32_t)(p->at - p->line) + 1};
  return ptc_error(p->diag, loc, PTC_INVALID_INPUT, "map-syntax", "%s", what);
}

// --- words

static void skip_space(parser_t *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++;
}

static bool peek(parser_t *p, char wanted) {
  skip_space(p);
  return p->at < p->end && *p->at == wanted;
}

static bool take(parser_t *p, char wanted) {
  if (!peek(p, wanted)) return false;
  p->at++;
  return true;
}

static bool take_word(parser_t *p, const char *word) {
  skip_space(p);
  size_t len = strlen(word);
  if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len) != 0) return false;
  if (p->at + len < p->end && p->at[len] != ' ' && p->at[len] != '\t') return false;
  p->at += len;
  return true;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// Letters, digits, underscores; NULL if there are none.
static const char *take_ident(parser_t *p) {
  skip_space(p);
  const char *first = p->at;
  while (p->at < p->end && is_word(*p->at)) p->at++;
  return p->at == first ? NULL : ptc_arena_strndup(&p->map->arena, first, (size_t)(p->at - first));
}

static bool take_int(parser_t *p, int64_t *out) {
  skip_space(p);
  const char *first = p->at;
  *out = 0;
  for (; p->at < p->end && isdigit((unsigned char)*p->at); p->at++)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *p->at - '0', out))
      return false;
  return p->at > first && *out < INT64_MAX / 2;
}

// --- names

static int32_t variable(ptc_map_rule_t *rule, const char *name) {
  for (int32_t i = 0; i < rule->num_vars; i++)
    if (strcmp(rule->vars[i], name) == 0) return i;
  if (rule->num_vars == PTC_MAP_MAX_VARS) return -1;
  rule->vars[rule->num_vars] = name;
  return rule->num_vars++;
}

static ptc_status_t take_variable(parser_t *p, ptc_map_rule_t *rule, int32_t *out) {
  const char *name = take(p, '{') ? take_ident(p) : NULL;
  if (!name || !take(p, '}')) return fail(p, "a variable is written {NAME}");
  *out = variable(rule, name);
  return *out < 0 ? fail(p, "a line has at most 8 variables") : PTC_OK;
}

// Of a tensor's name: ASCII.
static bool is_name(char c) {
  return c > ' ' && c < 0x7f && c != '[' && c != '=' && c != '{' && c != '}' && c != '#' &&
         c != ':';
}

static ptc_status_t take_pattern(parser_t *p, ptc_map_rule_t *rule, ptc_map_pattern_t *out) {
  skip_space(p);
  const char *first = p->at;
  for (;;) {
    const char *part = p->at;
    while (p->at < p->end && is_name(*p->at)) p->at++;
    out->parts[out->num_vars] = ptc_arena_strndup(&p->map->arena, part, (size_t)(p->at - part));
    if (p->at == p->end || *p->at != '{') break;
    // Between two variables no digit must be guessed to be of one or the other.
    if (out->num_vars > 0 && p->at == part)
      return fail(p, "something must stand between two variables");
    if (out->num_vars == PTC_MAP_MAX_VARS) return fail(p, "a name has at most 8 variables");
    PTC_TRY(take_variable(p, rule, &out->vars[out->num_vars]));
    out->num_vars++;
  }
  if (p->at == first) return fail(p, "a tensor's name is missing");
  out->text = ptc_arena_strndup(&p->map->arena, first, (size_t)(p->at - first));
  return PTC_OK;
}

static ptc_status_t take_slice(parser_t *p, ptc_map_rule_t *rule, ptc_map_slice_t *out) {
  int32_t var;
  *out = (ptc_map_slice_t){PTC_MAP_ALL, 0, 0};
  if (peek(p, '{')) {
    out->kind = PTC_MAP_VAR;
    PTC_TRY(take_variable(p, rule, &var));
    out->a = var;
    return PTC_OK;
  }
  if (take(p, ':')) return PTC_OK;
  if (!take_int(p, &out->a))
    return fail(p, "a slice is :, PART/PARTS, FIRST:END, a number or {NAME}");
  out->kind = take(p, '/') ? PTC_MAP_PART : take(p, ':') ? PTC_MAP_RANGE : PTC_MAP_INDEX;
  if (out->kind == PTC_MAP_INDEX) return PTC_OK;
  if (!take_int(p, &out->b)) return fail(p, "a slice's second number is missing");
  return out->a < out->b ? PTC_OK : fail(p, "the first number of a slice is below the second");
}

static ptc_status_t take_side(parser_t *p, ptc_map_rule_t *rule, ptc_map_side_t *out) {
  PTC_TRY(take_pattern(p, rule, &out->name));
  if (!take(p, '[')) return PTC_OK;
  do {
    if (out->num_slices == PTC_MAX_DIMS) return fail(p, "a tensor has at most 16 dims");
    PTC_TRY(take_slice(p, rule, &out->slices[out->num_slices]));
    out->num_slices++;
  } while (take(p, ','));
  return take(p, ']') ? PTC_OK : fail(p, "expected , or ] after a slice");
}

// --- dims

static ptc_status_t take_dims(parser_t *p, ptc_map_rule_t *rule) {
  rule->has_dims = true;
  do {
    if (rule->num_groups == PTC_MAX_DIMS) return fail(p, "a tensor has at most 16 dims");
    for (;;) {
      const char *before = p->at;
      if (take_word(p, "where")) {
        p->at = before;
        break;
      }
      const char *dim = take_ident(p);
      if (!dim) break;
      if (rule->num_dims == PTC_MAX_DIMS) return fail(p, "a line has at most 16 dims");
      rule->dims[rule->num_dims++] = dim;
    }
    rule->group_ends[rule->num_groups++] = rule->num_dims;
    int32_t first = rule->num_groups > 1 ? rule->group_ends[rule->num_groups - 2] : 0;
    if (first == rule->num_dims) return fail(p, "each of their dims is one or more of ours");
  } while (take(p, ','));
  return PTC_OK;
}

static ptc_status_t take_splits(parser_t *p, ptc_map_rule_t *rule) {
  do {
    if (rule->num_splits == PTC_MAX_DIMS) return fail(p, "a line has at most 16 dims");
    ptc_map_split_t *split = &rule->splits[rule->num_splits++];
    split->dim = take_ident(p);
    if (!split->dim || !take(p, '=')) return fail(p, "a dim is split as in: where k = p:2 j");
    split->outer = take_ident(p);
    if (take(p, ':') && !take_int(p, &split->outer_extent)) return fail(p, "an extent is missing");
    split->inner = take_ident(p);
    if (take(p, ':') && !take_int(p, &split->inner_extent)) return fail(p, "an extent is missing");
    if (!split->outer || !split->inner || (split->outer_extent > 0) == (split->inner_extent > 0))
      return fail(p, "a dim is split in two, one of them with its extent: where k = p:2 j");
  } while (take(p, ','));
  return PTC_OK;
}

// --- lines

static bool uses(const ptc_map_side_t *side, int32_t var) {
  for (int32_t i = 0; i < side->name.num_vars; i++)
    if (side->name.vars[i] == var) return true;
  for (int32_t i = 0; i < side->num_slices; i++)
    if (side->slices[i].kind == PTC_MAP_VAR && side->slices[i].a == var) return true;
  return false;
}

static ptc_status_t parse_rule(parser_t *p) {
  ptc_map_rule_t rule = {.loc = {p->path, p->number, (int32_t)(p->at - p->line) + 1}};
  rule.ignore = take_word(p, "ignore");
  PTC_TRY(rule.ignore ? take_pattern(p, &rule, &rule.theirs.name)
                      : take_side(p, &rule, &rule.theirs));
  if (!rule.ignore) {
    if (!take(p, '=')) return fail(p, "expected = after the name of their tensor");
    PTC_TRY(take_side(p, &rule, &rule.ours));
    if (take(p, ':')) PTC_TRY(take_dims(p, &rule));
    if (take_word(p, "where")) PTC_TRY(take_splits(p, &rule));
  }
  skip_space(p);
  if (p->at < p->end) return fail(p, "this does not belong to the line");
  for (int32_t i = 0; i < rule.num_vars && !rule.ignore; i++)
    if (!uses(&rule.theirs, i) || !uses(&rule.ours, i))
      return fail(p, "each variable stands on both sides");
  if (p->map->rules.len == PTC_MAP_MAX_RULES) return fail(p, "too many lines");
  PTC_VEC_PUSH(&p->map->rules, rule);
  return PTC_OK;
}

static ptc_status_t parse_line(parser_t *p) {
  skip_space(p);
  if (p->at == p->end) return PTC_OK;
  if (!take_word(p, "optional-prefix")) return parse_rule(p);
  ptc_map_rule_t unused = {0};
  ptc_map_pattern_t prefix = {0};
  PTC_TRY(take_pattern(p, &unused, &prefix));
  skip_space(p);
  if (prefix.num_vars || p->at < p->end) return fail(p, "a prefix is one word without variables");
  PTC_VEC_PUSH(&p->map->prefixes, prefix.parts[0]);
  return PTC_OK;
}

static ptc_status_t parse_lines(parser_t *p, const char *text, const char *end) {
  ptc_status_t status = PTC_OK;
  while (text < end) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    const char *line_end = newline ? newline : end;
    const char *comment = memchr(text, '#', (size_t)(line_end - text));
    p->line = p->at = text;
    p->end = comment ? comment : line_end;
    if (p->end > p->at && p->end[-1] == '\r') p->end--;
    p->number++;
    ptc_status_t parsed = parse_line(p);
    if (parsed != PTC_OK) status = parsed;
    text = newline ? newline + 1 : end;
  }
  return status;
}

ptc_status_t ptc_name_map_parse(ptc_diag_t *diag, const char *path, const char *text, size_t len,
                                ptc_name_map_t **out_map) {
  ptc_name_map_t *map = ptc_xmalloc(sizeof(*map));
  *map = (ptc_name_map_t){0};
  ptc_diag_add_source(diag, path, text, len);
  parser_t p = {.diag = diag, .map = map, .path = ptc_arena_strdup(&map->arena, path)};
  ptc_status_t status = parse_lines(&p, text, text + len);
  if (status != PTC_OK) {
    ptc_name_map_destroy(map);
    map = NULL;
  }
  *out_map = map;
  return status;
}

ptc_status_t ptc_name_map_read(ptc_diag_t *diag, const char *path, ptc_name_map_t **out_map) {
  *out_map = NULL;
  ptc_mapping_t mapping;
  PTC_TRY(ptc_mapping_open(diag, path, &mapping));
  ptc_status_t status = mapping.bytes > 16 << 20
                            ? ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "map-syntax",
                                        "\"%s\" is no name map: it is larger than 16 MiB", path)
                            : ptc_name_map_parse(diag, path, (const char *)mapping.data,
                                                 (size_t)mapping.bytes, out_map);
  ptc_mapping_close(&mapping);
  return status;
}

void ptc_name_map_destroy(ptc_name_map_t *map) {
  if (!map) return;
  PTC_VEC_FREE(&map->rules);
  PTC_VEC_FREE(&map->prefixes);
  ptc_arena_deinit(&map->arena);
  free(map);
}
