// Attributes: small lists of named values, searched linearly.
#include <math.h>
#include <string.h>

#include "ir/module.h"

static int32_t find_index(const ptc_attrs_t *attrs, const char *name) {
  for (int32_t i = 0; i < attrs->count; i++) {
    const char *entry = attrs->items[i].name;
    if (entry == name || strcmp(entry, name) == 0) return i;
  }
  return -1;
}

const ptc_attr_t *ptc_attrs_find(const ptc_attrs_t *attrs, const char *name) {
  int32_t i = find_index(attrs, name);
  return i < 0 ? NULL : &attrs->items[i];
}

int64_t ptc_attrs_int(const ptc_attrs_t *attrs, const char *name, int64_t otherwise) {
  const ptc_attr_t *attr = ptc_attrs_find(attrs, name);
  if (!attr) return otherwise;
  if (attr->kind == PTC_ATTR_INT) return attr->u.i;
  // Text does not tell 3.0 from 3: a whole number of float kind is an integer too.
  if (attr->kind == PTC_ATTR_FLOAT && fabs(attr->u.f) <= 0x1p53 && trunc(attr->u.f) == attr->u.f)
    return (int64_t)attr->u.f;
  return otherwise;
}

double ptc_attrs_float(const ptc_attrs_t *attrs, const char *name, double otherwise) {
  const ptc_attr_t *attr = ptc_attrs_find(attrs, name);
  if (!attr) return otherwise;
  if (attr->kind == PTC_ATTR_FLOAT) return attr->u.f;
  return attr->kind == PTC_ATTR_INT ? (double)attr->u.i : otherwise;
}

bool ptc_attrs_bool(const ptc_attrs_t *attrs, const char *name, bool otherwise) {
  const ptc_attr_t *attr = ptc_attrs_find(attrs, name);
  return attr && attr->kind == PTC_ATTR_BOOL ? attr->u.b : otherwise;
}

const char *ptc_attrs_string(const ptc_attrs_t *attrs, const char *name, const char *otherwise) {
  const ptc_attr_t *attr = ptc_attrs_find(attrs, name);
  bool text = attr && (attr->kind == PTC_ATTR_STRING || attr->kind == PTC_ATTR_DIM);
  return text ? attr->u.s : otherwise;
}

static const void *copy_array(ptc_arena_t *arena, const void *data, int32_t count, size_t size) {
  if (count <= 0) return NULL;
  return memcpy(ptc_arena_calloc(arena, (size_t)count, size), data, (size_t)count * size);
}

static const char *const *copy_names(ptc_module_t *module, const char *const *names,
                                     int32_t count) {
  const char **copy = PTC_ARENA_ARRAY(&module->arena, const char *, count);
  for (int32_t i = 0; i < count; i++) copy[i] = ptc_module_intern(module, names[i]);
  return copy;
}

void ptc_attrs_set(ptc_module_t *module, ptc_attrs_t *attrs, ptc_attr_t attr) {
  ptc_arena_t *arena = &module->arena;
  attr.name = ptc_module_intern(module, attr.name);
  switch (attr.kind) {
    case PTC_ATTR_DIMS: attr.u.dims = copy_names(module, attr.u.dims, attr.count); break;
    case PTC_ATTR_INTS:
      attr.u.ints = copy_array(arena, attr.u.ints, attr.count, sizeof(*attr.u.ints));
      break;
    case PTC_ATTR_FLOATS:
      attr.u.floats = copy_array(arena, attr.u.floats, attr.count, sizeof(*attr.u.floats));
      break;
    case PTC_ATTR_STRING:
    case PTC_ATTR_DIM: attr.u.s = ptc_module_intern(module, attr.u.s); break;
    case PTC_ATTR_INT:
    case PTC_ATTR_FLOAT:
    case PTC_ATTR_BOOL: break;
  }
  int32_t i = find_index(attrs, attr.name);
  if (i >= 0) {
    attrs->items[i] = attr;
    return;
  }
  if (attrs->count == attrs->capacity) {
    int32_t capacity = attrs->capacity ? 2 * attrs->capacity : 4;
    ptc_attr_t *items = PTC_ARENA_ARRAY(arena, ptc_attr_t, capacity);
    if (attrs->count) memcpy(items, attrs->items, (size_t)attrs->count * sizeof(*items));
    attrs->items = items;
    attrs->capacity = capacity;
  }
  attrs->items[attrs->count++] = attr;
}

void ptc_attrs_set_int(ptc_module_t *module, ptc_attrs_t *attrs, const char *name, int64_t value) {
  ptc_attrs_set(module, attrs, (ptc_attr_t){.name = name, .kind = PTC_ATTR_INT, .u.i = value});
}

void ptc_attrs_set_float(ptc_module_t *module, ptc_attrs_t *attrs, const char *name, double value) {
  ptc_attrs_set(module, attrs, (ptc_attr_t){.name = name, .kind = PTC_ATTR_FLOAT, .u.f = value});
}

void ptc_attrs_set_bool(ptc_module_t *module, ptc_attrs_t *attrs, const char *name, bool value) {
  ptc_attrs_set(module, attrs, (ptc_attr_t){.name = name, .kind = PTC_ATTR_BOOL, .u.b = value});
}

void ptc_attrs_set_string(ptc_module_t *module, ptc_attrs_t *attrs, const char *name,
                          const char *value) {
  ptc_attrs_set(module, attrs, (ptc_attr_t){.name = name, .kind = PTC_ATTR_STRING, .u.s = value});
}

void ptc_attrs_set_dim(ptc_module_t *module, ptc_attrs_t *attrs, const char *name,
                       const char *value) {
  ptc_attrs_set(module, attrs, (ptc_attr_t){.name = name, .kind = PTC_ATTR_DIM, .u.s = value});
}

void ptc_attrs_set_dims(ptc_module_t *module, ptc_attrs_t *attrs, const char *name,
                        const char *const *dims, int32_t count) {
  ptc_attrs_set(module, attrs,
                (ptc_attr_t){.name = name, .kind = PTC_ATTR_DIMS, .count = count, .u.dims = dims});
}

void ptc_attrs_set_ints(ptc_module_t *module, ptc_attrs_t *attrs, const char *name,
                        const int64_t *values, int32_t count) {
  ptc_attrs_set(
      module, attrs,
      (ptc_attr_t){.name = name, .kind = PTC_ATTR_INTS, .count = count, .u.ints = values});
}

void ptc_attrs_remove(ptc_attrs_t *attrs, const char *name) {
  int32_t i = find_index(attrs, name);
  if (i < 0) return;
  attrs->count--;
  memmove(&attrs->items[i], &attrs->items[i + 1],
          (size_t)(attrs->count - i) * sizeof(*attrs->items));
}

static bool arrays_equal(const void *a, const void *b, int32_t count, size_t size) {
  return count <= 0 || memcmp(a, b, (size_t)count * size) == 0;
}

// Floats compare by bits, so that NaN equals itself and -0 differs from 0.
static bool attr_equal(const ptc_attr_t *a, const ptc_attr_t *b) {
  if (a->kind != b->kind || a->count != b->count) return false;
  switch (a->kind) {
    case PTC_ATTR_INT: return a->u.i == b->u.i;
    case PTC_ATTR_FLOAT: return memcmp(&a->u.f, &b->u.f, sizeof(a->u.f)) == 0;
    case PTC_ATTR_BOOL: return a->u.b == b->u.b;
    case PTC_ATTR_STRING:
    case PTC_ATTR_DIM: return a->u.s == b->u.s || strcmp(a->u.s, b->u.s) == 0;
    case PTC_ATTR_DIMS:
      for (int32_t i = 0; i < a->count; i++)
        if (a->u.dims[i] != b->u.dims[i] && strcmp(a->u.dims[i], b->u.dims[i]) != 0) return false;
      return true;
    case PTC_ATTR_INTS: return arrays_equal(a->u.ints, b->u.ints, a->count, sizeof(*a->u.ints));
    case PTC_ATTR_FLOATS:
      return arrays_equal(a->u.floats, b->u.floats, a->count, sizeof(*a->u.floats));
  }
  return false;
}

bool ptc_attrs_equal(const ptc_attrs_t *a, const ptc_attrs_t *b) {
  if (a->count != b->count) return false;
  for (int32_t i = 0; i < a->count; i++) {
    const ptc_attr_t *other = ptc_attrs_find(b, a->items[i].name);
    if (!other || !attr_equal(&a->items[i], other)) return false;
  }
  return true;
}

ptc_attrs_t ptc_attrs_clone(ptc_module_t *module, const ptc_attrs_t *attrs) {
  ptc_attrs_t copy = {0};
  for (int32_t i = 0; i < attrs->count; i++) ptc_attrs_set(module, &copy, attrs->items[i]);
  return copy;
}
