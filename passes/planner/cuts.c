#include "passes/planner/cuts.h"

#include <inttypes.h>
#include <string.h>

#include "passes/planner/predict_impl.h"
#include "passes/planner/predict_mixed.h"
#include "passes/split_stages.h"

static bool repeats(const ptc_work_piece_t *piece) { return piece->count > 1; }

int64_t ptc_cuts_turns(const ptc_work_t *work) {
  int64_t turns = 0;
  for (int32_t i = 0; i < work->num_pieces; i++)
    if (repeats(&work->pieces[i])) turns += work->pieces[i].count;
  return turns;
}

void ptc_cuts_settle(const ptc_work_t *work, const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                     ptc_arena_t *arena, ptc_choice_t *choice) {
  const int64_t parts = choice->size[PTC_AXIS_PP] * choice->chunks;
  if (choice->size[PTC_AXIS_PP] == 1 || choice->cuts || parts > PTC_MAX_PARTS) return;
  ptc_arena_t scratch = {0};
  ptc_work_pieces_t pieces;
  ptc_piece_time_t times[PTC_MAX_PIECES];
  ptc_part_range_t *ranges = PTC_ARENA_ARRAY(&scratch, ptc_part_range_t, parts);
  if (ptc_layout_pieces(work, &scratch, choice, stack->saves, &pieces) == PTC_OK) {
    ptc_predict_pieces(&pieces, cluster, stack, choice, times);
    if (ptc_predict_parts(&pieces, times, cluster, stack, choice, ranges)) {
      int64_t *cuts = PTC_ARENA_ARRAY(arena, int64_t, parts);
      for (int64_t p = 1; p < parts; p++) cuts[p - 1] = ranges[p].from;
      choice->cuts = cuts;
      choice->num_cuts = (int32_t)parts - 1;
    }
  }
  ptc_arena_deinit(&scratch);
}

void ptc_cuts_write(const ptc_work_t *work, const ptc_choice_t *choice, ptc_str_t *out) {
  for (int32_t c = 0; c < choice->num_cuts; c++) {
    int64_t begin = 0, turn = 0;
    int32_t repeat = 0;
    for (int32_t i = 0; i < work->num_pieces; i++) {
      const ptc_work_piece_t *piece = &work->pieces[i];
      if (!repeats(piece) || choice->cuts[c] <= begin) continue;
      repeat = piece->repeat;  // the last one with a turn before the cut
      turn = choice->cuts[c] - begin < piece->count ? choice->cuts[c] - begin : piece->count;
      begin += piece->count;
    }
    ptc_str_printf(out, "%s%" PRId32 ":%" PRId64, c > 0 ? "; " : "", repeat, turn);
  }
}

// The stage of global turn |turn|.
static int64_t stage_of(const ptc_choice_t *choice, int64_t turn) {
  int32_t part = 0;
  while (part < choice->num_cuts && choice->cuts[part] <= turn) part++;
  return part % choice->size[PTC_AXIS_PP];
}

void ptc_cuts_write_turns(const ptc_work_t *work, const ptc_choice_t *choice, ptc_str_t *out) {
  if (choice->recompute == PTC_RECOMPUTE_NONE || choice->recompute_turns < 0) return;
  int64_t begin = 0, left = 0;
  for (int32_t i = 0; i < work->num_pieces; i++) {
    const ptc_work_piece_t *piece = &work->pieces[i];
    if (!repeats(piece) && piece->repeat >= 0)  // a repeat of one turn
      ptc_str_printf(out, "%s%" PRId32 ":0-1", out->len ? "; " : "", piece->repeat);
    if (!repeats(piece)) continue;
    int32_t seen[PTC_MAX_STAGES] = {0};  // turns on each stage so far
    int64_t from = -1;                   // where the range at hand begins
    for (int64_t turn = 0; turn <= piece->count; turn++) {
      const bool again =
          turn < piece->count && seen[stage_of(choice, begin + turn)]++ < choice->recompute_turns;
      left += turn < piece->count && !again;
      if (again && from < 0) from = turn;
      if (!again && from >= 0)
        ptc_str_printf(out, "%s%" PRId32 ":%" PRId64 "-%" PRId64, out->len ? "; " : "",
                       piece->repeat, from, turn);
      if (!again) from = -1;
    }
    begin += piece->count;
  }
  if (left == 0) ptc_str_deinit(out);
}

// The global turn before which |cut| lies; -1: there is none.
static int64_t turn_of(const ptc_work_t *work, ptc_split_cut_t cut) {
  int64_t begin = 0;
  for (int32_t i = 0; i < work->num_pieces; i++) {
    const ptc_work_piece_t *piece = &work->pieces[i];
    if (!repeats(piece)) continue;
    if (piece->repeat == cut.repeat) return begin + cut.turn;
    begin += piece->count;
  }
  return -1;
}

int32_t ptc_cuts_read(const ptc_work_t *work, const ptc_module_t *module, ptc_arena_t *arena,
                      const int64_t **out_cuts) {
  const char *list = ptc_attrs_string(&module->config, "cut", "");
  const ptc_func_t *train = ptc_module_find_func(module, "train");
  int64_t *cuts = PTC_ARENA_ARRAY(arena, int64_t, PTC_SPLIT_MAX_PARTS);
  const int64_t turns = ptc_cuts_turns(work);
  int32_t count = 0;
  for (size_t len; *list; list += len + strspn(list + len, "; ")) {
    len = strcspn(list, "; ");
    ptc_split_cut_t cut;
    if (count == PTC_SPLIT_MAX_PARTS ||
        !ptc_split_find_cut(train, ptc_arena_strndup(arena, list, len), &cut))
      return -1;
    cuts[count] = turn_of(work, cut);
    if (cuts[count] <= (count > 0 ? cuts[count - 1] : 0) || cuts[count] >= turns) return -1;
    count++;
  }
  *out_cuts = cuts;
  return count > 0 ? count : -1;
}

void ptc_cuts_print(const ptc_work_t *work, const ptc_cluster_t *cluster,
                    const ptc_choice_t *choice, ptc_str_t *out) {
  const int64_t turns = ptc_cuts_turns(work);
  for (int32_t part = 0; part <= choice->num_cuts; part++) {
    const bool first = part == 0, last = part == choice->num_cuts;
    const ptc_part_range_t range = {first ? 0 : choice->cuts[part - 1],
                                    last ? turns : choice->cuts[part]};
    int64_t begin = 0;
    if (!first) ptc_str_append(out, " | ");
    for (int32_t i = 0, any = 0; i < work->num_pieces; i++) {
      const ptc_work_piece_t *piece = &work->pieces[i];
      const ptc_piece_t counted = {.count = piece->count};
      const int64_t here = ptc_part_has(&counted, begin, range, first, last);
      const int64_t from = range.from > begin ? range.from - begin : 0;
      if (here > 0 && any++) ptc_str_append(out, " ");
      if (here > 0) ptc_work_print_turns(piece, from, from + here - 1, out);
      if (repeats(piece)) begin += piece->count;
    }
    if (cluster->num_groups > 1)
      ptc_str_printf(
          out, " on %s",
          ptc_slices_device(cluster, choice, part % choice->size[PTC_AXIS_PP], work->precision)
              ->name);
  }
}
