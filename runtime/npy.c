// The format: "\x93NUMPY", version (2 bytes), length of the header (2 bytes; 4 from version 2), the header,
// the data. The header is a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// (numpy.lib.format).
#include "runtime/npy.h"

#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, VERSION_BYTES = 2 };

bool ptc_npy_is(const unsigned char *bytes, int64_t num_bytes) {
  return num_bytes >= MAGIC_BYTES && memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

// --- the header's text

typedef struct cursor_s {
  const char *at, *end;
} cursor_t;

static void skip_space(cursor_t *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}

static bool take(cursor_t *c, char wanted) {
  skip_space(c);
  if (c->at == c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}

static bool take_word(cursor_t *c, const char *word) {
  skip_space(c);
  size_t len = strlen(word);
  if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0) return false;
  c->at += len;
  return true;
}

// A string in quotes of either kind, without escapes, into |out|. False also if it is too long.
static bool take_string(cursor_t *c, char *out, size_t size) {
  skip_space(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
  const char quote = *c->at++;
  size_t len = 0;
  for (; c->at < c->end && *c->at != quote; c->at++) {
    if (*c->at == '\\' || len + 1 == size) return false;
    out[len++] = *c->at;
  }
  out[len] = '\0';
  return c->at < c->end && *c->at++ == quote;
}

static bool take_int(cursor_t *c, int64_t *out) {
  skip_space(c);
  const char *first = c->at;
  *out = 0;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *c->at - '0', out))
      return false;
  if (c->at < c->end && *c->at == 'L') c->at++;  // as Python 2 wrote it
  return c->at > first;
}

// --- its members; each gives NULL, or what is wrong

static const char *read_descr(cursor_t *c, ptc_npy_t *npy) {
  static const struct {
    const char *name;
    ptc_cell_t cell;
  } kinds[] = {{"f8", PTC_CELL_F64}, {"f4", PTC_CELL_F32}, {"f2", PTC_CELL_F16},
               {"i8", PTC_CELL_I64}, {"i4", PTC_CELL_I32}, {"i2", PTC_CELL_I16},
               {"i1", PTC_CELL_I8},  {"u4", PTC_CELL_U32}, {"u2", PTC_CELL_U16},
               {"u1", PTC_CELL_U8},  {"b1", PTC_CELL_BOOL}};
  char text[16];
  if (!take_string(c, text, sizeof(text))) return "its numbers are of no simple type";
  if (text[0] == '>' && text[2] != '1') return "its numbers are big-endian; save them as '<'";
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (!text[0] || !strchr("<>=|", text[0]) || strcmp(text + 1, kinds[i].name) != 0) continue;
    npy->cell = kinds[i].cell;
    return NULL;
  }
  return "its numbers are of none of the types f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 b1";
}

static const char *read_shape(cursor_t *c, ptc_npy_t *npy) {
  if (!take(c, '(')) return "it has no shape";
  npy->num_elements = 1;
  while (!take(c, ')')) {
    int64_t extent;
    if (npy->num_dims == PTC_MAX_DIMS) return "it has more than 16 dims";
    if (!take_int(c, &extent) ||
        __builtin_mul_overflow(npy->num_elements, extent, &npy->num_elements))
      return "a shape of impossible extents";
    npy->shape[npy->num_dims++] = extent;
    skip_space(c);
    if (!take(c, ',') && (c->at == c->end || *c->at != ')')) return "its shape does not end";
  }
  return NULL;
}

static const char *read_members(cursor_t *c, ptc_npy_t *npy) {
  enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
  int seen = 0;
  if (!take(c, '{')) return "its header is no dict";
  while (!take(c, '}')) {
    char key[24];
    const char *what = NULL;
    if (!take_string(c, key, sizeof(key)) || !take(c, ':')) return "its header is broken";
    int member = strcmp(key, "descr") == 0           ? DESCR
                 : strcmp(key, "fortran_order") == 0 ? ORDER
                 : strcmp(key, "shape") == 0         ? SHAPE
                                                     : 0;
    if (!member || (seen & member)) return "its header has a member too many";
    seen |= member;
    if (member == DESCR) what = read_descr(c, npy);
    if (member == SHAPE) what = read_shape(c, npy);
    if (member == ORDER && !take_word(c, "False"))
      what = "it is in Fortran order; save it in C order";
    if (what) return what;
    if (!take(c, ',') && (c->at == c->end || *c->at != '}')) return "its header is broken";
  }
  skip_space(c);
  if (c->at != c->end) return "its header is broken";
  return seen == (DESCR | ORDER | SHAPE) ? NULL : "its header lacks descr, fortran_order or shape";
}

// NULL, or what is wrong.
static const char *read_file(const unsigned char *bytes, int64_t num_bytes, ptc_npy_t *npy) {
  if (!ptc_npy_is(bytes, num_bytes)) return "it does not begin as a .npy file";
  int64_t at = MAGIC_BYTES + VERSION_BYTES;
  if (num_bytes < at) return "it ends in its header";
  const int version = bytes[MAGIC_BYTES], width = version == 1 ? 2 : 4;
  if (version < 1 || version > 3) return "it is of a format version above 3";
  uint32_t len = 0;
  if (num_bytes - at < width) return "it ends in its header";
  memcpy(&len, bytes + at, (size_t)width);
  at += width;
  if (len > num_bytes - at) return "it ends in its header";
  cursor_t cursor = {(const char *)bytes + at, (const char *)bytes + at + len};
  const char *what = read_members(&cursor, npy);
  if (what) return what;
  npy->data = bytes + at + len;
  int64_t rest = num_bytes - at - len, each = ptc_cell_bytes(npy->cell);
  if (rest % each != 0 || rest / each != npy->num_elements)
    return "it is not as long as its shape says";
  return NULL;
}

ptc_status_t ptc_npy_parse(ptc_diag_t *diag, const char *path, const unsigned char *bytes,
                           int64_t num_bytes, ptc_npy_t *out_npy) {
  *out_npy = (ptc_npy_t){0};
  const char *what = read_file(bytes, num_bytes, out_npy);
  if (!what) return PTC_OK;
  *out_npy = (ptc_npy_t){0};
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-npy", "\"%s\": %s", path, what);
}
