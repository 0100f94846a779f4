#include "tests/support/shape_labels.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/str.h"
#include "ir/opcode.h"

enum { MAX_COMMENT_LINES = 32 };

static const struct {
  const char *mnemonic, *shape;
} op_shapes[] = {
#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, ...) \
  {mnemonic, #shape},
#include "ir/ops.def"
#undef PTC_OP
};

// "(lt, le) ..." after the label restricts a constraint to those ops.
static bool applies_to(const char *text, const char *mnemonic) {
  if (*text != '(') return true;
  size_t len = strlen(mnemonic);
  for (const char *c = text + 1; *c && *c != ')';) {
    size_t word = strcspn(c, ",)");
    if (word == len && strncmp(c, mnemonic, len) == 0) return true;
    c += word;
    while (*c == ',' || *c == ' ') c++;
  }
  return false;
}

static void add_label(ptc_interner_t *interner, ptc_map_t *labels, const char *label) {
  const char *key = ptc_intern(interner, label);
  ptc_map_set(labels, key, (void *)key);
}

static void add_labels_of_line(const char *shape, const char *line, ptc_interner_t *interner,
                               ptc_map_t *labels) {
  char label[64], word[32];
  int len = 0;
  if (sscanf(line, "//   %31[a-z0-9-]%n", word, &len) != 1 || strncmp(line + len, "  ", 2) != 0)
    return;
  const char *text = line + len + strspn(line + len, " ");
  if (strstr(word, "-c")) add_label(interner, labels, word);
  bool own = word[0] == 'c' && strspn(word + 1, "0123456789") == strlen(word + 1);
  for (int i = 0; own && i < PTC_NUM_OPS; i++) {
    if (strcmp(op_shapes[i].shape, shape) != 0 || !applies_to(text, op_shapes[i].mnemonic))
      continue;
    snprintf(label, sizeof(label), "%s-%s", op_shapes[i].mnemonic, word);
    add_label(interner, labels, label);
  }
}

int shape_labels_of(const char *path, ptc_interner_t *interner, ptc_map_t *labels) {
  char *text;
  size_t len;
  if (ptc_read_file(path, &text, &len) != PTC_OK) return -1;
  bool header = len && path[strlen(path) - 1] == 'h';
  char *comment[MAX_COMMENT_LINES], *save = NULL;
  int num_comment = 0, num_functions = 0;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    if (strncmp(line, "//", 2) == 0) {
      if (num_comment < MAX_COMMENT_LINES) comment[num_comment++] = line;
      continue;
    }
    char shape[64] = "";
    bool function = sscanf(line, "ptc_status_t ptc_shape_%63[a-z_](", shape) == 1;
    for (int i = 0; (function || header) && i < num_comment; i++)
      add_labels_of_line(shape, comment[i], interner, labels);
    num_functions += function;
    num_comment = 0;
  }
  free(text);
  return num_functions;
}

int shape_labels_num_shapes(void) {
  int count = 0;
  for (int i = 0; i < PTC_NUM_OPS; i++) {
    bool seen = false;
    for (int j = 0; j < i && !seen; j++) seen = strcmp(op_shapes[i].shape, op_shapes[j].shape) == 0;
    count += !seen;
  }
  return count;
}
