// Entry of the front end: reads files, follows includes, runs the parser.
#include "frontend/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/parse_impl.h"
#include "ir/base/str.h"
#include "ptm.tab.h"

enum { BINARY_PREFIX = 4096 };

// From ptm.yy.h, whose declarations of macros clash with those of the grammar.
typedef struct yy_buffer_state ptm_buffer_t;
int ptm_yylex_init_extra(ptm_parse_t *extra, void **out_scanner);
ptm_buffer_t *ptm_yy_scan_bytes(const char *text, int len, void *scanner);
int ptm_yylex_destroy(void *scanner);

// Two names of one file compare equal through this.
static const char *identity_of(ptc_ast_t *ast, const char *path) {
  char *real = realpath(path, NULL);
  const char *identity = ptc_intern(&ast->names, real ? real : path);
  free(real);
  return identity;
}

static void remember_file(ptc_ast_t *ast, const char *identity) {
  ast->files = ptc_xrealloc(ast->files, (size_t)(ast->num_files + 1) * sizeof(*ast->files));
  ast->files[ast->num_files++] = identity;
}

static ptc_status_t parse(ptc_diag_t *diag, ptc_ast_t *ast, ptm_include_t *parent, const char *file,
                          const char *identity, const char *text, size_t len) {
  int64_t errors_before = diag->num_errors;
  ptm_include_t include = {identity, parent, parent ? parent->depth + 1 : 1};
  ptm_parse_t p = {.diag = diag, .ast = ast, .include = &include, .line = 1, .column = 1};
  p.file = ptc_intern(&ast->names, file);
  if (len > INT_MAX / 2)
    return ptc_error(diag, (ptc_loc_t){p.file, 0, 0}, PTC_INVALID_INPUT, "too-long",
                     "the text has %zu bytes; more than 1 GiB cannot be read", len);
  remember_file(ast, identity);
  ptc_diag_add_source(diag, p.file, text, len);
  ptm_yylex_init_extra(&p, &p.scanner);
  ptm_yy_scan_bytes(text, (int)len, p.scanner);
  int rc = ptm_parse(&p);
  ptm_yylex_destroy(p.scanner);
  ptm_tokens_deinit(&p);
  // Recovery makes bison return 0 after errors, so the count decides.
  return rc || p.include_failed || diag->num_errors > errors_before ? PTC_INVALID_INPUT : PTC_OK;
}

ptc_status_t ptc_parse_text(ptc_diag_t *diag, ptc_ast_t *ast, const char *file, const char *text,
                            size_t len) {
  return parse(diag, ast, NULL, file, identity_of(ast, file), text, len);
}

ptc_status_t ptc_parse_file(ptc_diag_t *diag, ptc_ast_t *ast, const char *path) {
  char *text;
  size_t len;
  const char *file = strcmp(path, "-") == 0 ? "<stdin>" : path;
  ptc_status_t status = ptc_read_file(path, &text, &len);
  if (status != PTC_OK)
    return ptc_error(diag, (ptc_loc_t){ptc_intern(&ast->names, file), 0, 0}, PTC_IO, "cannot-read",
                     "cannot read the file: %s", strerror(errno));
  // A NUL near the start: the scanner would complain of every byte.
  if (memchr(text, 0, len < BINARY_PREFIX ? len : BINARY_PREFIX))
    status = ptc_error(diag, (ptc_loc_t){ptc_intern(&ast->names, file), 0, 0}, PTC_INVALID_INPUT,
                       "not-text", "the file is binary, not text");
  else
    status = parse(diag, ast, NULL, file, identity_of(ast, file), text, len);
  free(text);
  return status;
}

// |file| as seen from the folder of the including file.
static const char *resolve(ptm_parse_t *p, const char *file) {
  const char *slash = strrchr(p->file, '/');
  if (file[0] == '/') return file;
  if (!slash) return ptc_arena_printf(&p->ast->arena, "./%s", file) + (strcmp(file, "-") ? 2 : 0);
  return ptc_arena_printf(&p->ast->arena, "%.*s/%s", (int)(slash - p->file), p->file, file);
}

static bool is_listed(const ptc_ast_t *ast, const char *identity) {
  for (int64_t i = 0; i < ast->num_files; i++)
    if (ast->files[i] == identity) return true;
  return false;
}

void ptm_add_include(ptm_parse_t *p, ptc_loc_t loc, const char *file) {
  const char *path = resolve(p, file);
  const char *identity = identity_of(p->ast, path);
  for (const ptm_include_t *i = p->include; i; i = i->parent) {
    if (i->identity == identity) {
      ptc_error(p->diag, loc, PTC_INVALID_INPUT, "include-cycle", "\"%s\" includes itself", file);
      return;
    }
  }
  if (is_listed(p->ast, identity)) return;  // a file counts once, however often it is included
  if (p->include->depth >= PTM_MAX_INCLUDES) {
    ptc_error(p->diag, loc, PTC_INVALID_INPUT, "too-deep", "includes nest deeper than %d files",
              PTM_MAX_INCLUDES);
    return;
  }
  struct stat info;
  char *text = NULL;
  size_t len = 0;
  const char *reason = NULL;
  if (!file[0])
    reason = "the name is empty";
  else if (stat(path, &info) != 0)
    reason = strerror(errno);
  else if (!S_ISREG(info.st_mode))
    reason = "not a regular file";
  else if (ptc_read_file(path, &text, &len) != PTC_OK)
    reason = strerror(errno);
  if (reason) {
    ptc_error(p->diag, loc, PTC_INVALID_INPUT, "include-missing", "cannot include \"%s\": %s", file,
              reason);
    return;
  }
  if (parse(p->diag, p->ast, p->include, path, identity, text, len) != PTC_OK)
    p->include_failed = true;
  free(text);
}
