// Warnings where common rules of thumb cost more than they seem to.
#ifndef PTC_PASSES_ADVICE_H_
#define PTC_PASSES_ADVICE_H_

#include "ir/module.h"
#include "passes/schedule.h"

// "Four micro-batches a stage leave a bubble below 15 %" fails for gpipe and 1f1b from four stages on (idle share
// (S - 1) / (m + S - 1), Narayanan et al. 2021, 2104.04473): "pipeline-bubble" where |num_micro| is that many and more is
// idle on equal stages, with what leaves less. Silent where schedule and micro-batches were open.
void ptc_advise_pipeline(const ptc_module_t *module, ptc_schedule_kind_t kind, int64_t num_stages,
                         int64_t num_chunks, int64_t num_micro);

// What recomputation every |period| of |turns| turns holds at most, where a turn starts from |carried| and saves |saved|
// bytes: all starts, and one period's saved values (Korthikanti et al. 2022, 2205.05198; Chen et al. 2016, 1604.06174).
double ptc_recompute_peak(int64_t turns, int64_t period, double carried, double saved);

// "A start every quarter of the layers" computes as much again as one at each turn, and holds more: "recompute-interval"
// where |period| holds a quarter more than the best one does. |loc|: the region's.
void ptc_advise_interval(const ptc_module_t *module, ptc_loc_t loc, int64_t turns, int64_t period,
                         double carried, double saved);

#endif  // PTC_PASSES_ADVICE_H_
