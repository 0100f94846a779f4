// Closed forms of what a case takes and sends, from the sizes of its model: conformance to the known formulas of data
// parallelism, ZeRO and pipelines, to the byte.
#ifndef PTC_TESTS_SUPPORT_COVER_FORMS_H_
#define PTC_TESTS_SUPPORT_COVER_FORMS_H_

#include "tests/support/cover_design.h"
#include "tests/support/rank_plans.h"

// Each compares |plans|, the case's, with a form; |one| is the plan of one rank, which knows the whole parameters. False
// if they differ, with a line on stdout.

// The arena ends where its last instance does.
bool cover_check_arena(const rank_plans_t *plans);
// Parameters and moments (f32): every instance takes what its shards over tp leave it, and with ZeRO one part of N of
// that, on the first dim that N divides, else on the first that has 4 elements for each, rounded up.
bool cover_check_states(const cover_case_t *c, const ptc_plan_t *one, const rank_plans_t *plans);
// Of cases without tp, cp, pp: values kept from the forward pass of a layer for its gradient (recompute none; full: none).
// |out_checked|: whether the case is such a one.
bool cover_check_saved(const cover_case_t *c, const rank_plans_t *plans, bool *out_checked);
// Of cases with dp alone: bytes that each rank reads from its peers in a step, by kind: 2 (N - 1) / N of the
// parameters' bytes in an all_reduce or a reduce_scatter and an all_gather, 3 (N - 1) / N with ZeRO 3, for each
// micro-batch where ZeRO says so; and those of pipelines without tp: 2 b s d bytes per boundary and micro-batch, and with
// ZeRO 3 the tied weight.
bool cover_check_volume(const cover_case_t *c, const ptc_plan_t *one, const rank_plans_t *plans,
                        bool *out_checked);

#endif  // PTC_TESTS_SUPPORT_COVER_FORMS_H_
