// The train block: one table of keys, defaults and ranges; it becomes the module's config.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/lower_impl.h"

typedef enum setting_kind_e {
  SETTING_INT,
  SETTING_FLOAT,
  SETTING_BOOL,
  SETTING_WORD
} setting_kind_t;

// |owner|: the setting is an option of this word (optimizer = adamw(lr = ...)); NULL: a key of its
// own. Options of several owners stand in several rows.
typedef struct setting_row_s {
  const char *owner, *key;
  setting_kind_t kind;
  double otherwise, min, max;
  const char *words;  // WORD: allowed ones, spaces around each; the first is the default
} setting_row_t;

static const double big = 1e15;
#define INT_LIMIT 2147483647.0
static const setting_row_t rows[] = {
    {NULL, "batch", SETTING_INT, 8, 1, INT_LIMIT, NULL},
    {NULL, "optimizer", SETTING_WORD, 0, 0, 0, " adamw sgd "},
    {"adamw", "lr", SETTING_FLOAT, 3e-4, 0, 1e15, NULL},
    {"adamw", "beta1", SETTING_FLOAT, 0.9, 0, 1, NULL},
    {"adamw", "beta2", SETTING_FLOAT, 0.95, 0, 1, NULL},
    {"adamw", "eps", SETTING_FLOAT, 1e-8, 0, 1e15, NULL},
    {"adamw", "weight_decay", SETTING_FLOAT, 0.1, 0, 1e15, NULL},
    {"sgd", "lr", SETTING_FLOAT, 3e-4, 0, 1e15, NULL},
    {"sgd", "momentum", SETTING_FLOAT, 0, 0, 1, NULL},
    {"sgd", "weight_decay", SETTING_FLOAT, 0, 0, 1e15, NULL},
    {"sgd", "nesterov", SETTING_BOOL, 0, 0, 1, NULL},
    {NULL, "lr_schedule", SETTING_WORD, 0, 0, 0, " constant linear cosine wsd "},
    {"constant", "warmup", SETTING_INT, 0, 0, INT_LIMIT, NULL},
    {"linear", "warmup", SETTING_INT, 0, 0, INT_LIMIT, NULL},
    {"linear", "steps", SETTING_INT, 1000, 1, INT_LIMIT, NULL},
    {"linear", "min_lr", SETTING_FLOAT, 0, 0, 1e15, NULL},
    {"cosine", "warmup", SETTING_INT, 0, 0, INT_LIMIT, NULL},
    {"cosine", "steps", SETTING_INT, 1000, 1, INT_LIMIT, NULL},
    {"cosine", "min_lr", SETTING_FLOAT, 0, 0, 1e15, NULL},
    {"wsd", "warmup", SETTING_INT, 0, 0, INT_LIMIT, NULL},
    {"wsd", "steps", SETTING_INT, 1000, 1, INT_LIMIT, NULL},
    {"wsd", "decay_steps", SETTING_INT, 200, 0, INT_LIMIT, NULL},
    {"wsd", "min_lr", SETTING_FLOAT, 0, 0, 1e15, NULL},
    {NULL, "steps", SETTING_INT, 1000, 1, INT_LIMIT, NULL},
    {NULL, "clip", SETTING_FLOAT, 0, 0, 1e15, NULL},
    {NULL, "precision", SETTING_WORD, 0, 0, 0, " f32 bf16 f16 "},
    {NULL, "f32_matmul", SETTING_WORD, 0, 0, 0, " exact tf32 "},
    {NULL, "gemm", SETTING_WORD, 0, 0, 0, " auto generated cublaslt "},
    {NULL, "seed", SETTING_INT, 0, 0, 9007199254740991.0, NULL},
};
#undef INT_LIMIT
enum { NUM_ROWS = sizeof(rows) / sizeof(*rows) };

// Row of |key| that belongs to |owner| (NULL: a key of its own), or NULL.
static const setting_row_t *find_row(const char *owner, const char *key) {
  for (int i = 0; i < NUM_ROWS; i++) {
    if (strcmp(rows[i].key, key) != 0 || !rows[i].owner != !owner) continue;
    if (!owner || strcmp(rows[i].owner, owner) == 0) return &rows[i];
  }
  return NULL;
}

static const char *nearest_key(const char *owner, const char *key) {
  const char *names[NUM_ROWS];
  int32_t count = 0;
  for (int i = 0; i < NUM_ROWS; i++)
    if (!rows[i].owner == !owner && (!owner || strcmp(rows[i].owner, owner) == 0))
      names[count++] = rows[i].key;
  return ptc_nearest_name(key, names, count);
}

static void unknown_setting(lower_t *L, const char *owner, const char *key, ptc_loc_t loc) {
  const char *near = nearest_key(owner, key);
  LOWER_ERROR(L, loc, "unknown-setting", "unknown setting \"%s\" of %s%s%s%s", key,
              owner ? owner : "train", near ? "; did you mean \"" : "", near ? near : "",
              near ? "\"?" : "");
}

void lower_note_origin(lower_t *L, const char *name, const char *value, ptc_loc_t loc) {
  const char *place = L->origin;
  if (!place)
    place = ptc_arena_printf(&L->module->arena, "%s:%d", loc.file ? loc.file : "?", (int)loc.line);
  if (!value) name = ptc_arena_printf(&L->module->arena, "train.%s", name);
  ptc_module_set_origin(L->module, name, value, place);
}

static void set_number(lower_t *L, const setting_row_t *row, double value, ptc_loc_t loc) {
  bool whole = row->kind != SETTING_FLOAT;
  if (!(value >= row->min && value <= row->max) || (whole && value != floor(value))) {
    if (row->max >= big)
      LOWER_ERROR(L, loc, "setting-range", "setting \"%s\" is %g; it must be a number >= %g",
                  row->key, value, row->min);
    else
      LOWER_ERROR(L, loc, "setting-range",
                  "setting \"%s\" is %g; it must be a %snumber from %g to %.16g", row->key, value,
                  whole ? "whole " : "", row->min, row->max);
    return;
  }
  lower_note_origin(L, row->key, NULL, loc);
  ptc_attrs_t *config = &L->module->config;
  if (row->kind == SETTING_INT)
    ptc_attrs_set_int(L->module, config, row->key, (int64_t)value);
  else if (row->kind == SETTING_BOOL)
    ptc_attrs_set_bool(L->module, config, row->key, value != 0);
  else
    ptc_attrs_set_float(L->module, config, row->key, value);
}

// Another word takes the options of the former one away, unless they are keys of their own.
static void drop_options(lower_t *L, const char *owner, const char *word) {
  for (int i = 0; i < NUM_ROWS; i++)
    if (rows[i].owner && strcmp(rows[i].owner, owner) == 0 && !find_row(NULL, rows[i].key) &&
        !find_row(word, rows[i].key))
      ptc_attrs_remove(&L->module->config, rows[i].key);
}

static bool set_word(lower_t *L, const setting_row_t *row, const char *word, ptc_loc_t loc) {
  char *padded = ptc_arena_printf(&L->module->arena, " %s ", word);
  if (strstr(row->words, padded)) {
    const char *former = ptc_attrs_string(&L->module->config, row->key, word);
    if (strcmp(former, word) != 0) drop_options(L, former, word);
    ptc_attrs_set_string(L->module, &L->module->config, row->key, word);
    lower_note_origin(L, row->key, NULL, loc);
    return true;
  }
  if (strcmp(word, "fp8") == 0)
    LOWER_ERROR(L, loc, "setting-value", "precision fp8 is not supported yet; use bf16");
  else
    LOWER_ERROR(L, loc, "setting-value", "setting \"%s\" is one of%s, not \"%s\"", row->key,
                row->words, word);
  return false;
}

static void set_from_expr(lower_t *L, const setting_row_t *row, const ptc_expr_t *expr) {
  const ptc_expr_t *callee = expr->kind == PTC_EXPR_CALL ? expr->lhs : expr;
  if (row->kind != SETTING_WORD) {
    ptc_number_t number;
    if (lower_static(L, expr, &number)) set_number(L, row, number.value, expr->loc);
    return;
  }
  if (callee->kind != PTC_EXPR_NAME && callee->kind != PTC_EXPR_STRING) {
    LOWER_ERROR(L, expr->loc, "setting-value", "setting \"%s\" is one of%s", row->key, row->words);
    return;
  }
  if (!set_word(L, row, callee->text, expr->loc) || expr->kind != PTC_EXPR_CALL) return;
  for (int32_t i = 0; i < expr->num_items; i++) {
    const char *key = expr->arg_names[i];
    if (!key) {
      LOWER_ERROR(L, expr->items[i]->loc, "setting-value", "options of %s have names: %s(lr = ...)",
                  callee->text, callee->text);
      continue;
    }
    for (int32_t k = 0; k < i; k++)
      if (expr->arg_names[k] && strcmp(expr->arg_names[k], key) == 0)
        LOWER_ERROR(L, expr->items[i]->loc, "duplicate-setting", "option \"%s\" is given twice",
                    key);
    const setting_row_t *option = find_row(callee->text, key);
    if (option)
      set_from_expr(L, option, expr->items[i]);
    else
      unknown_setting(L, callee->text, key, expr->items[i]->loc);
  }
}

void lower_train_block(lower_t *L, const ptc_item_t *item) {
  for (int32_t i = 0; i < item->num_settings; i++) {
    const ptc_setting_t *setting = &item->settings[i];
    for (int32_t k = 0; k < i; k++)
      if (strcmp(item->settings[k].name, setting->name) == 0)
        LOWER_ERROR(L, setting->loc, "duplicate-setting", "setting \"%s\" is given twice",
                    setting->name);
    const setting_row_t *row = find_row(NULL, setting->name);
    if (row)
      set_from_expr(L, row, setting->value);
    else
      unknown_setting(L, NULL, setting->name, setting->loc);
  }
}

// `--set train.KEY=TEXT`, `--set batch=TEXT`; of words (optimizer), or of all else.
static void apply_override(lower_t *L, const ptc_override_t *override, bool words) {
  const char *key = override->name;
  if (strncmp(key, "train.", 6) == 0)
    key += 6;
  else if (strcmp(key, "batch") != 0)
    return;
  const setting_row_t *row = find_row(NULL, key);
  if (!row) {
    const char *optimizer = ptc_attrs_string(&L->module->config, "optimizer", "adamw");
    const char *schedule = ptc_attrs_string(&L->module->config, "lr_schedule", "constant");
    row = find_row(optimizer, key);
    if (!row) row = find_row(schedule, key);
  }
  if (!row && words) return;
  if (!row) {
    unknown_setting(L, NULL, key, (ptc_loc_t){0});
    return;
  }
  if ((row->kind == SETTING_WORD) != words) return;
  if (words) {
    (void)set_word(L, row, override->text, (ptc_loc_t){0});
    return;
  }
  char *end;
  double value = strtod(override->text, &end);
  if (row->kind == SETTING_BOOL && strcmp(override->text, "on") == 0)
    value = 1;
  else if (row->kind == SETTING_BOOL && strcmp(override->text, "off") == 0)
    value = 0;
  else if (end == override->text || *end)
    value = NAN;
  set_number(L, row, value, (ptc_loc_t){0});
}

void lower_train_defaults(lower_t *L) {
  // Words first: they decide which options there are.
  L->origin = "command line";
  for (int pass = 0; pass < 2; pass++)
    for (int32_t i = 0; i < L->options->num_overrides; i++)
      apply_override(L, &L->options->overrides[i], pass == 0);
  L->origin = "default";
  ptc_attrs_t *config = &L->module->config;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < NUM_ROWS; i++) {
      const setting_row_t *row = &rows[i];
      if ((row->kind == SETTING_WORD) != (pass == 0)) continue;
      if (ptc_attrs_find(config, ptc_module_intern(L->module, row->key))) continue;
      if (row->owner && strcmp(row->owner, ptc_attrs_string(config, "optimizer", "")) != 0 &&
          strcmp(row->owner, ptc_attrs_string(config, "lr_schedule", "")) != 0)
        continue;
      if (row->kind == SETTING_WORD) {
        size_t len = strcspn(row->words + 1, " ");
        ptc_attrs_set_string(L->module, config, row->key,
                             ptc_arena_strndup(&L->module->arena, row->words + 1, len));
        lower_note_origin(L, row->key, NULL, (ptc_loc_t){0});
      } else {
        set_number(L, row, row->otherwise, (ptc_loc_t){0});
      }
    }
  }
  L->origin = NULL;
}
