#include "passes/lr_schedule.h"

#include <string.h>

#include "ir/op.h"

double ptc_config_number(const ptc_module_t *module, const char *name, double otherwise) {
  const ptc_attr_t *attr = ptc_attrs_find(&module->config, name);
  if (!attr) return otherwise;
  if (attr->kind == PTC_ATTR_INT) return (double)attr->u.i;
  return attr->kind == PTC_ATTR_FLOAT ? attr->u.f : otherwise;
}

ptc_value_t *ptc_setting(ptc_func_t *func, const char *name, ptc_dtype_t dtype, double otherwise) {
  ptc_module_t *module = func->module;
  ptc_global_t *global = ptc_module_find_global(module, name);
  if (!global) {
    global = ptc_module_add_global(module, PTC_GLOBAL_SETTING, name,
                                   ptc_type_scalar(&module->arena, dtype), func->loc);
    ptc_attrs_set_float(module, &global->attrs, "value",
                        ptc_config_number(module, name, otherwise));
  }
  return ptc_func_get_arg(func, global);
}

typedef struct schedule_s {
  ptc_builder_t *b;
  ptc_func_t *func;
  ptc_value_t *k;            // applied steps so far, f64
  ptc_value_t *lr, *min_lr;  // f64
} schedule_t;

typedef ptc_value_t *(*schedule_fn_t)(const schedule_t *s);

static ptc_value_t *setting_f64(const schedule_t *s, const char *name, ptc_dtype_t dtype,
                                double otherwise) {
  return ptc_build_cast(s->b, ptc_setting(s->func, name, dtype, otherwise), PTC_F64);
}

// x / max(y, 1), limited to [0, 1].
static ptc_value_t *fraction(const schedule_t *s, ptc_value_t *x, ptc_value_t *y) {
  y = ptc_build_binary_const(s->b, PTC_OP_MAX, y, 1);
  ptc_value_t *p = ptc_build_binary(s->b, PTC_OP_DIV, x, y);
  p = ptc_build_binary_const(s->b, PTC_OP_MAX, p, 0);
  return ptc_build_binary_const(s->b, PTC_OP_MIN, p, 1);
}

// min_lr + (lr - min_lr) * x
static ptc_value_t *between(const schedule_t *s, ptc_value_t *x) {
  ptc_value_t *range = ptc_build_binary(s->b, PTC_OP_SUB, s->lr, s->min_lr);
  return ptc_build_binary(s->b, PTC_OP_ADD, s->min_lr,
                          ptc_build_binary(s->b, PTC_OP_MUL, range, x));
}

static ptc_value_t *one_minus(const schedule_t *s, ptc_value_t *x) {
  return ptc_build_binary(s->b, PTC_OP_SUB, ptc_build_constant(s->b, PTC_F64, 1), x);
}

static ptc_value_t *progress(const schedule_t *s) {
  ptc_value_t *warmup = setting_f64(s, "warmup", PTC_I64, 0);
  ptc_value_t *steps = setting_f64(s, "steps", PTC_I64, 0);
  return fraction(s, ptc_build_binary(s->b, PTC_OP_SUB, s->k, warmup),
                  ptc_build_binary(s->b, PTC_OP_SUB, steps, warmup));
}

static ptc_value_t *constant_lr(const schedule_t *s) { return s->lr; }

static ptc_value_t *linear_lr(const schedule_t *s) { return between(s, one_minus(s, progress(s))); }

static ptc_value_t *cosine_lr(const schedule_t *s) {
  ptc_value_t *angle =
      ptc_build_binary_const(s->b, PTC_OP_MUL, progress(s), 3.14159265358979323846);
  ptc_value_t *wave = ptc_build_unary(s->b, PTC_OP_COS, angle);
  wave = ptc_build_binary_const(s->b, PTC_OP_ADD, wave, 1);
  return between(s, ptc_build_binary_const(s->b, PTC_OP_MUL, wave, 0.5));
}

static ptc_value_t *wsd_lr(const schedule_t *s) {
  ptc_value_t *steps = setting_f64(s, "steps", PTC_I64, 0);
  ptc_value_t *decay = setting_f64(s, "decay_steps", PTC_I64, 0);
  ptc_value_t *start = ptc_build_binary(s->b, PTC_OP_SUB, steps, decay);
  ptc_value_t *q = fraction(s, ptc_build_binary(s->b, PTC_OP_SUB, s->k, start), decay);
  return between(s, one_minus(s, ptc_build_unary(s->b, PTC_OP_SQRT, q)));
}

static const struct {
  const char *name;
  schedule_fn_t build;
} schedules[] = {
    {"constant", constant_lr}, {"linear", linear_lr}, {"cosine", cosine_lr}, {"wsd", wsd_lr}};

ptc_status_t ptc_build_lr(ptc_builder_t *b, ptc_func_t *func, ptc_value_t *t,
                          ptc_value_t **out_lr) {
  *out_lr = NULL;
  const ptc_module_t *module = b->module;
  const char *name = ptc_attrs_string(&module->config, "lr_schedule", "constant");
  schedule_fn_t build = NULL;
  for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++)
    if (strcmp(schedules[i].name, name) == 0) build = schedules[i].build;
  if (!build)
    return ptc_error(module->diag, func->loc, PTC_INVALID_INPUT, "lr-schedule",
                     "unknown learning rate schedule \"%s\" (constant, linear, cosine, wsd)", name);
  schedule_t s = {.b = b, .func = func};
  ptc_value_t *number = ptc_build_cast(b, t, PTC_F64);
  s.k = ptc_build_binary_const(b, PTC_OP_SUB, number, 1);
  s.lr = setting_f64(&s, "lr", PTC_F32, 1e-3);
  if (build != constant_lr) s.min_lr = setting_f64(&s, "min_lr", PTC_F32, 0);
  ptc_value_t *lr = build(&s);
  if (ptc_config_number(module, "warmup", 0) > 0) {
    ptc_value_t *warm = fraction(&s, number, setting_f64(&s, "warmup", PTC_I64, 0));
    lr = ptc_build_binary(b, PTC_OP_MUL, lr, warm);
  }
  *out_lr = ptc_build_cast(b, lr, PTC_F32);
  return PTC_OK;
}
