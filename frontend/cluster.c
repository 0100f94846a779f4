#include "frontend/cluster.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/cluster_catalog.h"
#include "frontend/cluster_props.h"
#include "frontend/parse.h"
#include "ir/base/str.h"

typedef struct finder_s {
  ptc_diag_t *diag;
  ptc_arena_t *arena;
  const ptc_ast_t *program;  // may be NULL
  ptc_ast_t catalog;
  const ptc_item_t *cluster;  // being read
  const char *spec;
  double nodes;  // of the spec; 0: not given
} finder_t;

// --- names

static bool same_name(const char *a, const char *b) {
  for (; *a && *b; a++, b++) {
    const char x = *a == '-' ? '_' : (char)tolower((unsigned char)*a);
    const char y = *b == '-' ? '_' : (char)tolower((unsigned char)*b);
    if (x != y) return false;
  }
  return *a == *b;
}

// The last one counts, as everywhere in a program.
static const ptc_item_t *find_item(const ptc_ast_t *ast, ptc_item_kind_t kind, const char *name) {
  for (int64_t i = ast ? ast->num_items - 1 : -1; i >= 0; i--)
    if (ast->items[i].kind == kind && (!name || same_name(ast->items[i].name, name)))
      return &ast->items[i];
  return NULL;
}

static const char *near_name(finder_t *F, ptc_item_kind_t kind, const char *name) {
  const ptc_ast_t *trees[] = {F->program, &F->catalog};
  int64_t num = 0;
  for (int t = 0; t < 2; t++) num += trees[t] ? trees[t]->num_items : 0;
  const char **names = PTC_ARENA_ARRAY(F->arena, const char *, num + 1);
  num = 0;
  for (int t = 0; t < 2; t++)
    for (int64_t i = 0; trees[t] && i < trees[t]->num_items; i++)
      if (trees[t]->items[i].kind == kind) names[num++] = trees[t]->items[i].name;
  if (kind == PTC_ITEM_CLUSTER) names[num++] = "local";
  char *lower = ptc_arena_strdup(F->arena, name);
  for (char *c = lower; *c; c++) *c = *c == '-' ? '_' : (char)tolower((unsigned char)*c);
  // A part is enough: "h100" for "h100_sxm".
  for (int64_t i = 0; i < num; i++)
    if (strlen(lower) >= 3 && strstr(names[i], lower)) return names[i];
  return ptc_nearest_name(lower, names, num);
}

static ptc_status_t parse_catalog(ptc_diag_t *diag, ptc_ast_t *catalog) {
  ptc_ast_init(catalog);
  for (int32_t i = 0; i < ptc_num_catalog_files; i++) {
    const ptc_catalog_file_t *file = &ptc_catalog_files[i];
    const ptc_status_t status = ptc_parse_text(diag, catalog, file->name, file->text, file->len);
    if (status != PTC_OK) return status;
  }
  return PTC_OK;
}

// --- numbers

static ptc_status_t bad_nodes(finder_t *F, ptc_loc_t loc, const char *what) {
  return ptc_error(F->diag, loc, PTC_INVALID_INPUT, "cluster-nodes",
                   "%s of cluster \"%s\" must be a whole number from 1 to 1048576", what,
                   F->cluster->name);
}

// The value of a formal, as given with the cluster's name or by its default.
static ptc_status_t formal_value(finder_t *F, const char *name, ptc_loc_t loc, double *out) {
  const ptc_formals_t *formals = &F->cluster->formals;
  for (int32_t i = 0; i < formals->count; i++) {
    const ptc_formal_t *formal = &formals->items[i];
    if (strcmp(formal->name, name) != 0) continue;
    if (F->nodes > 0 && strcmp(name, "nodes") == 0) {
      *out = F->nodes;
    } else if (!formal->value || formal->value->kind != PTC_EXPR_NUMBER) {
      return ptc_error(F->diag, formal->loc, PTC_INVALID_INPUT, "cluster-figure",
                       "parameter \"%s\" of cluster \"%s\" needs a number as its default", name,
                       F->cluster->name);
    } else {
      *out = strtod(formal->value->text, NULL);
    }
    return PTC_OK;
  }
  return ptc_error(F->diag, loc, PTC_INVALID_INPUT, "cluster-figure", "unknown number \"%s\"",
                   name);
}

static ptc_status_t quantity_value(finder_t *F, const ptc_quantity_t *value, double *out) {
  if (value->name) return formal_value(F, value->name, value->loc, out);
  *out = strtod(value->number, NULL) * ptc_unit_scale(value->unit);
  if (value->times) *out *= strtod(value->times, NULL);
  return PTC_OK;
}

static ptc_status_t count_value(finder_t *F, const char *text, ptc_loc_t loc, const char *what,
                                int32_t *out) {
  double value = 0;
  if (isdigit((unsigned char)text[0])) {
    value = strtod(text, NULL);
  } else {
    const ptc_status_t status = formal_value(F, text, loc, &value);
    if (status != PTC_OK) return status;
  }
  if (!(value >= 1 && value <= 1048576) || value != floor(value)) return bad_nodes(F, loc, what);
  *out = (int32_t)value;
  return PTC_OK;
}

// --- properties

static int32_t word_index(const ptc_prop_info_t *info, const char *word) {
  for (int32_t i = 0; info->words[i]; i++)
    if (word && strcmp(word, info->words[i]) == 0) return i;
  return -1;
}

static ptc_status_t store_prop(finder_t *F, const ptc_prop_t *prop, const ptc_prop_info_t *info,
                               void *object) {
  char *at = (char *)object + info->offset;
  if (info->unit == PTC_UNIT_WORD) {
    const int32_t word = word_index(info, prop->value.name);
    if (word < 0)
      return ptc_error(F->diag, prop->loc, PTC_INVALID_INPUT, "cluster-figure",
                       "property \"%s\" does not have this value", prop->name);
    if (info->store == PTC_STORE_FLAG)
      *(bool *)at = word == 1;
    else
      memcpy(at, &info->values[word], sizeof(int32_t));
    return PTC_OK;
  }
  double value = 0;
  const ptc_status_t status = quantity_value(F, &prop->value, &value);
  if (status != PTC_OK) return status;
  if (info->store == PTC_STORE_DOUBLE) {
    memcpy(at, &value, sizeof(value));
  } else if (info->store == PTC_STORE_INT) {
    if (!(value >= 0 && value <= 1048576)) return bad_nodes(F, prop->loc, prop->name);
    const int32_t whole = (int32_t)value;
    memcpy(at, &whole, sizeof(whole));
  }
  return PTC_OK;
}

// Unknown properties and units are errors of the lowering (directives.c); a file that did not go through it may have
// some.
static ptc_status_t store_props(finder_t *F, const ptc_prop_t *props, int32_t count, char owner,
                                void *object) {
  for (int32_t i = 0; i < count; i++) {
    const ptc_prop_info_t *info = ptc_prop_find(props[i].name, owner, NULL);
    if (!info || (!props[i].value.name && ptc_unit_kind(props[i].value.unit) != info->unit))
      return ptc_error(F->diag, props[i].loc, PTC_INVALID_INPUT, "cluster-figure",
                       "property \"%s\" is not known here or has another unit", props[i].name);
    const ptc_status_t status = store_prop(F, &props[i], info, object);
    if (status != PTC_OK) return status;
  }
  return PTC_OK;
}

// --- devices

// The device of the catalog that stands for an architecture where efficiencies are not given.
static const char *typical_device(int32_t arch) {
  return arch >= 100 ? "b200" : arch >= 90 ? "h100_sxm" : arch >= 80 ? "a100_sxm_80g" : "v100_32g";
}

static void fill(double *value, double typical) {
  if (*value <= 0) *value = typical;
}

static void fill_efficiencies(ptc_device_model_t *device, const ptc_device_model_t *typical) {
  fill(&device->gemm_eff, typical->gemm_eff);
  fill(&device->gemm_tile_s, typical->gemm_tile_s);
  for (int i = 0; i < 3; i++) {
    fill(&device->attention_eff[i], typical->attention_eff[i]);
    fill(&device->attention_grad_eff[i], typical->attention_grad_eff[i]);
  }
  fill(&device->attention_half, typical->attention_half);
  fill(&device->memory_eff, typical->memory_eff);
  fill(&device->memory_half_bytes, typical->memory_half_bytes);
  fill(&device->launch_s, typical->launch_s);
  if (device->sms <= 0) device->sms = typical->sms;
}

static ptc_status_t read_device(finder_t *F, const char *name, ptc_loc_t loc,
                                ptc_device_model_t **out_device) {
  const ptc_item_t *known = find_item(&F->catalog, PTC_ITEM_DEVICE, name);
  const ptc_item_t *own = find_item(F->program, PTC_ITEM_DEVICE, name);
  if (!known && !own) {
    const char *near = near_name(F, PTC_ITEM_DEVICE, name);
    return ptc_error(F->diag, loc, PTC_INVALID_INPUT, "unknown-device",
                     "there is no device \"%s\"%s%s%s; `ptc clusters` lists those of the catalog",
                     name, near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  }
  ptc_device_model_t *device = PTC_ARENA_NEW(F->arena, ptc_device_model_t);
  device->arch = 1;
  device->name = ptc_arena_strdup(F->arena, own ? own->name : known->name);
  for (int i = 0; i < 2; i++) {
    const ptc_item_t *item = i ? own : known;
    if (!item) continue;
    const ptc_status_t status = store_props(F, item->props, item->num_props, 'd', device);
    if (status != PTC_OK) return status;
  }
  const char *typical = typical_device(device->arch);
  if (device->arch != 0 && !same_name(typical, device->name)) {
    ptc_device_model_t *other = NULL;
    const ptc_status_t status = read_device(F, typical, loc, &other);
    if (status != PTC_OK) return status;
    fill_efficiencies(device, other);
  }
  bool has_peak = false;
  for (int i = 0; i < PTC_NUM_PRECS; i++) has_peak |= device->peak[i] > 0;
  const char *missing = device->memory_bytes <= 0  ? "memory"
                        : device->memory_rate <= 0 ? "bandwidth"
                        : !has_peak                ? "f32"
                                                   : NULL;
  if (missing)
    return ptc_error(F->diag, own ? own->loc : known->loc, PTC_INVALID_INPUT, "cluster-figure",
                     "device \"%s\" needs the property \"%s\"", device->name, missing);
  *out_device = device;
  return PTC_OK;
}

// --- nodes

static ptc_status_t read_network(finder_t *F, const ptc_cluster_item_t *item,
                                 ptc_node_model_t *node) {
  // A node's own network replaces the cluster's.
  node->nics = 0;
  node->nic_rate = node->nic_eff = node->net_latency = 0;
  node->net_reduces = false;
  node->net_name = ptc_arena_strdup(F->arena, item->name);
  node->fabric = PTC_FABRIC_IB;
  const ptc_status_t status = store_props(F, item->props, item->num_props, 'n', node);
  if (status != PTC_OK) return status;
  // The bandwidth is a node's: `8 x 50 GB/s` is eight NICs of 50.
  double times = 1;
  for (int32_t i = 0; i < item->num_props; i++)
    if (strcmp(item->props[i].name, "bandwidth") == 0 && item->props[i].value.times)
      times = strtod(item->props[i].value.times, NULL);
  if (node->nics <= 0) node->nics = times >= 1 && times <= 4096 ? (int32_t)times : 1;
  node->nic_rate /= node->nics;
  fill(&node->nic_eff, node->fabric == PTC_FABRIC_TCP ? .8 : .9);
  return PTC_OK;
}

static ptc_status_t read_node_items(finder_t *F, const ptc_cluster_item_t *items, int32_t count,
                                    ptc_node_model_t *node, int32_t *out_nodes) {
  for (int32_t i = 0; i < count; i++) {
    const ptc_cluster_item_t *item = &items[i];
    ptc_status_t status = PTC_OK;
    switch (item->kind) {
      case PTC_CLUSTER_LINK:
        node->link_name = ptc_arena_strdup(F->arena, item->name);
        status = store_props(F, item->props, item->num_props, 'l', node);
        break;
      case PTC_CLUSTER_NETWORK: status = read_network(F, item, node); break;
      case PTC_CLUSTER_HOST:
        status = store_props(F, item->props, item->num_props, 'h', node);
        for (int32_t k = 0; k < item->num_props && status == PTC_OK; k++) {
          if (strcmp(item->props[k].name, "nodes") != 0) continue;
          const ptc_quantity_t *value = &item->props[k].value;
          status = count_value(F, value->name ? value->name : value->number, value->loc,
                               "the number of nodes", out_nodes);
        }
        break;
      case PTC_CLUSTER_NODE:
        status =
            ptc_error(F->diag, item->loc, PTC_INVALID_INPUT, "cluster-figure",
                      "a node inside a node has no meaning for the planner: count its devices");
        break;
    }
    if (status != PTC_OK) return status;
  }
  return PTC_OK;
}

// What follows from the other figures where it is not given.
static void complete_node(ptc_node_model_t *node) {
  if (node->link_domain < node->devices) node->link_domain = node->devices;
  if (node->link_islands < 1) node->link_islands = 1;
  if (node->link_rate <= 0) node->link_rate = node->pcie_rate > 0 ? node->pcie_rate : 16e9;
  fill(&node->link_busbw, .8 * node->link_rate);
  if (node->link_islands == 1 || node->link_across <= 0) node->link_across = node->link_busbw;
}

static ptc_status_t read_cluster(finder_t *F, const ptc_item_t *item, ptc_cluster_t **out_cluster) {
  F->cluster = item;
  ptc_cluster_t *cluster = PTC_ARENA_NEW(F->arena, ptc_cluster_t);
  cluster->name = ptc_arena_strdup(F->arena, item->name);
  int32_t nodes = 1;
  bool has_formal = false;
  for (int32_t i = 0; i < item->formals.count; i++)
    has_formal |= strcmp(item->formals.items[i].name, "nodes") == 0;
  if (has_formal) {
    const ptc_status_t status = count_value(F, "nodes", item->loc, "the number of nodes", &nodes);
    if (status != PTC_OK) return status;
  } else if (F->nodes > 0) {
    return ptc_error(F->diag, item->loc, PTC_INVALID_INPUT, "cluster-nodes",
                     "cluster \"%s\" has no parameter \"nodes\", so \"%s\" cannot give it",
                     item->name, F->spec);
  }
  for (int32_t i = 0; i < item->num_cluster_items; i++) {
    const ptc_cluster_item_t *part = &item->cluster_items[i];
    if (part->kind != PTC_CLUSTER_NODE) continue;
    if (cluster->num_groups == PTC_MAX_NODE_GROUPS)
      return ptc_error(F->diag, part->loc, PTC_INVALID_INPUT, "cluster-figure",
                       "a cluster has at most %d kinds of nodes", PTC_MAX_NODE_GROUPS);
    ptc_cluster_group_t *group = &cluster->groups[cluster->num_groups++];
    *group = (ptc_cluster_group_t){.nodes = nodes};
    ptc_node_model_t *node = &group->node;
    ptc_device_model_t *device = NULL;
    ptc_status_t status =
        count_value(F, part->count, part->loc, "the number of devices", &node->devices);
    if (status == PTC_OK) status = read_device(F, part->name, part->loc, &device);
    node->device = device;
    // What the cluster says of all nodes, then what this one says itself.
    for (int32_t k = 0; k < item->num_cluster_items && status == PTC_OK; k++)
      if (item->cluster_items[k].kind != PTC_CLUSTER_NODE)
        status = read_node_items(F, &item->cluster_items[k], 1, node, &group->nodes);
    if (status == PTC_OK)
      status = read_node_items(F, part->items, part->num_items, node, &group->nodes);
    if (status != PTC_OK) return status;
    complete_node(node);
    cluster->num_devices += (int64_t)group->nodes * node->devices;
  }
  if (!cluster->num_groups)
    return ptc_error(F->diag, item->loc, PTC_INVALID_INPUT, "cluster-figure",
                     "cluster \"%s\" has no node", item->name);
  *out_cluster = cluster;
  return PTC_OK;
}

// --- entries

static const ptc_loc_t no_place = {0};

// Cuts ":16" off |name|.
static ptc_status_t split_spec(finder_t *F, char *name) {
  char *colon = strrchr(name, ':');
  if (!colon) return PTC_OK;
  char *end;
  F->nodes = strtod(colon + 1, &end);
  *colon = '\0';
  if (!isdigit((unsigned char)colon[1]) || *end || !(F->nodes >= 1 && F->nodes <= 1048576) ||
      F->nodes != floor(F->nodes))
    return ptc_error(
        F->diag, no_place, PTC_INVALID_INPUT, "cluster-nodes",
        "cluster \"%s\": after the colon stands the number of nodes, from 1 to 1048576", F->spec);
  return PTC_OK;
}

static bool is_path(const char *name) {
  const size_t len = strlen(name);
  return strchr(name, '/') || (len > 4 && strcmp(name + len - 4, ".ptm") == 0);
}

static ptc_status_t find(finder_t *F, const char *name, ptc_cluster_t **out_cluster) {
  const ptc_item_t *item = find_item(F->program, PTC_ITEM_CLUSTER, name);
  if (!item && name) item = find_item(&F->catalog, PTC_ITEM_CLUSTER, name);
  if (item) return read_cluster(F, item, out_cluster);
  if (!name)
    return ptc_error(F->diag, no_place, PTC_INVALID_INPUT, "unknown-cluster",
                     "the file of \"%s\" has no cluster block", F->spec);
  const char *near = near_name(F, PTC_ITEM_CLUSTER, name);
  return ptc_error(F->diag, no_place, PTC_INVALID_INPUT, "unknown-cluster",
                   "there is no cluster \"%s\"%s%s%s; `ptc clusters` lists those of the catalog",
                   name, near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

ptc_status_t ptc_cluster_find(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_ast_t *program,
                              const char *spec, ptc_cluster_t **out_cluster) {
  *out_cluster = NULL;
  finder_t F = {.diag = diag, .arena = arena, .program = program, .spec = spec};
  char *name = ptc_arena_strdup(arena, spec);
  ptc_ast_t file;
  ptc_ast_init(&file);
  ptc_status_t status = parse_catalog(diag, &F.catalog);
  if (status == PTC_OK) status = split_spec(&F, name);
  if (status == PTC_OK && is_path(name)) {
    status = ptc_parse_file(diag, &file, name);
    F.program = &file;
    name = NULL;
  }
  if (status == PTC_OK) status = find(&F, name, out_cluster);
  ptc_ast_deinit(&file);
  ptc_ast_deinit(&F.catalog);
  return status;
}

ptc_status_t ptc_cluster_catalog(ptc_diag_t *diag, ptc_arena_t *arena,
                                 ptc_cluster_t ***out_clusters, int32_t *out_num) {
  finder_t F = {.diag = diag, .arena = arena, .spec = ""};
  ptc_status_t status = parse_catalog(diag, &F.catalog);
  *out_clusters = PTC_ARENA_ARRAY(arena, ptc_cluster_t *, F.catalog.num_items);
  *out_num = 0;
  for (int64_t i = 0; i < F.catalog.num_items && status == PTC_OK; i++)
    if (F.catalog.items[i].kind == PTC_ITEM_CLUSTER)
      status = read_cluster(&F, &F.catalog.items[i], &(*out_clusters)[(*out_num)++]);
  ptc_ast_deinit(&F.catalog);
  return status;
}

ptc_status_t ptc_device_catalog(ptc_diag_t *diag, ptc_arena_t *arena,
                                ptc_device_model_t ***out_devices, int32_t *out_num) {
  finder_t F = {.diag = diag, .arena = arena, .spec = ""};
  ptc_status_t status = parse_catalog(diag, &F.catalog);
  *out_devices = PTC_ARENA_ARRAY(arena, ptc_device_model_t *, F.catalog.num_items);
  *out_num = 0;
  for (int64_t i = 0; i < F.catalog.num_items && status == PTC_OK; i++)
    if (F.catalog.items[i].kind == PTC_ITEM_DEVICE)
      status = read_device(&F, F.catalog.items[i].name, F.catalog.items[i].loc,
                           &(*out_devices)[(*out_num)++]);
  ptc_ast_deinit(&F.catalog);
  return status;
}

// The block that begins with "KIND NAME" at a line's start, up to the '}' at a line's start.
static const char *block_text(ptc_arena_t *arena, const char *text, const char *kind,
                              const char *name) {
  const char *comment = NULL;
  for (const char *line = text; line && *line;) {
    const char *end = strchr(line, '\n');
    const size_t len = strlen(kind);
    if (line[0] == '#' && !comment) comment = line;
    if (strncmp(line, kind, len) == 0 && line[len] == ' ') {
      const char *word = line + len + 1;
      char *found = ptc_arena_strndup(arena, word, strcspn(word, "( {\n"));
      if (same_name(found, name)) {
        const char *close = strstr(line, "\n}");
        const char *start = comment ? comment : line;
        return close ? ptc_arena_strndup(arena, start, (size_t)(close + 3 - start)) : NULL;
      }
    }
    if (line[0] != '#') comment = NULL;
    line = end ? end + 1 : NULL;
  }
  return NULL;
}

const char *ptc_catalog_text(ptc_arena_t *arena, const char *name) {
  static const char *const kinds[] = {"cluster", "device"};
  for (int k = 0; k < 2; k++)
    for (int32_t i = 0; i < ptc_num_catalog_files; i++) {
      const char *text = block_text(arena, ptc_catalog_files[i].text, kinds[k], name);
      if (text) return text;
    }
  return NULL;
}
