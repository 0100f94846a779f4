// Orders without a table: a permutation that is computed place by place.
#ifndef PTC_RUNTIME_SHUFFLE_H_
#define PTC_RUNTIME_SHUFFLE_H_

#include <stdint.h>

// Where |index| goes in a permutation of [0, count) that |seed| and |epoch| choose. index < count.
int64_t ptc_shuffle(uint64_t seed, int64_t epoch, int64_t count, int64_t index);
// A number in [0, count), count >= 1, that |seed|, |epoch| and |stream| choose.
int64_t ptc_shuffle_draw(uint64_t seed, int64_t epoch, int64_t stream, int64_t count);

#endif  // PTC_RUNTIME_SHUFFLE_H_
