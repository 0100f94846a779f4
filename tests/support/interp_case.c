#include "tests/support/interp_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text.h"
#include "ir/verify.h"

interp_case_t *interp_case_open(const char *text, ptc_interp_mode_t mode) {
  interp_case_t *self = ptc_xmalloc(sizeof(*self));
  *self = (interp_case_t){0};
  ptc_diag_init(&self->diag);
  ptc_diag_add_source(&self->diag, "case", text, strlen(text));
  ptc_status_t status = ptc_module_parse(&self->diag, "case", text, strlen(text), &self->module);
  if (status == PTC_OK) status = ptc_module_infer_shapes(self->module);
  if (status == PTC_OK) status = ptc_module_verify(self->module);
  if (status == PTC_OK) {
    self->interp = ptc_interp_create(self->module, mode);
    return self;
  }
  ptc_diag_print(&self->diag, stderr, PTC_DIAG_TEXT, false);
  fprintf(stderr, "%s\n", text);
  interp_case_close(self);
  return NULL;
}

void interp_case_close(interp_case_t *self) {
  if (!self) return;
  ptc_interp_destroy(self->interp);
  ptc_module_destroy(self->module);
  ptc_diag_deinit(&self->diag);
  free(self);
}

static ptc_tensor_t *global_of(interp_case_t *self, const char *path) {
  const ptc_global_t *global =
      ptc_module_find_global(self->module, ptc_module_intern(self->module, path));
  return global ? ptc_interp_global(self->interp, global) : NULL;
}

void interp_case_set(interp_case_t *self, const char *path, const double *data, int64_t count) {
  ptc_tensor_t *tensor = global_of(self, path);
  if (!tensor) return;
  int64_t size = tensor->num_elements * tensor->num_instances;
  for (int64_t i = 0; i < size && i < count; i++) tensor->data[i] = data[i];
}

double *interp_case_global(interp_case_t *self, const char *path) {
  ptc_tensor_t *tensor = global_of(self, path);
  return tensor ? tensor->data : NULL;
}

const double *interp_case_result(interp_case_t *self, int32_t index) {
  return ptc_interp_result(self->interp, index)->data;
}

int64_t interp_case_result_count(interp_case_t *self, int32_t index) {
  const ptc_tensor_t *tensor = ptc_interp_result(self->interp, index);
  return tensor->num_elements * tensor->num_instances;
}

const char *interp_case_id(const interp_case_t *self) {
  return self->diag.num_items ? self->diag.items[0].id : "";
}

bool interp_near(double a, double b, double tolerance) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b)) return a == b;
  return fabs(a - b) <= tolerance * fmax(1, fabs(b));
}

// Cuts a list at its semicolons; the number of parts.
static int split_list(const char *list, char parts[][256], int max_parts) {
  int count = 0;
  while (*list && count < max_parts) {
    size_t len = strcspn(list, ";");
    snprintf(parts[count++], 256, "%.*s", (int)len, list);
    list += len;
    list += strspn(list, "; ");
  }
  return count;
}

// A bundle's global has a path with a star per count, and turns from 0 on.
static void print_reference(ptc_str_t *out, int number, const char *type, bool declare) {
  int counts = 0;
  for (const char *p = strstr(type, " x "); p; p = strstr(p + 1, " x ")) counts++;
  ptc_str_printf(out, "@\"x%d", number);
  for (int i = 0; i < counts; i++) ptc_str_append(out, ".*");
  ptc_str_printf(out, "\"%s", counts && declare ? " turns" : "");
  for (int i = 0; i < counts; i++)
    ptc_str_printf(out, "%s0:1%s", i ? ", " : " (", i == counts - 1 ? ")" : "");
}

void interp_case_one_op(ptc_str_t *out, const char *mesh, const char *op, const char *attrs,
                        const char *operands, const char *results) {
  char in[16][256], of[16][256];
  int num_in = split_list(operands, in, 16), num_out = split_list(results, of, 16);
  ptc_str_printf(out, "module \"t\"\n%s\n", mesh);
  for (int i = 0; i < num_in; i++) {
    ptc_str_append(out, "input ");
    print_reference(out, i, in[i], true);
    ptc_str_printf(out, " : %s\n", in[i]);
  }
  ptc_str_append(out, "func @f(");
  for (int i = 0; i < num_in; i++) {
    ptc_str_printf(out, "%s%%x%d = ", i ? ", " : "", i);
    print_reference(out, i, in[i], false);
  }
  ptc_str_append(out, ") {\n  ");
  for (int i = 0; i < num_out; i++) ptc_str_printf(out, "%s%%y%d", i ? ", " : "", i);
  ptc_str_printf(out, " = %s", op);
  for (int i = 0; i < num_in; i++) ptc_str_printf(out, "%s%%x%d", i ? ", " : " ", i);
  if (attrs[0]) ptc_str_printf(out, " {%s}", attrs);
  for (int i = 0; i < num_out; i++) ptc_str_printf(out, "%s%s", i ? ", " : " : ", of[i]);
  ptc_str_append(out, "\n  return ");
  for (int i = 0; i < num_out; i++)
    ptc_str_printf(out, "%soutput \"y%d\" = %%y%d", i ? ", " : "", i, i);
  ptc_str_append(out, "\n}\n");
}
