#include "frontend/driver/csv_table.h"

#include <csv.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 512, MAX_ROWS = 1 << 20 };

typedef struct reader_s {
  ptc_arena_t *arena;
  ptc_csv_table_t *table;
  const char *cells[MAX_COLUMNS];
  int32_t num_cells;
  int32_t capacity;
  int32_t *lines;
  int32_t line;
  const char *wrong;
} reader_t;

static void on_cell(void *cell, size_t len, void *user) {
  reader_t *r = user;
  if (r->num_cells == MAX_COLUMNS)
    r->wrong = "too many cells in a row";
  else
    r->cells[r->num_cells++] = cell ? ptc_arena_strndup(r->arena, cell, len) : "";
}

static void grow(reader_t *r) {
  const int32_t capacity = r->capacity ? 2 * r->capacity : 64;
  const char ***rows = PTC_ARENA_ARRAY(r->arena, const char **, capacity);
  int32_t *lines = PTC_ARENA_ARRAY(r->arena, int32_t, capacity);
  for (int32_t i = 0; i < r->table->num_rows; i++) {
    rows[i] = r->table->rows[i];
    lines[i] = r->lines[i];
  }
  r->table->rows = rows;
  r->lines = lines;
  r->capacity = capacity;
}

static void on_row(int end, void *user) {
  (void)end;
  reader_t *r = user;
  ptc_csv_table_t *table = r->table;
  r->line++;
  if (!table->columns) {
    table->columns = PTC_ARENA_ARRAY(r->arena, const char *, r->num_cells);
    for (int32_t i = 0; i < r->num_cells; i++) table->columns[i] = r->cells[i];
    table->num_columns = r->num_cells;
  } else if (r->num_cells > table->num_columns) {
    r->wrong = "a row has more cells than there are columns";
  } else if (table->num_rows == MAX_ROWS) {
    r->wrong = "too many rows";
  } else {
    if (table->num_rows == r->capacity) grow(r);
    const char **row = PTC_ARENA_ARRAY(r->arena, const char *, table->num_columns);
    for (int32_t i = 0; i < table->num_columns; i++) row[i] = i < r->num_cells ? r->cells[i] : "";
    r->lines[table->num_rows] = r->line;
    table->rows[table->num_rows++] = row;
  }
  r->num_cells = 0;
}

static ptc_status_t read_all(ptc_diag_t *diag, FILE *file, struct csv_parser *parser, reader_t *r) {
  char buffer[1 << 16];
  const char *path = r->table->path;
  for (size_t got; (got = fread(buffer, 1, sizeof(buffer), file)) > 0 && !r->wrong;)
    if (csv_parse(parser, buffer, got, on_cell, on_row, r) != got)
      return ptc_error(diag, (ptc_loc_t){path, r->line + 1, 0}, PTC_INVALID_INPUT, "csv", "%s",
                       csv_strerror(csv_error(parser)));
  if (ferror(file))
    return ptc_error(diag, (ptc_loc_t){path, 0, 0}, PTC_INVALID_INPUT, "read", "cannot read: %s",
                     strerror(errno));
  if (!r->wrong && csv_fini(parser, on_cell, on_row, r) != 0)
    r->wrong = "a quoted cell does not end";
  if (!r->wrong && !r->table->columns)
    r->wrong = "the file is empty; its first row names the columns";
  if (r->wrong)
    return ptc_error(diag, (ptc_loc_t){path, r->line, 0}, PTC_INVALID_INPUT, "csv", "%s", r->wrong);
  return PTC_OK;
}

ptc_status_t ptc_csv_table_read(ptc_diag_t *diag, ptc_arena_t *arena, const char *path,
                                ptc_csv_table_t *out) {
  *out = (ptc_csv_table_t){.path = path};
  FILE *file = fopen(path, "rb");
  if (!file)
    return ptc_error(diag, (ptc_loc_t){path, 0, 0}, PTC_INVALID_INPUT, "read", "cannot open: %s",
                     strerror(errno));
  reader_t *r = PTC_ARENA_NEW(arena, reader_t);
  *r = (reader_t){.arena = arena, .table = out};
  struct csv_parser parser;
  csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
  const ptc_status_t status = read_all(diag, file, &parser, r);
  csv_free(&parser);
  fclose(file);
  out->lines = r->lines;
  return status;
}

int32_t ptc_csv_table_find(const ptc_csv_table_t *table, const char *column) {
  for (int32_t i = 0; i < table->num_columns; i++)
    if (strcmp(table->columns[i], column) == 0) return i;
  return -1;
}

const char *ptc_csv_table_cell(const ptc_csv_table_t *table, int32_t row, const char *column) {
  const int32_t at = ptc_csv_table_find(table, column);
  return at < 0 ? "" : table->rows[row][at];
}

bool ptc_csv_table_number(const ptc_csv_table_t *table, int32_t row, const char *column,
                          double *out) {
  const char *text = ptc_csv_table_cell(table, row, column);
  char *end;
  const double value = strtod(text, &end);
  if (end == text || *end || !isfinite(value)) return false;
  *out = value;
  return true;
}
