// A CSV file in memory: rows of text cells under named columns.
#ifndef PTC_FRONTEND_DRIVER_CSV_TABLE_H_
#define PTC_FRONTEND_DRIVER_CSV_TABLE_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"

typedef struct ptc_csv_table_s {
  const char *path;
  int32_t num_columns, num_rows;
  const char **columns;  // names
  const char ***rows;    // num_columns cells each; a short row is filled up with ""
  const int32_t *lines;  // of the file, where each row ends
} ptc_csv_table_t;

// The first row gives the names. Everything lives in |arena|. Ids: "read" where the file cannot be read, "csv" where it
// is none or a row has more cells than there are columns.
ptc_status_t ptc_csv_table_read(ptc_diag_t *diag, ptc_arena_t *arena, const char *path,
                                ptc_csv_table_t *out);

int32_t ptc_csv_table_find(const ptc_csv_table_t *table, const char *column);  // -1: there is none
// "" where there is no such column.
const char *ptc_csv_table_cell(const ptc_csv_table_t *table, int32_t row, const char *column);
// False where the cell is empty or no number.
bool ptc_csv_table_number(const ptc_csv_table_t *table, int32_t row, const char *column,
                          double *out);

#endif  // PTC_FRONTEND_DRIVER_CSV_TABLE_H_
