// `ptc show PLAN kernels`: what is launched and with what work; on GPUs also what it takes of a multiprocessor.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda_codegen.h"
#include "codegen/cuda_occupancy.h"
#include "frontend/driver/show.h"
#include "frontend/driver/units.h"

typedef struct row_s {
  const ptc_plan_kernel_t *kernel;
  int64_t calls;
  bool cuda;
  ptc_cuda_resources_t resources;
  bool has_occupancy;
  ptc_cuda_occupancy_t occupancy;
} row_t;

static row_t make_row(const ptc_plan_t *plan, int32_t k, int64_t calls,
                      const ptc_cuda_resources_t *resources) {
  row_t row = {
      .kernel = &plan->kernels[k], .calls = calls, .cuda = ptc_plan_target_is_cuda(plan->target)};
  if (resources) row.resources = resources[k];
  row.has_occupancy =
      ptc_cuda_occupancy(plan->target, &row.resources, PTC_CUDA_THREADS, &row.occupancy);
  return row;
}

// --- csv

// What is not known is an empty field.
static void csv_field(bool known, int64_t value, FILE *out) {
  fputc(',', out);
  if (known) fprintf(out, "%" PRId64, value);
}

static void print_csv(const row_t *row, FILE *out) {
  const ptc_plan_kernel_t *kernel = row->kernel;
  fprintf(out, "%s,%" PRId64 ",%.17g,%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%d", kernel->name,
          row->calls, kernel->flops, kernel->min_bytes, kernel->workspace_bytes,
          kernel->scratch_bytes, kernel->loc_file ? kernel->loc_file : "", (int)kernel->loc_line);
  if (row->cuda) {
    const ptc_cuda_resources_t *r = &row->resources;
    csv_field(r->known, r->registers, out);
    csv_field(r->known, r->shared_bytes, out);
    csv_field(r->known, r->stack_bytes, out);
    csv_field(r->known, r->spill_store_bytes, out);
    csv_field(r->known, r->spill_load_bytes, out);
    csv_field(row->has_occupancy, row->occupancy.blocks, out);
    csv_field(row->has_occupancy, row->occupancy.warps, out);
    csv_field(row->has_occupancy, row->occupancy.max_warps, out);
    fprintf(out, ",%s,%s", row->has_occupancy ? row->occupancy.limit : "",
            kernel->gemm ? "cublaslt" : "generated");
  }
  fputc('\n', out);
}

// --- json

static void set_number(json_t *object, const char *name, bool known, int64_t value) {
  json_object_set_new(object, name, known ? json_integer((json_int_t)value) : json_null());
}

static json_t *json_of(const row_t *row) {
  const ptc_plan_kernel_t *kernel = row->kernel;
  json_t *object =
      json_pack("{s:s, s:s, s:I, s:f, s:I, s:I, s:I, s:s, s:i, s:s}", "kernel", kernel->name,
                "about", kernel->about, "calls_per_step", (json_int_t)row->calls, "flops",
                kernel->flops, "min_bytes", (json_int_t)kernel->min_bytes, "workspace_bytes",
                (json_int_t)kernel->workspace_bytes, "scratch_bytes",
                (json_int_t)kernel->scratch_bytes, "file", kernel->loc_file ? kernel->loc_file : "",
                "line", (int)kernel->loc_line, "hash", kernel->hash ? kernel->hash : "");
  if (!row->cuda) return object;
  const ptc_cuda_resources_t *r = &row->resources;
  json_object_set_new(object, "by", json_string(kernel->gemm ? "cublaslt" : "generated"));
  set_number(object, "registers", r->known, r->registers);
  set_number(object, "shared_bytes", r->known, r->shared_bytes);
  set_number(object, "stack_bytes", r->known, r->stack_bytes);
  set_number(object, "spill_store_bytes", r->known, r->spill_store_bytes);
  set_number(object, "spill_load_bytes", r->known, r->spill_load_bytes);
  set_number(object, "blocks_per_sm", row->has_occupancy, row->occupancy.blocks);
  set_number(object, "warps_per_sm", row->has_occupancy, row->occupancy.warps);
  set_number(object, "max_warps_per_sm", row->has_occupancy, row->occupancy.max_warps);
  json_object_set_new(object, "limited_by",
                      row->has_occupancy ? json_string(row->occupancy.limit) : json_null());
  return object;
}

// --- text

static void print_text(const row_t *row, FILE *out) {
  const ptc_plan_kernel_t *kernel = row->kernel;
  char flops[PTC_UNIT_CHARS], bytes[PTC_UNIT_CHARS], space[PTC_UNIT_CHARS];
  fprintf(out, "%6" PRId64 " %10s %10s %10s", row->calls, ptc_unit_count(kernel->flops, flops),
          ptc_unit_bytes(kernel->min_bytes, bytes), ptc_unit_bytes(kernel->workspace_bytes, space));
  const ptc_cuda_resources_t *r = &row->resources;
  if (row->cuda && r->known)
    fprintf(out, " %4" PRId64 " %9s %6" PRId64, r->registers,
            ptc_unit_bytes(r->shared_bytes, space), r->spill_store_bytes + r->spill_load_bytes);
  else if (row->cuda)
    fprintf(out, " %4s %9s %6s", "-", "-", "-");
  if (row->cuda && row->has_occupancy)
    fprintf(out, " %2" PRId64 "/%2" PRId64 " %-13s", row->occupancy.warps, row->occupancy.max_warps,
            row->occupancy.limit);
  else if (row->cuda)
    fprintf(out, " %5s %-13s", "-", "-");
  fprintf(out, "  %s (%s", kernel->name, kernel->about);
  if (kernel->loc_file) fprintf(out, ", %s:%d", kernel->loc_file, (int)kernel->loc_line);
  fputs(kernel->gemm ? "); by cuBLASLt, else as generated\n" : ")\n", out);
}

static void print_heads(bool cuda, ptc_show_format_t format, FILE *out) {
  if (format == PTC_SHOW_TEXT)
    fprintf(out, "%6s %10s %10s %10s%s  kernel\n", "calls", "FLOP", "bytes", "workspace",
            cuda ? " regs    shared  spill warps limited by   " : "");
  if (format == PTC_SHOW_CSV)
    fprintf(out,
            "kernel,calls_per_step,flops,min_bytes,workspace_bytes,scratch_bytes,file,line%s\n",
            cuda ? ",registers,shared_bytes,stack_bytes,spill_store_bytes,spill_load_bytes,"
                   "blocks_per_sm,warps_per_sm,max_warps_per_sm,limited_by,by"
                 : "");
}

void ptc_show_kernels(const ptc_plan_t *plan, const ptc_cuda_resources_t *resources,
                      ptc_show_format_t format, FILE *out) {
  int64_t *counts = ptc_show_launches(plan, ptc_plan_find_task(plan, "train"));
  json_t *list = json_array();
  print_heads(ptc_plan_target_is_cuda(plan->target), format, out);
  for (int32_t k = 0; k < plan->num_kernels; k++) {
    const row_t row = make_row(plan, k, counts[k], resources);
    switch (format) {
      case PTC_SHOW_CSV: print_csv(&row, out); break;
      case PTC_SHOW_JSON: json_array_append_new(list, json_of(&row)); break;
      default: print_text(&row, out); break;
    }
  }
  if (format == PTC_SHOW_JSON) {
    json_dumpf(list, out, JSON_INDENT(1));
    fputc('\n', out);
  }
  json_decref(list);
  free(counts);
}
