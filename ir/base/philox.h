// Random numbers that are functions of their place (DESIGN.md section 10): no state, no order.
#ifndef PTC_IR_BASE_PHILOX_H_
#define PTC_IR_BASE_PHILOX_H_

#include <stdint.h>

// Ten rounds on a block of four words, in place.
void ptc_philox_block(uint32_t counter[4], uint32_t key0, uint32_t key1);
// Philox 4x32-10 with 64-bit key |seed|; counter words
// {element / 4 low, high, step, path hash}; the lane is element % 4.
uint32_t ptc_philox(uint64_t seed, uint64_t element, uint32_t step, uint32_t path_hash);
// CRC-32 (as in zlib) of the path with its turns filled in.
uint32_t ptc_path_hash(const char *path, const int64_t *turns, int32_t num_turns);

#endif  // PTC_IR_BASE_PHILOX_H_
