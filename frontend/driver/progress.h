// The line on stderr that says how a run is going: rewritten in place on a terminal, else a line every few
// seconds.
#ifndef PTC_FRONTEND_DRIVER_PROGRESS_H_
#define PTC_FRONTEND_DRIVER_PROGRESS_H_

#include <stdbool.h>
#include <stdint.h>

typedef struct ptc_progress_s {
  bool quiet, terminal;
  bool line_is_open;  // on a terminal: the line is not ended
  int64_t first_step, num_steps, tokens_per_step;
  double begin, shown_at;
  int64_t shown_step;
  double tokens_per_s;  // lately
} ptc_progress_t;

// Steps [first_step, num_steps) are to come.
void ptc_progress_init(ptc_progress_t *progress, bool quiet, int64_t first_step, int64_t num_steps,
                       int64_t tokens_per_step);
// |num_done| of all steps are done; |loss| is that of the last one. Shows it if it is time, or |force|.
void ptc_progress_step(ptc_progress_t *progress, int64_t num_done, double loss, bool force);
// Ends the open line, so that other text can follow.
void ptc_progress_break(ptc_progress_t *progress);

// Says "taking 2.31 GiB of memory" before that is done; of little nobody would notice, nothing.
void ptc_progress_memory(bool quiet, int64_t bytes);

#endif  // PTC_FRONTEND_DRIVER_PROGRESS_H_
