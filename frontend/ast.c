#include "frontend/ast.h"

#include <stdlib.h>

static const char *const operator_texts[] = {
    [PTC_OPR_ADD] = "+",   [PTC_OPR_SUB] = "-", [PTC_OPR_MUL] = "*",   [PTC_OPR_DIV] = "/",
    [PTC_OPR_MOD] = "%",   [PTC_OPR_POW] = "^", [PTC_OPR_EQ] = "==",   [PTC_OPR_NE] = "!=",
    [PTC_OPR_LT] = "<",    [PTC_OPR_LE] = "<=", [PTC_OPR_GT] = ">",    [PTC_OPR_GE] = ">=",
    [PTC_OPR_AND] = "and", [PTC_OPR_OR] = "or", [PTC_OPR_NOT] = "not", [PTC_OPR_NEG] = "-",
};

const char *ptc_operator_text(ptc_operator_t op) { return operator_texts[op]; }

void ptc_ast_init(ptc_ast_t *ast) {
  *ast = (ptc_ast_t){0};
  ptc_arena_init(&ast->arena);
  ptc_interner_init(&ast->names, &ast->arena);
}

void ptc_ast_deinit(ptc_ast_t *ast) {
  free(ast->items);
  free(ast->files);
  ptc_interner_deinit(&ast->names);
  ptc_arena_deinit(&ast->arena);
  *ast = (ptc_ast_t){0};
}
