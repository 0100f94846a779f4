// What stage0.steps says of what a task owes, written and read.
#include <inttypes.h>

#include "ir/plan_text_impl.h"

enum { PER_LINE = 8, HEX_DIGITS = 16 };

#define FAULT(id, ...) ptc_error(r->diag, ptc_scan_here(r), PTC_INVALID_INPUT, (id), __VA_ARGS__)

void ptc_plan_print_ledger(const ptc_plan_t *plan, const ptc_task_t *task, ptc_str_t *out) {
  const ptc_ledger_t *ledger = task->ledger;
  ptc_str_printf(out, "  owes exchanges %" PRId64 " transfers %" PRId64, ledger->num_exchanged,
                 ledger->num_transfers);
  for (int32_t i = 0; i < ledger->num_launches; ++i)
    ptc_str_printf(out, "%s%s*%" PRId64, i % PER_LINE ? " " : "\n    launches ",
                   plan->kernels[ledger->launches[i].kernel].name, ledger->launches[i].count);
  for (int32_t i = 0; i < ledger->num_made; ++i) {
    const ptc_made_t *made = &ledger->made[i];
    ptc_str_printf(out, "\n    %s %" PRId32 " %016" PRIx64 "  # ",
                   made->is_result ? "result" : "global", made->number, made->digest);
    ptc_str_append_name(
        out, made->is_result ? task->results[made->number].name : plan->globals[made->number].path);
  }
  if (ledger->sent) ptc_str_printf(out, "\n    sent %016" PRIx64, ledger->sent);
  ptc_str_append(out, "\n  end\n");
}

// Sixteen hexadecimal digits.
static ptc_status_t read_digest(ptc_plan_reader_t *r, uint64_t *out) {
  const char *word;
  PTC_TRY(ptc_scan_word(r, &word));
  *out = 0;
  int32_t n = 0;
  for (; word[n]; ++n) {
    const char c = word[n];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0 || n == HEX_DIGITS) return FAULT("plan-text", "\"%s\" is no digest", word);
    *out = *out << 4 | (uint64_t)digit;
  }
  return n == HEX_DIGITS ? PTC_OK : FAULT("plan-text", "\"%s\" is no digest", word);
}

// A line of KERNEL*COUNT.
static ptc_status_t read_launches(ptc_plan_reader_t *r, ptc_ledger_t *ledger, int32_t *capacity) {
  while (!ptc_scan_at_line_end(r)) {
    ptc_launches_t launches;
    PTC_TRY(ptc_plan_read_kernel_name(r, &launches.kernel));
    PTC_TRY(ptc_scan_expect_char(r, '*'));
    PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, &launches.count));
    ptc_plan_grow(r->arena, &ledger->launches, sizeof launches, ledger->num_launches, capacity);
    ledger->launches[ledger->num_launches++] = launches;
  }
  return PTC_OK;
}

static ptc_status_t read_lines(ptc_plan_reader_t *r, ptc_ledger_t *ledger) {
  int32_t cap_launches = 0, cap_made = 0;
  for (ptc_scan_skip_lines(r); !ptc_scan_take_word(r, "end"); ptc_scan_skip_lines(r)) {
    ptc_made_t made = {.is_result = ptc_scan_take_word(r, "result")};
    if (!made.is_result && ptc_scan_take_word(r, "launches")) {
      PTC_TRY(read_launches(r, ledger, &cap_launches));
    } else if (!made.is_result && ptc_scan_take_word(r, "sent")) {
      PTC_TRY(read_digest(r, &ledger->sent));
    } else {
      if (!made.is_result) PTC_TRY(ptc_scan_expect_word(r, "global"));
      PTC_TRY(ptc_scan_int32(r, &made.number));
      ptc_scan_skip_blanks(r);
      PTC_TRY(read_digest(r, &made.digest));
      ptc_plan_grow(r->arena, &ledger->made, sizeof made, ledger->num_made, &cap_made);
      ledger->made[ledger->num_made++] = made;
    }
    PTC_TRY(ptc_scan_expect_line_end(r));
  }
  return PTC_OK;
}

ptc_status_t ptc_plan_read_ledger(ptc_plan_reader_t *r, ptc_task_t *task) {
  ptc_scan_skip_lines(r);
  if (!ptc_scan_take_word(r, "owes")) return PTC_OK;
  ptc_ledger_t *ledger = PTC_ARENA_NEW(r->arena, ptc_ledger_t);
  ledger->line = r->line;
  PTC_TRY(ptc_scan_expect_word(r, "exchanges"));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &ledger->num_exchanged));
  PTC_TRY(ptc_scan_expect_word(r, "transfers"));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &ledger->num_transfers));
  PTC_TRY(ptc_scan_expect_line_end(r));
  PTC_TRY(read_lines(r, ledger));
  PTC_TRY(ptc_scan_expect_line_end(r));
  task->ledger = ledger;
  return PTC_OK;
}
