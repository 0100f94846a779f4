#include "frontend/driver/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "frontend/driver/units.h"
#include "ir/base/clock.h"
#include "runtime/cpu/memory_map.h"

static const double terminal_interval = 0.1, plain_interval = 5;
static const int64_t noticed_bytes = 256 << 20;

void ptc_progress_init(ptc_progress_t *progress, bool quiet, int64_t first_step, int64_t num_steps,
                       int64_t tokens_per_step) {
  const double now = ptc_now_s();
  *progress = (ptc_progress_t){.quiet = quiet,
                               .terminal = isatty(STDERR_FILENO),
                               .first_step = first_step,
                               .num_steps = num_steps,
                               .tokens_per_step = tokens_per_step,
                               .begin = now,
                               .shown_at = now,
                               .shown_step = first_step};
}

static void show(ptc_progress_t *progress, const char *line, bool last) {
  if (!progress->terminal) {
    fprintf(stderr, "%s\n", line);
    return;
  }
  struct winsize size;
  int width = 120;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10) width = size.ws_col - 1;
  fprintf(stderr, "\r\033[K%.*s%s", width, line, last ? "\n" : "");
  progress->line_is_open = !last;
}

void ptc_progress_memory(bool quiet, int64_t bytes) {
  if (quiet || bytes < noticed_bytes) return;
  char text[PTC_UNIT_CHARS];
  const bool terminal = isatty(STDERR_FILENO);
  fprintf(stderr, "%staking %s of memory%s", terminal ? "\r\033[K" : "",
          ptc_unit_bytes(bytes, text), terminal ? "" : "\n");
}

void ptc_progress_step(ptc_progress_t *progress, int64_t num_done, double loss, bool force) {
  const double now = ptc_now_s(),
               interval = progress->terminal ? terminal_interval : plain_interval;
  const bool last = force || num_done == progress->num_steps;
  const bool first = num_done == progress->first_step + 1;
  if (!last && !first && now - progress->shown_at < interval) return;
  const int64_t steps = num_done - progress->shown_step;
  if (steps > 0) {
    const double rate =
        (double)(steps * progress->tokens_per_step) / fmax(now - progress->shown_at, 1e-9);
    // A running mean: single steps are noisy.
    progress->tokens_per_s =
        progress->tokens_per_s > 0 ? 0.7 * progress->tokens_per_s + 0.3 * rate : rate;
  }
  progress->shown_at = now;
  progress->shown_step = num_done;
  if (progress->quiet) return;
  char rate[PTC_UNIT_CHARS], memory[PTC_UNIT_CHARS], left[PTC_UNIT_CHARS], line[240];
  const double elapsed = now - progress->begin,
               per_step = elapsed / fmax((double)(num_done - progress->first_step), 1);
  snprintf(
      line, sizeof line,
      "step %" PRId64 "/%" PRId64 "  loss %.4f  %s tokens/s  %.3g s/step  %s  %s %s", num_done,
      progress->num_steps, loss, ptc_unit_count(progress->tokens_per_s, rate), per_step,
      ptc_unit_bytes(ptc_memory_resident(), memory), last ? "in" : "left",
      ptc_unit_time(last ? elapsed : per_step * (double)(progress->num_steps - num_done), left));
  show(progress, line, last);
}

void ptc_progress_break(ptc_progress_t *progress) {
  if (progress->line_is_open) fputc('\n', stderr);
  progress->line_is_open = false;
}
