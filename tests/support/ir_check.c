#include "tests/support/ir_check.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "ir/base/vec.h"

enum { MAX_VARIABLES = 32, MAX_GROUPS = 10 };

typedef enum check_kind_e { CHECK, CHECK_NEXT, CHECK_NOT, CHECK_LABEL } check_kind_t;

typedef struct check_s {
  check_kind_t kind;
  const char *pattern;  // blanks squeezed
  int line;
} check_t;

typedef struct variable_s {
  char name[32];
  char *value;
} variable_t;

typedef struct checker_s {
  const char *path;
  ptc_str_t *report;
  ptc_arena_t arena;
  PTC_VEC(check_t) checks;
  variable_t variables[MAX_VARIABLES];
  int num_variables;
} checker_t;

static bool complain(checker_t *c, const check_t *check, const char *what) {
  ptc_str_printf(c->report, "%s:%d: %s: %s\n", c->path, check->line, what, check->pattern);
  return false;
}

// A copy of |len| bytes in which runs of blanks are one, and none stand around a line.
static char *squeeze(checker_t *c, const char *text, size_t len) {
  char *out = ptc_arena_alloc(&c->arena, len + 1), *to = out;
  for (size_t i = 0; i < len; i++) {
    bool blank = text[i] == ' ' || text[i] == '\t';
    if (!blank) {
      if (text[i] == '\n' && to > out && to[-1] == ' ') to--;
      *to++ = text[i];
    } else if (to > out && to[-1] != ' ' && to[-1] != '\n') {
      *to++ = ' ';
    }
  }
  if (to > out && to[-1] == ' ') to--;
  *to = '\0';
  return out;
}

// --- reading

static void read_checks(checker_t *c, const char *text) {
  static const struct {
    const char *word;
    check_kind_t kind;
  } words[] = {{"# CHECK:", CHECK},
               {"# CHECK-NEXT:", CHECK_NEXT},
               {"# CHECK-NOT:", CHECK_NOT},
               {"# CHECK-LABEL:", CHECK_LABEL}};
  int line = 1;
  for (const char *p = text; *p; line++) {
    size_t len = strcspn(p, "\n");
    for (size_t w = 0; w < sizeof(words) / sizeof(*words); w++) {
      size_t word_len = strlen(words[w].word), indent = strspn(p, " ");
      if (strncmp(p + indent, words[w].word, word_len) != 0) continue;
      const char *start = p + indent + word_len;
      check_t check = {words[w].kind, squeeze(c, start, len - indent - word_len), line};
      PTC_VEC_PUSH(&c->checks, check);
    }
    p += len + (p[len] == '\n');
  }
}

// --- matching

static void append_literal(ptc_str_t *regex, const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if (strchr("\\^$.[]|()?*+{}", text[i])) ptc_str_append(regex, "\\");
    ptc_str_append_n(regex, &text[i], 1);
  }
}

static variable_t *find_variable(checker_t *c, const char *name, size_t len) {
  for (int i = 0; i < c->num_variables; i++)
    if (strlen(c->variables[i].name) == len && memcmp(c->variables[i].name, name, len) == 0)
      return &c->variables[i];
  return NULL;
}

typedef struct binding_s {
  const char *name;
  size_t len;
  int group;
} binding_t;

typedef struct pattern_s {
  regex_t regex;
  binding_t bindings[MAX_GROUPS];
  int num_bindings;
} pattern_t;

static int count_groups(const char *text, size_t len) {
  int groups = 0;
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '\\')
      i++;
    else
      groups += text[i] == '(';
  }
  return groups;
}

// Translates one `[[...]]`; false if it uses a variable that is not bound.
static bool append_variable(checker_t *c, ptc_str_t *regex, pattern_t *pattern, int *groups,
                            const char *text, size_t len) {
  const char *colon = memchr(text, ':', len);
  if (!colon) {
    const variable_t *variable = find_variable(c, text, len);
    if (!variable) return false;
    append_literal(regex, variable->value, strlen(variable->value));
    return true;
  }
  size_t name_len = (size_t)(colon - text), inner = len - name_len - 1;
  if (pattern->num_bindings == MAX_GROUPS - 1 || name_len >= sizeof(c->variables[0].name))
    return false;
  pattern->bindings[pattern->num_bindings++] = (binding_t){text, name_len, ++*groups};
  *groups += count_groups(colon + 1, inner);
  ptc_str_append(regex, "(");
  ptc_str_append_n(regex, colon + 1, inner);
  ptc_str_append(regex, ")");
  return true;
}

static bool compile(checker_t *c, const check_t *check, pattern_t *out) {
  *out = (pattern_t){0};
  ptc_str_t regex = {0};
  int groups = 0;
  bool ok = true;
  const char *p = check->pattern;
  while (*p && ok) {
    const char *open = strstr(p, "{{"), *bracket = strstr(p, "[[");
    bool variable = bracket && (!open || bracket < open);
    const char *start = variable ? bracket : open;
    const char *end = start ? strstr(start, variable ? "]]" : "}}") : NULL;
    if (!end) {
      append_literal(&regex, p, strlen(p));
      break;
    }
    // `[[A:[0-9]+]]` ends with the last bracket of a row.
    while (variable && end[2] == ']') end++;
    append_literal(&regex, p, (size_t)(start - p));
    size_t len = (size_t)(end - start) - 2;
    if (variable) {
      ok = append_variable(c, &regex, out, &groups, start + 2, len);
    } else {
      ptc_str_append(&regex, "(");
      ptc_str_append_n(&regex, start + 2, len);
      ptc_str_append(&regex, ")");
      groups += 1 + count_groups(start + 2, len);
    }
    p = end + 2;
  }
  ok = ok && regex.data && regcomp(&out->regex, regex.data, REG_EXTENDED | REG_NEWLINE) == 0;
  ptc_str_deinit(&regex);
  return ok || complain(c, check, "this pattern is malformed, or uses a variable without a value");
}

static void bind(checker_t *c, const binding_t *binding, const char *text, regmatch_t match) {
  variable_t *variable = find_variable(c, binding->name, binding->len);
  if (!variable && c->num_variables < MAX_VARIABLES) {
    variable = &c->variables[c->num_variables++];
    memcpy(variable->name, binding->name, binding->len);
  }
  if (variable)
    variable->value =
        ptc_arena_strndup(&c->arena, text + match.rm_so, (size_t)(match.rm_eo - match.rm_so));
}

// Searches [start, end); on success *out_start and *out_end surround the match. -1: bad pattern.
static int search(checker_t *c, const check_t *check, const char *start, const char *end,
                  const char **out_start, const char **out_end) {
  pattern_t pattern;
  if (!compile(c, check, &pattern)) return -1;
  char *text = ptc_arena_strndup(&c->arena, start, (size_t)(end - start));
  regmatch_t matches[MAX_GROUPS + 1];
  bool found = regexec(&pattern.regex, text, MAX_GROUPS + 1, matches, 0) == 0;
  for (int i = 0; found && i < pattern.num_bindings; i++)
    if (pattern.bindings[i].group <= MAX_GROUPS)
      bind(c, &pattern.bindings[i], text, matches[pattern.bindings[i].group]);
  if (found) {
    *out_start = start + matches[0].rm_so;
    *out_end = start + matches[0].rm_eo;
  }
  regfree(&pattern.regex);
  return found;
}

static const char *end_of_line(const char *p, const char *end) {
  const char *newline = memchr(p, '\n', (size_t)(end - p));
  return newline ? newline : end;
}

// The CHECK-NOTs [first, last) hold between |start| and |end|.
static bool check_nots(checker_t *c, int64_t first, int64_t last, const char *start,
                       const char *end) {
  const char *a, *b;
  for (int64_t i = first; i < last; i++) {
    int found = search(c, &c->checks.data[i], start, end, &a, &b);
    if (found < 0) return false;
    if (found) return complain(c, &c->checks.data[i], "this occurs, but must not");
  }
  return true;
}

// The checks [first, last), none of them a label, against one block of the output.
static bool check_block(checker_t *c, int64_t first, int64_t last, const char *at,
                        const char *end) {
  int64_t nots = first;
  for (int64_t i = first; i < last; i++) {
    const check_t *check = &c->checks.data[i];
    if (check->kind == CHECK_NOT) continue;
    const char *from = at, *to = end, *match, *match_end;
    if (check->kind == CHECK_NEXT) {
      from = end_of_line(at, end);
      if (from < end) from++;
      to = end_of_line(from, end);
    }
    int found = search(c, check, from, to, &match, &match_end);
    if (found < 0) return false;
    if (!found) return complain(c, check, "this is missing in the output");
    if (!check_nots(c, nots, i, at, match)) return false;
    at = match_end;
    nots = i + 1;
  }
  return check_nots(c, nots, last, at, end);
}

static bool check_all(checker_t *c, const char *output) {
  const char *at = output, *end = output + strlen(output);
  int64_t first = 0;
  while (first <= c->checks.len) {
    int64_t label = first;
    while (label < c->checks.len && c->checks.data[label].kind != CHECK_LABEL) label++;
    const char *start = end, *label_end = end;
    if (label < c->checks.len) {
      int found = search(c, &c->checks.data[label], at, end, &start, &label_end);
      if (found < 0) return false;
      if (!found) return complain(c, &c->checks.data[label], "this is missing in the output");
    }
    if (!check_block(c, first, label, at, start)) return false;
    at = label_end;
    first = label + 1;
  }
  return true;
}

bool ir_check_output(const char *path, const char *text, const char *output,
                     ptc_str_t *out_report) {
  checker_t checker = {.path = path, .report = out_report}, *c = &checker;
  read_checks(c, text);
  bool ok = true;
  if (c->checks.len) {
    ok = check_all(c, squeeze(c, output, strlen(output)));
    if (!ok) ptc_str_printf(out_report, "--- output\n%s---\n", output);
  } else {
    ptc_str_printf(out_report, "%s: there is no CHECK line\n", path);
    ok = false;
  }
  PTC_VEC_FREE(&c->checks);
  ptc_arena_deinit(&c->arena);
  return ok;
}

// --- running

static void replace(ptc_str_t *out, const char *text, const char *from, const char *to) {
  for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
    ptc_str_append_n(out, text, (size_t)(p - text));
    ptc_str_append(out, to);
  }
  ptc_str_append(out, text);
}

static bool run_command(const char *command, ptc_str_t *output) {
  fflush(stdout);
  FILE *pipe = popen(command, "r");
  if (!pipe) return false;
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof(block), pipe)) > 0;)
    ptc_str_append_n(output, block, n);
  ptc_str_append(output, "");
  int status = pclose(pipe);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool check_run(const char *path, const char *text, const char *run, const char *program,
                      ptc_str_t *out_report) {
  ptc_str_t named = {0}, command = {0}, output = {0};
  bool must_fail = strncmp(run, "not ", 4) == 0;
  replace(&named, must_fail ? run + 4 : run, "ptc-opt", program);
  replace(&command, named.data, "%s", path);
  bool ok = run_command(command.data, &output) != must_fail;
  if (!ok)
    ptc_str_printf(out_report, "%s: `%s` %s\n%s", path, command.data,
                   must_fail ? "must fail" : "fails", output.data);
  ok = ok && ir_check_output(path, text, output.data, out_report);
  ptc_str_deinit(&named);
  ptc_str_deinit(&command);
  ptc_str_deinit(&output);
  return ok;
}

bool ir_check_file(const char *path, const char *program, ptc_str_t *out_report) {
  static const char mark[] = "# RUN: ";
  char *text;
  size_t len;
  if (ptc_read_file(path, &text, &len) != PTC_OK) {
    ptc_str_printf(out_report, "%s: cannot be read\n", path);
    return false;
  }
  bool ok = true;
  int runs = 0;
  for (const char *p = strstr(text, mark); p && ok; p = strstr(p, mark), runs++) {
    p += sizeof(mark) - 1;
    char *run = strndup(p, strcspn(p, "\n"));
    ok = run && check_run(path, text, run, program, out_report);
    free(run);
  }
  free(text);
  if (!runs && ok) ptc_str_printf(out_report, "%s: there is no RUN line\n", path);
  return ok && runs > 0;
}
