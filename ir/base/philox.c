#include "ir/base/philox.h"

#include <zlib.h>

#include "ir/base/str.h"

// Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3": multipliers and Weyl steps of
// Philox 4x32.
static const uint32_t PHILOX_M0 = 0xD2511F53u, PHILOX_M1 = 0xCD9E8D57u;
static const uint32_t PHILOX_W0 = 0x9E3779B9u, PHILOX_W1 = 0xBB67AE85u;

void ptc_philox_block(uint32_t counter[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)PHILOX_M0 * counter[0], p1 = (uint64_t)PHILOX_M1 * counter[2];
    counter[0] = (uint32_t)(p1 >> 32) ^ counter[1] ^ key0;
    counter[2] = (uint32_t)(p0 >> 32) ^ counter[3] ^ key1;
    counter[1] = (uint32_t)p1;
    counter[3] = (uint32_t)p0;
    key0 += PHILOX_W0;
    key1 += PHILOX_W1;
  }
}

uint32_t ptc_philox(uint64_t seed, uint64_t element, uint32_t step, uint32_t path_hash) {
  uint64_t block = element / 4;
  uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), step, path_hash};
  ptc_philox_block(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
  return counter[element % 4];
}

uint32_t ptc_path_hash(const char *path, const int64_t *turns, int32_t num_turns) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "");
  int32_t star = 0;
  for (const char *c = path; *c; c++) {
    if (*c == '*' && star < num_turns)
      ptc_str_printf(&text, "%lld", (long long)turns[star++]);
    else
      ptc_str_append_n(&text, c, 1);
  }
  uint32_t hash = (uint32_t)crc32(0, (const Bytef *)text.data, (uInt)text.len);
  ptc_str_deinit(&text);
  return hash;
}
