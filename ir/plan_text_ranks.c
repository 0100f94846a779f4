// What stage0.steps says of many ranks: layouts of buffers and collectives, written and read.
#include <inttypes.h>
#include <string.h>

#include "ir/plan_text_impl.h"

enum { MAX_AXES = 16 };

#define FAULT(id, ...) ptc_error(r->diag, ptc_scan_here(r), PTC_INVALID_INPUT, (id), __VA_ARGS__)

// --- writing

static void print_axis(ptc_axis_ref_t ref, ptc_str_t *out) {
  ptc_str_append(out, ref.axis);
  if (ref.size) ptc_str_printf(out, ":%" PRId64 ":%" PRId64, ref.pre, ref.size);
}

static void print_axes(const char *word, const ptc_axis_ref_t *axes, int32_t count,
                       ptc_str_t *out) {
  if (count) ptc_str_append(out, word);
  for (int32_t i = 0; i < count; ++i) {
    ptc_str_append(out, " ");
    print_axis(axes[i], out);
  }
}

static void print_dims(const ptc_buffer_t *buffer, ptc_str_t *out) {
  ptc_str_append(out, " of [");
  for (int32_t d = 0; d < buffer->num_dims; ++d) {
    const ptc_dim_t *dim = &buffer->layout[d];
    ptc_str_printf(out, "%s%" PRId64, d ? " " : "", dim->extent);
    for (int32_t i = 0; i < dim->num_axes; ++i) {
      ptc_str_append(out, "/");
      print_axis(dim->axes[i], out);
    }
    if (dim->dist == PTC_DIST_ZIGZAG) ptc_str_append(out, "~");
  }
  ptc_str_append(out, "]");
}

void ptc_plan_print_layout(const ptc_buffer_t *buffer, ptc_str_t *out) {
  if (buffer->layout)
    print_dims(buffer, out);
  else
    print_axes(" over", buffer->over, buffer->num_over, out);
  print_axes(buffer->partial_kind == PTC_REDUCE_MAX ? " partial max" : " partial sum",
             buffer->partial, buffer->num_partial, out);
}

static void indent(int32_t count, ptc_str_t *out) {
  for (int32_t i = 0; i < count; ++i) ptc_str_append(out, " ");
}

static void print_pieces(const char *word, const ptc_pieces_t *pieces, ptc_str_t *out) {
  ptc_str_printf(out, " %s %" PRId64 " %" PRId64 " %" PRId64, word, pieces->outer, pieces->chunk,
                 pieces->row);
}

static bool cuts_in(ptc_collective_kind_t kind) {
  return kind == PTC_COLLECTIVE_REDUCE_SCATTER || kind == PTC_COLLECTIVE_ALL_TO_ALL;
}

static bool cuts_out(ptc_collective_kind_t kind) {
  return kind == PTC_COLLECTIVE_ALL_GATHER || kind == PTC_COLLECTIVE_ALL_TO_ALL;
}

static bool reduces(ptc_collective_kind_t kind) {
  return kind == PTC_COLLECTIVE_ALL_REDUCE || kind == PTC_COLLECTIVE_REDUCE_SCATTER;
}

void ptc_plan_print_collective(const ptc_plan_t *plan, const ptc_step_t *step, int32_t blanks,
                               ptc_str_t *out) {
  const ptc_collective_t *c = step->collective;
  indent(blanks, out);
  ptc_str_append(out, ptc_collective_name(c->kind));
  if (reduces(c->kind)) ptc_str_append(out, c->reduce == PTC_REDUCE_MAX ? " max" : " sum");
  ptc_str_printf(out, " %s over", ptc_dtype_name(c->dtype));
  for (int32_t i = 0; i < c->num_axes; ++i) {
    ptc_str_append(out, " ");
    print_axis(c->axes[i], out);
  }
  ptc_plan_print_loc(c->loc_file, c->loc_line, out);
  ptc_str_append(out, "\n");
  for (int32_t p = 0; p < c->num_parts; ++p) {
    indent(blanks + 2, out);
    ptc_str_append(out, "part");
    ptc_plan_print_ref(plan, &step->args[2 * p], out);
    ptc_plan_print_ref(plan, &step->args[2 * p + 1], out);
    if (cuts_in(c->kind)) print_pieces("in", &c->parts[p].in, out);
    if (cuts_out(c->kind)) print_pieces("out", &c->parts[p].out, out);
    ptc_str_append(out, "  # ");
    ptc_str_append_name(out, plan->buffers[step->args[2 * p].buffer].name);
    ptc_str_append(out, " ");
    ptc_str_append_name(out, plan->buffers[step->args[2 * p + 1].buffer].name);
    ptc_str_append(out, "\n");
  }
  indent(blanks, out);
  ptc_str_append(out, "end\n");
}

// --- reading

// AXIS[:PRE:SIZE] where an axis of the mesh comes next; else |*out_found| is false.
static ptc_status_t read_axis(ptc_plan_reader_t *r, ptc_axis_ref_t *out, bool *out_found) {
  const ptc_mesh_t *mesh = &r->plan->mesh;
  int32_t a = 0;
  while (a < mesh->num_axes && !ptc_scan_take_word(r, mesh->axes[a].name)) a++;
  *out_found = a < mesh->num_axes;
  if (!*out_found) return PTC_OK;
  *out = (ptc_axis_ref_t){.axis = mesh->axes[a].name};
  if (!ptc_scan_take_char(r, ':')) return PTC_OK;
  PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, &out->pre));
  PTC_TRY(ptc_scan_expect_char(r, ':'));
  return ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, &out->size);
}

static const ptc_axis_ref_t *keep_axes(ptc_plan_reader_t *r, const ptc_axis_ref_t *axes,
                                       int32_t count) {
  ptc_axis_ref_t *kept = PTC_ARENA_ARRAY(r->arena, ptc_axis_ref_t, count);
  if (count) memcpy(kept, axes, (size_t)count * sizeof *axes);
  return kept;
}

static ptc_status_t read_dim(ptc_plan_reader_t *r, ptc_dim_t *dim) {
  ptc_axis_ref_t axes[MAX_AXES];
  bool found;
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &dim->extent));
  for (; ptc_scan_take_char(r, '/'); dim->num_axes++) {
    if (dim->num_axes == MAX_AXES) return FAULT("plan-limit", "more than %d axes", MAX_AXES);
    PTC_TRY(read_axis(r, &axes[dim->num_axes], &found));
    if (!found) return FAULT("plan-text", "expected an axis of the mesh");
  }
  if (ptc_scan_take_char(r, '~')) dim->dist = PTC_DIST_ZIGZAG;
  dim->axes = keep_axes(r, axes, dim->num_axes);
  return PTC_OK;
}

static ptc_status_t read_axes(ptc_plan_reader_t *r, const ptc_axis_ref_t **out_axes,
                              int32_t *out_count) {
  ptc_axis_ref_t axes[MAX_AXES];
  int32_t count = 0;
  for (bool found = true; found; count += found) {
    if (count == MAX_AXES) return FAULT("plan-limit", "more than %d axes", MAX_AXES);
    PTC_TRY(read_axis(r, &axes[count], &found));
  }
  if (count == 0) return FAULT("plan-text", "expected an axis of the mesh");
  *out_axes = keep_axes(r, axes, count);
  *out_count = count;
  return PTC_OK;
}

static ptc_status_t read_dims(ptc_plan_reader_t *r, ptc_buffer_t *buffer) {
  ptc_dim_t *dims = PTC_ARENA_ARRAY(r->arena, ptc_dim_t, buffer->num_dims);
  ptc_axis_ref_t over[MAX_AXES];
  ptc_scan_skip_blanks(r);
  PTC_TRY(ptc_scan_expect_char(r, '['));
  for (int32_t d = 0; d < buffer->num_dims; ++d) {
    dims[d].name = buffer->dim_names[d];
    PTC_TRY(read_dim(r, &dims[d]));
    for (int32_t i = 0; i < dims[d].num_axes; ++i) {
      if (buffer->num_over == MAX_AXES) return FAULT("plan-limit", "more than %d axes", MAX_AXES);
      over[buffer->num_over++] = dims[d].axes[i];
    }
  }
  ptc_scan_skip_blanks(r);
  buffer->layout = dims;
  buffer->over = keep_axes(r, over, buffer->num_over);
  return ptc_scan_expect_char(r, ']');
}

ptc_status_t ptc_plan_read_layout(ptc_plan_reader_t *r, ptc_buffer_t *buffer) {
  if (ptc_scan_take_word(r, "of"))
    PTC_TRY(read_dims(r, buffer));
  else if (ptc_scan_take_word(r, "over"))
    PTC_TRY(read_axes(r, &buffer->over, &buffer->num_over));
  if (!ptc_scan_take_word(r, "partial")) return PTC_OK;
  const bool max = ptc_scan_take_word(r, "max");
  if (!max) PTC_TRY(ptc_scan_expect_word(r, "sum"));
  buffer->partial_kind = max ? PTC_REDUCE_MAX : PTC_REDUCE_SUM;
  return read_axes(r, &buffer->partial, &buffer->num_partial);
}

static ptc_status_t read_pieces(ptc_plan_reader_t *r, const char *word, ptc_pieces_t *pieces) {
  PTC_TRY(ptc_scan_expect_word(r, word));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &pieces->outer));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &pieces->chunk));
  return ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &pieces->row);
}

static ptc_status_t read_part(ptc_plan_reader_t *r, ptc_collective_kind_t kind, ptc_ref_t *in,
                              ptc_ref_t *out, ptc_collective_part_t *part) {
  PTC_TRY(ptc_plan_read_ref(r, in));
  PTC_TRY(ptc_plan_read_ref(r, out));
  part->in = (ptc_pieces_t){1, in->bytes, in->bytes};
  part->out = (ptc_pieces_t){1, out->bytes, out->bytes};
  if (cuts_in(kind)) PTC_TRY(read_pieces(r, "in", &part->in));
  if (cuts_out(kind)) PTC_TRY(read_pieces(r, "out", &part->out));
  return ptc_scan_expect_line_end(r);
}

static ptc_status_t read_parts(ptc_plan_reader_t *r, ptc_collective_t *c, ptc_step_t *step) {
  int32_t cap_args = 0, cap_parts = 0;
  for (ptc_scan_skip_lines(r); ptc_scan_take_word(r, "part"); ptc_scan_skip_lines(r)) {
    if (c->num_parts == PTC_PLAN_MAX_PARTS)
      return FAULT("plan-limit", "a collective has at most %d parts", PTC_PLAN_MAX_PARTS);
    ptc_ref_t refs[2];
    ptc_collective_part_t part;
    PTC_TRY(read_part(r, c->kind, &refs[0], &refs[1], &part));
    ptc_plan_grow(r->arena, &c->parts, sizeof part, c->num_parts, &cap_parts);
    c->parts[c->num_parts++] = part;
    for (int i = 0; i < 2; ++i) {
      ptc_plan_grow(r->arena, &step->args, sizeof *refs, step->num_args, &cap_args);
      step->args[step->num_args++] = refs[i];
    }
  }
  return ptc_scan_expect_word(r, "end");
}

ptc_status_t ptc_plan_read_collective(ptc_plan_reader_t *r, ptc_collective_kind_t kind,
                                      ptc_step_t *step) {
  ptc_collective_t *c = PTC_ARENA_NEW(r->arena, ptc_collective_t);
  ptc_axis_ref_t axes[MAX_AXES];
  const char *dtype;
  c->kind = kind;
  step->kind = PTC_STEP_COLLECTIVE;
  step->collective = c;
  if (reduces(kind) && !ptc_scan_take_word(r, "sum")) {
    PTC_TRY(ptc_scan_expect_word(r, "max"));
    c->reduce = PTC_REDUCE_MAX;
  }
  PTC_TRY(ptc_scan_word(r, &dtype));
  if (!ptc_dtype_parse(dtype, &c->dtype)) return FAULT("plan-text", "\"%s\" is no dtype", dtype);
  PTC_TRY(ptc_scan_expect_word(r, "over"));
  for (bool found = true; found; c->num_axes += found) {
    if (c->num_axes == MAX_AXES) return FAULT("plan-limit", "more than %d axes", MAX_AXES);
    PTC_TRY(read_axis(r, &axes[c->num_axes], &found));
  }
  c->axes = keep_axes(r, axes, c->num_axes);
  PTC_TRY(ptc_scan_loc(r, &c->loc_file, &c->loc_line));
  PTC_TRY(ptc_scan_expect_line_end(r));
  return read_parts(r, c, step);
}
