// The parallel, cluster and device blocks: read and checked. What a parallel block says goes into the module's config
// (passes/parallel.h reads it there).
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/cluster_props.h"
#include "frontend/lower_impl.h"

static const char *const axis_names[] = {"dp", "tp", "pp", "cp", "ep"};
enum { NUM_AXES = sizeof(axis_names) / sizeof(*axis_names) };

static bool is_axis(const char *name) {
  for (int i = 0; i < NUM_AXES; i++)
    if (strcmp(axis_names[i], name) == 0) return true;
  return false;
}

static bool is_word(const ptc_expr_t *expr, const char *word) {
  return expr->kind == PTC_EXPR_NAME && strcmp(expr->text, word) == 0;
}

static bool read_int(lower_t *L, const ptc_expr_t *expr, const char *what, int64_t min, int64_t max,
                     int64_t *out) {
  ptc_number_t number;
  if (!lower_static(L, expr, &number)) return false;
  if (ptc_number_is_int(number) && number.num >= min && number.num <= max) {
    *out = number.num;
    return true;
  }
  LOWER_ERROR(L, expr->loc, "setting-range",
              "\"%s\" is %g; it must be a whole number from %" PRId64 " to %" PRId64, what,
              number.value, min, max);
  return false;
}

// Sets the config's whole number |name|; `auto` takes an earlier one back.
static void read_config_int(lower_t *L, const ptc_setting_t *setting, int64_t min, int64_t max) {
  int64_t value;
  ptc_attrs_t *config = &L->module->config;
  if (is_word(setting->value, "auto"))
    ptc_attrs_remove(config, lower_intern(L, setting->name));
  else if (read_int(L, setting->value, setting->name, min, max, &value))
    ptc_attrs_set_int(L->module, config, setting->name, value);
}

static void set_schedule(lower_t *L, const char *name, int64_t chunks) {
  ptc_attrs_t *config = &L->module->config;
  ptc_attrs_remove(config, lower_intern(L, "schedule"));
  ptc_attrs_remove(config, lower_intern(L, "chunks"));
  if (name) ptc_attrs_set_string(L->module, config, "schedule", name);
  if (chunks > 0) ptc_attrs_set_int(L->module, config, "chunks", chunks);
}

static void read_schedule(lower_t *L, const ptc_expr_t *expr) {
  const ptc_expr_t *name = expr->kind == PTC_EXPR_CALL ? expr->lhs : expr;
  if (is_word(name, "interleaved")) {
    int64_t chunks = 2;
    for (int32_t i = 0; expr->kind == PTC_EXPR_CALL && i < expr->num_items; i++) {
      if (expr->arg_names[i] && strcmp(expr->arg_names[i], "chunks") == 0)
        (void)read_int(L, expr->items[i], "chunks", 1, 1024, &chunks);
      else
        LOWER_ERROR(L, expr->items[i]->loc, "unknown-option",
                    "interleaved has the option chunks only");
    }
    set_schedule(L, "interleaved", chunks);
    return;
  }
  if (expr->kind == PTC_EXPR_NAME && (is_word(expr, "gpipe") || is_word(expr, "1f1b") ||
                                      is_word(expr, "zero_bubble") || is_word(expr, "auto"))) {
    set_schedule(L, is_word(expr, "auto") ? NULL : expr->text, 0);
    return;
  }
  LOWER_ERROR(L, expr->loc, "setting-value",
              "schedule is one of gpipe, 1f1b, interleaved(chunks = v), zero_bubble, auto");
}

static void read_recompute(lower_t *L, const ptc_expr_t *expr) {
  ptc_attrs_t *config = &L->module->config;
  ptc_attrs_remove(config, lower_intern(L, "recompute_bytes"));
  if (expr->kind == PTC_EXPR_CALL && is_word(expr->lhs, "every") && expr->num_items == 1 &&
      !expr->arg_names[0]) {
    int64_t every;
    if (!read_int(L, expr->items[0], "every", 1, 1000000, &every)) return;
    ptc_attrs_set_string(L->module, config, "recompute", "every");
    ptc_attrs_set_int(L->module, config, "recompute_every", every);
    return;
  }
  if (expr->kind == PTC_EXPR_CALL && is_word(expr->lhs, "selective") && expr->num_items == 1 &&
      expr->arg_names[0] && strcmp(expr->arg_names[0], "bytes") == 0) {
    int64_t bytes;
    if (!read_int(L, expr->items[0], "bytes", 1, INT64_C(1) << 50, &bytes)) return;
    ptc_attrs_set_string(L->module, config, "recompute", "selective");
    ptc_attrs_set_int(L->module, config, "recompute_bytes", bytes);
    lower_note_origin(L, "recompute_bytes", NULL, expr->loc);
    return;
  }
  if (is_word(expr, "none") || is_word(expr, "full") || is_word(expr, "selective")) {
    ptc_attrs_set_string(L->module, config, "recompute", expr->text);
    return;
  }
  if (is_word(expr, "auto")) {
    ptc_attrs_remove(config, lower_intern(L, "recompute"));
    return;
  }
  LOWER_ERROR(L, expr->loc, "setting-value",
              "recompute is one of none, selective, selective(bytes = N), full, every(N), auto");
}

// A setting that is one of a few words; `auto` takes an earlier one back.
static void read_word(lower_t *L, const ptc_setting_t *setting, const char *const *words,
                      int32_t num_words, const char *text) {
  ptc_attrs_t *config = &L->module->config;
  if (is_word(setting->value, "auto")) {
    ptc_attrs_remove(config, lower_intern(L, setting->name));
    return;
  }
  for (int32_t i = 0; i < num_words; i++)
    if (is_word(setting->value, words[i])) {
      ptc_attrs_set_string(L->module, config, setting->name, words[i]);
      return;
    }
  LOWER_ERROR(L, setting->value->loc, "setting-value", "%s is one of %s, auto", setting->name,
              text);
}

static void read_parallel_setting(lower_t *L, const ptc_setting_t *setting) {
  static const char *const keys[] = {
      "dp",           "tp",       "pp",          "cp",        "ep",
      "zero",         "schedule", "micro_batch", "recompute", "sequence_parallel",
      "cp_attention", "cp_order", "overlap"};
  static const char *const ways[] = {"gather", "ring", "all_to_all"};
  static const char *const orders[] = {"contiguous", "balanced"};
  const ptc_expr_t *expr = setting->value;
  const char *name = setting->name;
  lower_note_origin(L, name, NULL, setting->loc);
  if (is_axis(name)) {
    read_config_int(L, setting, 1, 1 << 20);
  } else if (strcmp(name, "zero") == 0) {
    read_config_int(L, setting, 0, 3);
  } else if (strcmp(name, "micro_batch") == 0) {
    read_config_int(L, setting, 1, 1 << 30);
  } else if (strcmp(name, "sequence_parallel") == 0 || strcmp(name, "overlap") == 0) {
    if (expr->kind == PTC_EXPR_ON)
      ptc_attrs_set_bool(L->module, &L->module->config, name, expr->is_on);
    else if (is_word(expr, "auto"))
      ptc_attrs_remove(&L->module->config, lower_intern(L, name));
    else
      LOWER_ERROR(L, expr->loc, "setting-value", "%s is on, off or auto", name);
  } else if (strcmp(name, "schedule") == 0) {
    read_schedule(L, expr);
  } else if (strcmp(name, "recompute") == 0) {
    read_recompute(L, expr);
  } else if (strcmp(name, "cp_attention") == 0) {
    read_word(L, setting, ways, 3, "gather, ring, all_to_all");
  } else if (strcmp(name, "cp_order") == 0) {
    read_word(L, setting, orders, 2, "contiguous, balanced");
  } else {
    const char *near = ptc_nearest_name(name, keys, sizeof(keys) / sizeof(*keys));
    LOWER_ERROR(L, setting->loc, "unknown-setting", "unknown setting \"%s\" of parallel%s%s%s",
                name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  }
}

void lower_parallel_block(lower_t *L, const ptc_item_t *item) {
  for (int32_t i = 0; i < item->num_settings; i++) {
    for (int32_t k = 0; k < i; k++)
      if (strcmp(item->settings[k].name, item->settings[i].name) == 0)
        LOWER_ERROR(L, item->settings[i].loc, "duplicate-setting", "setting \"%s\" is given twice",
                    item->settings[i].name);
    read_parallel_setting(L, &item->settings[i]);
  }
}

// --- paths of shard and cut

static const ptc_global_t *find_path(lower_t *L, const char *pattern, bool prefix) {
  for (int64_t i = 0; i < L->module->num_globals; i++) {
    const ptc_global_t *global = L->module->globals[i];
    if (global->kind == PTC_GLOBAL_PARAM && ptc_global_path_fits(global, pattern, prefix))
      return global;
  }
  return NULL;
}

// Adds |text| to the config's list |name|; entries are separated by "; ".
static void append_to_list(lower_t *L, const char *name, const char *text) {
  ptc_attrs_t *config = &L->module->config;
  const char *old = ptc_attrs_string(config, name, NULL);
  ptc_attrs_set_string(L->module, config, name,
                       old ? ptc_arena_printf(&L->module->arena, "%s; %s", old, text) : text);
}

static void check_shard(lower_t *L, const ptc_shard_stmt_t *shard) {
  if (!is_axis(shard->axis))
    LOWER_ERROR(L, shard->axis_loc, "unknown-axis",
                "unknown mesh axis \"%s\"; there are dp, tp, pp, cp, ep", shard->axis);
  const ptc_global_t *global = find_path(L, shard->path, false);
  if (!global) {
    const char **names = PTC_ARENA_ARRAY(&L->module->arena, const char *, L->module->num_globals);
    for (int64_t i = 0; i < L->module->num_globals; i++) names[i] = L->module->globals[i]->path;
    const char *near = ptc_nearest_name(shard->path, names, L->module->num_globals);
    LOWER_ERROR(L, shard->loc, "unknown-path", "no parameter has the path \"%s\"%s%s%s",
                shard->path, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return;
  }
  const ptc_type_t *type = global->type;
  bool same = shard->num_dims == 0 || shard->num_dims == type->num_dims;
  for (int32_t i = 0; same && i < shard->num_dims; i++)
    same = strcmp(shard->dims[i], type->dims[i].name) == 0;
  if (!same) {
    LOWER_ERROR(L, shard->loc, "shard-dims", "parameter \"%s\" has other dims than written here",
                global->path);
    ptc_note(L->diag, global->loc, "declared here");
  } else if (!ptc_type_has_dim(type, lower_intern(L, shard->over))) {
    LOWER_ERROR(L, shard->over_loc, "shard-dims", "parameter \"%s\" has no dim \"%s\"",
                global->path, shard->over);
  } else {
    append_to_list(L, "shard",
                   ptc_arena_printf(&L->module->arena, "%s on %s over %s", shard->path, shard->axis,
                                    shard->over));
  }
}

void lower_check_directives(lower_t *L, const ptc_item_t *item) {
  for (int32_t i = 0; i < item->num_shards; i++) check_shard(L, &item->shards[i]);
  for (int32_t i = 0; i < item->num_cuts; i++) {
    const char *path = item->cuts[i].path, *dot = strrchr(path, '.');
    if (!dot || dot[1] < '0' || dot[1] > '9')
      LOWER_ERROR(L, item->cuts[i].loc, "cut-path",
                  "a cut names the turn of a repeat at which a stage begins: block.8");
    else if (!find_path(L, path, true))
      LOWER_ERROR(L, item->cuts[i].loc, "unknown-path", "no turn of a repeat has the path \"%s\"",
                  path);
    else {
      append_to_list(L, "cut", path);
      lower_note_origin(L, "cut", NULL, item->cuts[i].loc);
    }
  }
}

// --- cluster and device

static bool is_formal(const ptc_item_t *item, const char *name) {
  for (int32_t i = 0; i < item->formals.count; i++)
    if (strcmp(item->formals.items[i].name, name) == 0) return true;
  return false;
}

static void check_value(lower_t *L, const ptc_item_t *item, const ptc_prop_t *prop,
                        const ptc_prop_info_t *info) {
  const ptc_quantity_t *value = &prop->value;
  if (info->unit == PTC_UNIT_WORD) {
    ptc_str_t words = {0};
    bool known = false;
    for (int32_t i = 0; info->words[i]; i++) {
      known |= value->name && strcmp(value->name, info->words[i]) == 0;
      ptc_str_printf(&words, "%s%s", i ? ", " : "", info->words[i]);
    }
    if (!known)
      LOWER_ERROR(L, value->loc, "setting-value", "property \"%s\" is one of %s", prop->name,
                  words.data);
    ptc_str_deinit(&words);
  } else if (value->name) {
    if (!is_formal(item, value->name))
      LOWER_ERROR(L, value->loc, "unknown-name", "unknown number \"%s\"", value->name);
  } else if (ptc_unit_kind(value->unit) != info->unit) {
    LOWER_ERROR(L, value->loc, "unit", "property \"%s\" is %s", prop->name,
                ptc_unit_text(info->unit));
  }
}

static void check_props(lower_t *L, const ptc_item_t *item, const ptc_prop_t *items, int32_t count,
                        char owner) {
  for (int32_t i = 0; i < count; i++) {
    const ptc_prop_t *prop = &items[i];
    const char *near;
    const ptc_prop_info_t *info = ptc_prop_find(prop->name, owner, &near);
    if (!info) {
      LOWER_ERROR(L, prop->loc, "unknown-property", "unknown property \"%s\"%s%s%s", prop->name,
                  near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
      continue;
    }
    for (int32_t k = 0; k < i; k++)
      if (strcmp(items[k].name, prop->name) == 0)
        LOWER_ERROR(L, prop->loc, "duplicate-setting", "property \"%s\" is given twice",
                    prop->name);
    check_value(L, item, prop, info);
  }
}

static void check_cluster_items(lower_t *L, const ptc_item_t *cluster,
                                const ptc_cluster_item_t *items, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const ptc_cluster_item_t *item = &items[i];
    switch (item->kind) {
      case PTC_CLUSTER_NODE: {
        bool is_number = item->count[0] >= '0' && item->count[0] <= '9';
        if (!is_number && !is_formal(cluster, item->count))
          LOWER_ERROR(L, item->loc, "unknown-name", "unknown number \"%s\" of devices",
                      item->count);
        check_cluster_items(L, cluster, item->items, item->num_items);
        break;
      }
      case PTC_CLUSTER_LINK: check_props(L, cluster, item->props, item->num_props, 'l'); break;
      case PTC_CLUSTER_NETWORK: check_props(L, cluster, item->props, item->num_props, 'n'); break;
      case PTC_CLUSTER_HOST: check_props(L, cluster, item->props, item->num_props, 'h'); break;
    }
  }
}

void lower_cluster_item(lower_t *L, const ptc_item_t *item) {
  if (item->kind == PTC_ITEM_DEVICE)
    check_props(L, item, item->props, item->num_props, 'd');
  else
    check_cluster_items(L, item, item->cluster_items, item->num_cluster_items);
}
