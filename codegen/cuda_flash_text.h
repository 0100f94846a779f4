// CUDA text that the forward kernel and the gradient by blocks of rows (cuda_flash_forward.c, cuda_flash_grad.c) share.
#ifndef PTC_CODEGEN_CUDA_FLASH_TEXT_H_
#define PTC_CODEGEN_CUDA_FLASH_TEXT_H_

// Which rows a block of threads has, after SPLIT, OWN_ROWS and PART.
#define PTC_FLASH_ROWS_TEXT                                                                   \
  "  const int group = warp / SPLIT, part = warp % SPLIT * PART;\n"                           \
  "  const int tiles = (ROWS + OWN_ROWS - 1) / OWN_ROWS;\n"                                   \
  "  // The last rows see most under a causal mask: they start first.\n"                      \
  "  const int o = blockIdx.x / tiles, row0 = (tiles - 1 - blockIdx.x % tiles) * OWN_ROWS;\n" \
  "  const int row1 = least(row0 + OWN_ROWS, ROWS);\n"                                        \
  "  const int rows[2] = {row0 + 16 * group + g, row0 + 16 * group + g + 8};\n"

// Opens the loop over the blocks of keys that these rows see: |tk| and |tv| are in shared memory, the next are on their way.
#define PTC_FLASH_KEYS_TEXT                                                       \
  "  int block = next_keys(call, o, row0, row1, 0), stage = 0;\n"                 \
  "  if (block < KEY_BLOCKS) {\n"                                                 \
  "    k_fill(call, stages[0], o, block * OTHERS);\n"                             \
  "    v_fill(call, stages[0] + OTHERS * DOT_LD, o, block * OTHERS);\n"           \
  "  }\n"                                                                         \
  "  commit();\n"                                                                 \
  "  while (block < KEY_BLOCKS) {\n"                                              \
  "    const int after = next_keys(call, o, row0, row1, block + 1);\n"            \
  "    wait0();\n"                                                                \
  "    __syncthreads();\n"                                                        \
  "    if (after < KEY_BLOCKS) {\n"                                               \
  "      k_fill(call, stages[stage ^ 1], o, after * OTHERS);\n"                   \
  "      v_fill(call, stages[stage ^ 1] + OTHERS * DOT_LD, o, after * OTHERS);\n" \
  "    }\n"                                                                       \
  "    commit();\n"                                                               \
  "    const uint16_t *tk = stages[stage], *tv = tk + OTHERS * DOT_LD;\n"         \
  "    const int key0 = block * OTHERS;\n"

#endif  // PTC_CODEGEN_CUDA_FLASH_TEXT_H_
