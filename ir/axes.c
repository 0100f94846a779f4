#include "ir/axes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool ptc_axis_refs_overlap(ptc_axis_ref_t a, ptc_axis_ref_t b) {
  if (a.axis != b.axis) return false;
  if (!a.size || !b.size) return true;
  // Part (pre, size) covers the positions [pre, pre * size) on the scale of divisors. The products
  // of parts that fit a mesh do not overflow; of others, only a yes or no is lost.
  return (double)a.pre < (double)b.pre * (double)b.size &&
         (double)b.pre < (double)a.pre * (double)a.size;
}

bool ptc_axis_ref_fits(const ptc_mesh_t *mesh, ptc_axis_ref_t ref) {
  for (int32_t i = 0; i < mesh->num_axes; i++) {
    int64_t size = mesh->axes[i].size, covered;
    if (mesh->axes[i].name != ref.axis) continue;
    if (!ref.size) return ref.pre == 0;
    return ref.pre >= 1 && ref.size >= 1 && !__builtin_mul_overflow(ref.pre, ref.size, &covered) &&
           size % covered == 0;
  }
  return false;
}

bool ptc_axes_equal(const ptc_axis_ref_t *a, int32_t num_a, const ptc_axis_ref_t *b,
                    int32_t num_b) {
  if (num_a != num_b) return false;
  for (int32_t i = 0; i < num_a; i++)
    if (!ptc_axis_ref_equal(a[i], b[i])) return false;
  return true;
}

int32_t ptc_axes_find(const ptc_axis_ref_t *axes, int32_t num_axes, ptc_axis_ref_t ref) {
  for (int32_t i = 0; i < num_axes; i++)
    if (ptc_axis_ref_equal(axes[i], ref)) return i;
  return -1;
}

// --- text

// The mesh's name that |text| begins with, followed by a space, a colon or the end: the longest.
static const char *axis_at(const ptc_mesh_t *mesh, const char *text, size_t *out_len) {
  const char *best = NULL;
  *out_len = 0;
  for (int32_t i = 0; i < mesh->num_axes; i++) {
    const char *name = mesh->axes[i].name;
    size_t len = strlen(name);
    bool match = len > *out_len && strncmp(text, name, len) == 0 &&
                 (text[len] == '\0' || text[len] == ' ' || text[len] == ':');
    if (!match) continue;
    best = name;
    *out_len = len;
  }
  return best;
}

// ":N" at |*text|, N >= 1, at most 18 digits.
static bool read_number(const char **text, int64_t *out) {
  const char *c = *text;
  if (*c++ != ':') return false;
  size_t digits = strspn(c, "0123456789");
  if (digits == 0 || digits > 18) return false;
  *out = strtoll(c, NULL, 10);
  *text = c + digits;
  return *out >= 1;
}

bool ptc_axes_parse(const ptc_module_t *module, const char *text, ptc_axis_ref_t *out_refs,
                    int32_t *out_num) {
  *out_num = 0;
  if (!text) return false;
  for (const char *c = text + strspn(text, " "); *c; c += strspn(c, " ")) {
    size_t len;
    ptc_axis_ref_t ref = {.axis = axis_at(&module->mesh, c, &len)};
    if (!ref.axis || *out_num == PTC_MAX_AXES) return false;
    c += len;
    if (*c == ':' && !(read_number(&c, &ref.pre) && read_number(&c, &ref.size))) return false;
    if (*c && *c != ' ') return false;
    if (!ptc_axis_ref_fits(&module->mesh, ref)) return false;
    for (int32_t i = 0; i < *out_num; i++)
      if (ptc_axis_refs_overlap(out_refs[i], ref)) return false;
    out_refs[(*out_num)++] = ref;
  }
  return *out_num > 0;
}

const char *ptc_axes_text(ptc_module_t *module, const ptc_axis_ref_t *axes, int32_t num_axes) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "");
  for (int32_t i = 0; i < num_axes; i++) {
    ptc_str_printf(&text, "%s%s", i ? " " : "", axes[i].axis);
    if (axes[i].size) ptc_str_printf(&text, ":%" PRId64 ":%" PRId64, axes[i].pre, axes[i].size);
  }
  const char *interned = ptc_module_intern(module, text.data);
  ptc_str_deinit(&text);
  return interned;
}

// --- positions

int64_t ptc_axes_size(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes) {
  int64_t size = 1;
  for (int32_t i = 0; i < num_axes; i++)
    if (__builtin_mul_overflow(size, ptc_axis_ref_size(mesh, axes[i]), &size)) return INT64_MAX;
  return size;
}

int64_t ptc_axes_index(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes,
                       const int64_t *coords) {
  const ptc_dim_t dim = {.axes = axes, .num_axes = num_axes};
  return ptc_dim_shard_index(mesh, &dim, coords);
}

static bool comes_before(const ptc_mesh_t *mesh, ptc_axis_ref_t a, ptc_axis_ref_t b) {
  if (a.axis == b.axis) return a.pre < b.pre;
  for (int32_t i = 0; i < mesh->num_axes; i++)
    if (mesh->axes[i].name == a.axis || mesh->axes[i].name == b.axis)
      return mesh->axes[i].name == a.axis;
  return false;
}

void ptc_axes_sort(const ptc_mesh_t *mesh, ptc_axis_ref_t *axes, int32_t num_axes) {
  for (int32_t i = 1; i < num_axes; i++) {
    ptc_axis_ref_t ref = axes[i];
    int32_t at = i;
    for (; at > 0 && comes_before(mesh, ref, axes[at - 1]); at--) axes[at] = axes[at - 1];
    axes[at] = ref;
  }
}

int64_t ptc_gcd(int64_t a, int64_t b) {
  while (b) {
    const int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}
