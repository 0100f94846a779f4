#include "tests/support/comm_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cell.h"
#include "tests/support/unit.h"

enum { GUARD = 64 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool adds(ptc_collective_kind_t kind) {
  return kind == PTC_COLLECTIVE_ALL_REDUCE || kind == PTC_COLLECTIVE_REDUCE_SCATTER;
}

// --- making one

static int64_t pick(uint64_t *state, int64_t count) {
  return (int64_t)(unit_random(state) % (uint64_t)count);
}

static void make_part(comm_case_t *test, uint64_t *state, int32_t p) {
  comm_tensor_t *t = &test->tensors[p];
  ptc_collective_part_t *part = &test->parts[p];
  const int64_t elem = ptc_dtype_bytes(test->collective.dtype), n = test->size;
  *t = (comm_tensor_t){.outer = 1 + pick(state, 4), .middle = 1 + pick(state, 3)};
  // Seldom one that takes several windows of a stage.
  static const int64_t inners[] = {1, 1, 2, 3, 7, 50, 20000};
  t->inner = inners[pick(state, 100) == 0 ? 6 : pick(state, 6)];
  for (int i = 0; i < 2; i++) t->extents[i] = 1 + pick(state, 3 * n);
  t->from = (int32_t)pick(state, 2);
  const int64_t first = ceil_div(t->extents[0], n), second = ceil_div(t->extents[1], n);
  const int64_t inner = t->inner * elem;
  const ptc_pieces_t split = {t->outer, first * inner, t->extents[0] * inner};
  const ptc_pieces_t whole = {1, t->outer * first * inner, t->outer * first * inner};
  switch (test->collective.kind) {
    case PTC_COLLECTIVE_ALL_GATHER:
      if (test->in_place) t->outer = 1;
      part->in = (ptc_pieces_t){1, t->outer * first * inner, t->outer * first * inner};
      part->out = (ptc_pieces_t){t->outer, first * inner, t->extents[0] * inner};
      break;
    case PTC_COLLECTIVE_REDUCE_SCATTER:
      part->in = split;
      part->out = whole;
      break;
    case PTC_COLLECTIVE_RING_SHIFT:
    case PTC_COLLECTIVE_ALL_REDUCE: {
      const int64_t bytes = pick(state, 8) == 0 ? 0 : t->outer * t->extents[0] * inner;
      part->in = part->out = (ptc_pieces_t){1, bytes, bytes};
      break;
    }
    default: {
      // A member's stream is [outer][first][middle][second][inner] with both dims' chunks: those of the first dim hold
      // whole ones of the second.
      const ptc_pieces_t large = {t->outer, first * t->middle * second * inner,
                                  t->extents[0] * t->middle * second * inner};
      const ptc_pieces_t small = {t->outer * first * t->middle, second * inner,
                                  t->extents[1] * inner};
      part->in = t->from == 0 ? small : large;
      part->out = t->from == 0 ? large : small;
    }
  }
}

void comm_case_random(comm_case_t *test, uint64_t seed, int32_t size) {
  uint64_t state = seed;
  *test = (comm_case_t){.seed = seed, .size = size};
  ptc_collective_t *c = &test->collective;
  c->kind = (ptc_collective_kind_t)pick(&state, PTC_NUM_COLLECTIVES);
  c->reduce = adds(c->kind) ? (ptc_reduce_kind_t)pick(&state, 2) : PTC_REDUCE_SUM;
  c->dtype = (ptc_dtype_t)pick(&state, PTC_NUM_DTYPES);
  c->num_parts = 1 + (int32_t)pick(&state, COMM_CASE_MAX_PARTS);
  test->in_place = pick(&state, 2) == 0 &&
                   (c->kind == PTC_COLLECTIVE_ALL_REDUCE || c->kind == PTC_COLLECTIVE_ALL_GATHER);
  for (int32_t p = 0; p < c->num_parts; p++) make_part(test, &state, p);
}

// --- what is in it

// Element |index| of the operand of member |g|: small numbers, sometimes special ones.
static void put_element(const comm_case_t *test, int32_t part, int32_t g, int64_t index, void *to) {
  uint64_t state =
      test->seed + (uint64_t)part * 1000003 + (uint64_t)g * 7919 + (uint64_t)index * 31;
  const uint64_t bits = unit_random(&state);
  const ptc_dtype_t dtype = test->collective.dtype;
  if (dtype == PTC_I64) {
    memcpy(to, &bits, sizeof bits);  // sums wrap
    return;
  }
  double value = ((double)(bits >> 11) / 9007199254740992.0 - 0.5) * 6;
  if (dtype == PTC_I32) value = (double)(int32_t)bits;
  if (dtype == PTC_BOOL) value = (double)(bits & 1);
  if (ptc_dtype_is_float(dtype) && bits % 251 == 0) {
    static const double special[] = {0.0 / 0.0, 1e300 * 1e300, -1e300 * 1e300, 6e-6, 65000, 0};
    value = special[bits / 251 % 6];
  }
  ptc_cell_put(dtype, value, to);
}

typedef union cell_u {
  uint8_t b;
  int32_t i32;
  int64_t i64;
  uint16_t half;
  float f32;
  double f64;
} cell_t;

static bool beats(double a, double b) { return a != a ? false : b > a || b != b; }

// The sum or maximum of an element over all members, in their order.
static void expect_sum(const comm_case_t *test, int32_t part, int64_t index, void *to) {
  const ptc_dtype_t dtype = test->collective.dtype;
  const bool max = test->collective.reduce == PTC_REDUCE_MAX;
  const ptc_cell_t cell = ptc_cell_of_dtype(dtype);
  cell_t x;
  float f32 = 0;
  double f64 = 0;
  uint64_t u64 = 0;
  for (int32_t g = 0; g < test->size; g++) {
    put_element(test, part, g, index, &x);
    if (dtype == PTC_I32 || dtype == PTC_I64 || dtype == PTC_BOOL) {
      const int64_t value = dtype == PTC_I32 ? x.i32 : dtype == PTC_I64 ? x.i64 : x.b;
      if (g == 0 || (max && value > (int64_t)u64))
        u64 = (uint64_t)value;
      else if (!max)
        u64 = dtype == PTC_BOOL ? (u64 | (uint64_t)value) : u64 + (uint64_t)value;
    } else {
      const double value = ptc_cell_get(cell, &x);
      f64 = g == 0 ? value : max ? (beats(f64, value) ? value : f64) : f64 + value;
      f32 = g == 0 ? (float)value
            : max  ? (beats((double)f32, value) ? (float)value : f32)
                   : f32 + (float)value;
    }
  }
  if (dtype == PTC_I32) memcpy(to, &(uint32_t){(uint32_t)u64}, 4);
  if (dtype == PTC_I64) memcpy(to, &u64, 8);
  if (dtype == PTC_BOOL) memcpy(to, &(uint8_t){(uint8_t)u64}, 1);
  if (dtype == PTC_F64) memcpy(to, &f64, 8);
  if (dtype == PTC_F32) memcpy(to, &f32, 4);
  if (dtype == PTC_F16 || dtype == PTC_BF16) ptc_cell_put(dtype, (double)f32, to);
}

// Bytes of the arrays of a member.
static int64_t array_bytes(const ptc_pieces_t *pieces) { return pieces->outer * pieces->row; }

// --- the definition: the element of the result at |index|, or false if nothing is written there

typedef struct source_s {
  int32_t member;
  int64_t index;  // in its operand
} source_t;

static bool find_gathered(const comm_case_t *test, const comm_tensor_t *t, int64_t index,
                          source_t *out) {
  const int64_t first = ceil_div(t->extents[0], test->size);
  const int64_t inner = index % t->inner, row = index / t->inner % t->extents[0];
  const int64_t outer = index / t->inner / t->extents[0];
  out->member = (int32_t)(row / first);
  out->index = (outer * first + row % first) * t->inner + inner;
  return true;
}

// |*out_index|: in everybody's operand.
static bool find_scattered(const comm_case_t *test, const comm_tensor_t *t, int32_t me,
                           int64_t index, int64_t *out_index) {
  const int64_t first = ceil_div(t->extents[0], test->size);
  const int64_t inner = index % t->inner, row = index / t->inner % first + me * first;
  const int64_t outer = index / t->inner / first;
  *out_index = (outer * t->extents[0] + row) * t->inner + inner;
  return row < t->extents[0];
}

static bool find_exchanged(const comm_case_t *test, const comm_tensor_t *t, int32_t me,
                           int64_t index, source_t *out) {
  int64_t chunk[2], out_extents[2], in_extents[2];
  for (int i = 0; i < 2; i++) {
    chunk[i] = ceil_div(t->extents[i], test->size);
    // The result has |from| whole, the operand |to|.
    out_extents[i] = i == t->from ? t->extents[i] : chunk[i];
    in_extents[i] = i == t->from ? chunk[i] : t->extents[i];
  }
  const int64_t inner = index % t->inner;
  index /= t->inner;
  int64_t at[2];
  at[1] = index % out_extents[1];
  index /= out_extents[1];
  const int64_t middle = index % t->middle;
  index /= t->middle;
  at[0] = index % out_extents[0];
  const int64_t outer = index / out_extents[0];
  const int to = 1 - t->from;
  at[to] += me * chunk[to];
  if (at[to] >= t->extents[to]) return false;
  out->member = (int32_t)(at[t->from] / chunk[t->from]);
  at[t->from] %= chunk[t->from];
  out->index =
      (((outer * in_extents[0] + at[0]) * t->middle + middle) * in_extents[1] + at[1]) * t->inner +
      inner;
  return true;
}

// --- running it

typedef struct arrays_s {
  unsigned char *memory[2 * COMM_CASE_MAX_PARTS];
  void *args[2 * COMM_CASE_MAX_PARTS];
  int64_t bytes[2 * COMM_CASE_MAX_PARTS];
} arrays_t;

static int64_t num_in_bytes(const comm_case_t *test, int32_t p) {
  return array_bytes(&test->parts[p].in);
}

static void *host_alloc(void *arg, size_t bytes) {
  (void)arg;
  return malloc(bytes);
}

static void host_free(void *arg, void *memory) {
  (void)arg;
  free(memory);
}

static ptc_status_t host_finish(void *arg, ptc_diag_t *diag) {
  (void)arg;
  (void)diag;
  return PTC_OK;
}

static void make_arrays(const comm_case_t *test, int32_t me, const comm_memory_t *memory,
                        arrays_t *arrays) {
  const int64_t elem = ptc_dtype_bytes(test->collective.dtype);
  for (int32_t p = 0; p < test->collective.num_parts; p++) {
    const int64_t bytes[2] = {num_in_bytes(test, p), array_bytes(&test->parts[p].out)};
    for (int i = 0; i < 2; i++) {
      // A chunk in its own place may reach beyond a row that ends before it.
      arrays->bytes[2 * p + i] = bytes[i];
      const size_t room = (size_t)(bytes[i] + bytes[0] + 2 * GUARD);
      arrays->memory[2 * p + i] = memory->alloc(memory->arg, room);
      memset(arrays->memory[2 * p + i], 0xa5, room);
      arrays->args[2 * p + i] = arrays->memory[2 * p + i] + GUARD;
    }
    if (test->in_place && test->collective.kind == PTC_COLLECTIVE_ALL_REDUCE)
      arrays->args[2 * p] = arrays->args[2 * p + 1];
    if (test->in_place && test->collective.kind == PTC_COLLECTIVE_ALL_GATHER &&
        (me + 1) * bytes[0] <= bytes[1])
      arrays->args[2 * p] = (char *)arrays->args[2 * p + 1] + me * bytes[0];
    for (int64_t e = 0; e < bytes[0] / elem; e++)
      put_element(test, p, me, e, (char *)arrays->args[2 * p] + e * elem);
  }
}

// Compares part |p|'s result; |*bytes_read| grows by what comes from others.
static int64_t count_wrong(const comm_case_t *test, int32_t me, const arrays_t *arrays, int32_t p,
                           int64_t *bytes_read) {
  const int64_t elem = ptc_dtype_bytes(test->collective.dtype);
  const comm_tensor_t *t = &test->tensors[p];
  const unsigned char *result = arrays->args[2 * p + 1];
  const int64_t count = arrays->bytes[2 * p + 1] / elem;
  const int64_t slice = ceil_div(count, test->size);
  int64_t num_wrong = 0;
  for (int64_t e = 0; e < count; e++) {
    cell_t expected;
    memset(&expected, 0xa5, sizeof expected);
    source_t source = {.member = me};
    int64_t index = e;
    switch (test->collective.kind) {
      case PTC_COLLECTIVE_ALL_REDUCE:
        expect_sum(test, p, e, &expected);
        *bytes_read += e / slice == me ? (test->size - 1) * elem : elem;
        break;
      case PTC_COLLECTIVE_REDUCE_SCATTER:
        if (!find_scattered(test, t, me, e, &index)) break;
        expect_sum(test, p, index, &expected);
        *bytes_read += (test->size - 1) * elem;
        break;
      case PTC_COLLECTIVE_RING_SHIFT:
        source.member = (me + test->size - 1) % test->size;
        put_element(test, p, source.member, e, &expected);
        break;
      case PTC_COLLECTIVE_ALL_GATHER:
        find_gathered(test, t, e, &source);
        put_element(test, p, source.member, source.index, &expected);
        break;
      default:
        if (find_exchanged(test, t, me, e, &source))
          put_element(test, p, source.member, source.index, &expected);
    }
    if (source.member != me) *bytes_read += elem;
    // One NaN is like another.
    const bool is_float = ptc_dtype_is_float(test->collective.dtype);
    const ptc_cell_t cell = ptc_cell_of_dtype(test->collective.dtype);
    if (adds(test->collective.kind) && is_float && isnan(ptc_cell_get(cell, &expected)) &&
        isnan(ptc_cell_get(cell, result + e * elem)))
      continue;
    num_wrong += memcmp(&expected, result + e * elem, (size_t)elem) != 0;
  }
  for (int64_t i = 1; i <= GUARD; i++) num_wrong += result[-i] != 0xa5;
  for (int64_t i = 0; i < GUARD; i++) num_wrong += result[arrays->bytes[2 * p + 1] + i] != 0xa5;
  return num_wrong;
}

int64_t comm_case_run(const comm_case_t *test, ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                      int32_t me, const comm_memory_t *memory) {
  static const comm_memory_t host = {host_alloc, host_free, host_finish, NULL};
  if (!memory) memory = &host;
  arrays_t arrays = {0};
  make_arrays(test, me, memory, &arrays);
  ptc_collective_t collective = test->collective;
  collective.parts = (ptc_collective_part_t *)test->parts;
  const int64_t before = ptc_comm_bytes(comm, group, collective.kind);
  int64_t num_wrong = ptc_comm_collective(comm, diag, group, &collective, arrays.args) != PTC_OK;
  num_wrong += memory->finish(memory->arg, diag) != PTC_OK;
  int64_t bytes_read = 0;
  for (int32_t p = 0; p < collective.num_parts; p++)
    if (num_wrong == 0) num_wrong += count_wrong(test, me, &arrays, p, &bytes_read);
  num_wrong += ptc_comm_bytes(comm, group, collective.kind) - before != bytes_read;
  for (int32_t i = 0; i < 2 * collective.num_parts; i++)
    memory->free(memory->arg, arrays.memory[i]);
  return num_wrong;
}

int32_t comm_partition(uint64_t seed, int32_t world, int32_t rank, int32_t *out_ranks,
                       int32_t *out_number) {
  uint64_t state = seed;
  int32_t order[COMM_PARTITION_MAX];
  for (int32_t i = 0; i < world; i++) {
    const int32_t j = (int32_t)(unit_random(&state) % (uint64_t)(i + 1));
    order[i] = order[j];
    order[j] = i;
  }
  for (int32_t start = 0, number = 0; start < world; number++) {
    const int32_t count = 1 + (int32_t)(unit_random(&state) % (uint64_t)(world - start));
    for (int32_t i = start; i < start + count; i++) {
      if (order[i] != rank) continue;
      memcpy(out_ranks, order + start, (size_t)count * sizeof *order);
      *out_number = number;
      return count;
    }
    start += count;
  }
  return 0;
}
