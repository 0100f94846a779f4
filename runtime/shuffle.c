// A Feistel network over the smallest 2h bits that hold the count, its round function Philox; what falls
// outside of the count goes through again until it is inside ("cycle walking": Black and Rogaway 2002,
// "Ciphers with arbitrary finite domains", section 4), at most about four times on average. Twelve rounds, since few bits need
// more rounds than many to look even.
#include "runtime/shuffle.h"

#include "ir/base/philox.h"

enum { NUM_ROUNDS = 12 };

static uint32_t scramble(uint64_t seed, uint32_t word, uint32_t purpose, int64_t epoch) {
  uint32_t counter[4] = {word, purpose, (uint32_t)epoch, (uint32_t)((uint64_t)epoch >> 32)};
  ptc_philox_block(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
  return counter[0];
}

int64_t ptc_shuffle(uint64_t seed, int64_t epoch, int64_t count, int64_t index) {
  int half = 1;
  while (half < 32 && ((uint64_t)1 << (2 * half)) < (uint64_t)count) half++;
  const uint64_t mask = ((uint64_t)1 << half) - 1;
  uint64_t place = (uint64_t)index;
  do {
    uint64_t left = place >> half, right = place & mask;
    for (uint32_t round = 0; round < NUM_ROUNDS; round++) {
      uint64_t next = left ^ (scramble(seed, (uint32_t)right, round, epoch) & mask);
      left = right;
      right = next;
    }
    place = left << half | right;
  } while (place >= (uint64_t)count);
  return (int64_t)place;
}

int64_t ptc_shuffle_draw(uint64_t seed, int64_t epoch, int64_t stream, int64_t count) {
  // Purposes below NUM_ROUNDS belong to the permutation.
  uint64_t high = scramble(seed, (uint32_t)stream, NUM_ROUNDS, epoch);
  uint64_t low = scramble(seed, (uint32_t)stream, NUM_ROUNDS + 1, epoch);
  return (int64_t)((high << 32 | low) % (uint64_t)count);
}
