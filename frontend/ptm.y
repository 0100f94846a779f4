/* The grammar of .ptm: LALR(1), no statement separators, no conflicts.
   Why it needs no separators: (1) every statement starts with a name or a keyword; (2) there are no
   bare-expression statements; (3) no expression has juxtaposition (a number's unit is a token of its
   own, scanned only inside cluster and device blocks); (4) several targets are `a, b = f(x)`, never
   `(a, b) = ...`. So '(' '[' '-' after an expression always continue it, and a name, a keyword or '}'
   always ends it. Actions build the tree and look nothing up.
   Recovery: after an error the token filter (tokens.c) skips to the next place where a statement can
   begin and shows SYNC there, or shows the '{' of the block whose head was broken. */
%define api.pure full
%define api.prefix {ptm_}
%define api.token.prefix {PTM_}
%define api.value.type union
%define api.location.type {ptc_loc_t}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%parse-param {ptm_parse_t *p}
%lex-param {ptm_parse_t *p}

%code requires {
#include "frontend/parse_impl.h"
}

%code provides {
/* A token that the scanner has complained of: bison recovers without another word. */
enum { PTM_BROKEN = PTM_PTM_error };
/* The token filter (tokens.c). */
int ptm_lex(PTM_STYPE *value, ptc_loc_t *loc, ptm_parse_t *p);
}

%code {
#define YYLLOC_DEFAULT(current, rhs, n) ((current) = (n) ? YYRHSLOC(rhs, 1) : YYRHSLOC(rhs, 0))
#define YYMALLOC ptc_xmalloc
#define YYFREE free
/* The deepest stack of unfinished constructs; a text that nests deeper gets `too-deep`. */
#define YYINITDEPTH 200
#define YYMAXDEPTH 2000

static void ptm_error(const ptc_loc_t *loc, ptm_parse_t *p, const char *message);
}

%token END 0 "the end of the file"
%token <const char *> IDENT "a name" NUMBER "a number" STRING "a string" PATH "a path" UNIT "a unit"
%token TIMES "'x'" SYNC "the end of the line"
%token JUXTAPOSED "another name"  /* a name after an expression on one line; in no rule */
%token MODEL "'model'" LAYER "'layer'" TRAIN "'train'" PARALLEL "'parallel'" CLUSTER "'cluster'"
%token DEVICE "'device'" INCLUDE "'include'" DIM "'dim'" PARAM "'param'" INPUT "'input'"
%token LOSS "'loss'" METRIC "'metric'" OUTPUT "'output'" RETURN "'return'" REPEAT "'repeat'"
%token AS "'as'" IF "'if'" ELSE "'else'" FROM "'from'" SHARD "'shard'" ON "'on'" OFF "'off'"
%token OVER "'over'" CUT "'cut'" NODE "'node'" LINK "'link'" NETWORK "'network'" HOST "'host'"
%token AND "'and'" OR "'or'" NOT "'not'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='"

%left OR
%left AND
%precedence NOT
%nonassoc EQ NE '<' LE '>' GE
%left '+' '-'
%left '*' '/' '%'
%precedence NEG
%right '^'

%type <ptc_layer_t *> layer
%type <ptm_list_t *> formals formal_list dims stmts block targets indices exprs args arg_list
%type <ptm_list_t *> dim_list decls settings settings_block par_stmts paths cl_block cl_items props
%type <ptm_list_t *> device_props
%type <ptc_formal_t *> formal dim_decl decl
%type <ptc_stmt_t *> stmt if_stmt
%type <ptm_else_t> opt_else
%type <ptc_target_t *> target
%type <ptc_call_t> opt_options opt_type opt_init call
%type <ptm_source_t> opt_from
%type <ptm_name_t> name opt_as
%type <ptc_expr_t *> expr postfix primary index
%type <ptm_arg_t *> arg
%type <ptc_setting_t *> setting
%type <ptc_cut_t *> path
%type <ptm_par_stmt_t *> par_stmt
%type <ptc_cluster_item_t *> cl_item
%type <ptc_prop_t *> prop
%type <ptc_quantity_t> quantity measure
%type <const char *> count

%%

file:
    %empty
  | file item
  ;

item:
    MODEL name '(' formals ')' block  { ptm_add_model(p, $name, $formals, $block); }
  | MODEL name block                  { ptm_add_model(p, $name, NULL, $block); }
  | layer                             { ptm_add_layer(p, $layer); }
  | TRAIN settings_block              { ptm_add_settings(p, PTC_ITEM_TRAIN, @1, $2); }
  | PARALLEL '{' par_stmts '}'        { ptm_add_settings(p, PTC_ITEM_PARALLEL, @1, $par_stmts); }
  | CLUSTER name '(' formals ')' cl_block  { ptm_add_cluster(p, $name, $formals, $cl_block); }
  | CLUSTER name cl_block             { ptm_add_cluster(p, $name, NULL, $cl_block); }
  | DEVICE name '{' device_props '}'  { ptm_add_device(p, $name, $device_props); }
  | INCLUDE STRING                    { ptm_add_include(p, @STRING, $STRING); }
  | TRAIN error SYNC                  { yyerrok; }
  | TRAIN error opened settings '}'
  | PARALLEL error SYNC               { yyerrok; }
  | PARALLEL error opened par_stmts '}'
  | CLUSTER error SYNC                { yyerrok; }
  | CLUSTER error opened cl_items '}'
  | DEVICE error SYNC                 { yyerrok; }
  | DEVICE error opened device_props '}'
  | error SYNC                        { yyerrok; }
  | error opened stmts '}'
  ;

/* The '{' after a broken head: from here on errors are reported again. */
opened: '{'  { yyerrok; } ;

layer:
    LAYER name '(' formals ')' block  { $$ = ptm_layer(p, $name, NULL, $formals, $block); }
  | LAYER name '=' IDENT              { $$ = ptm_layer(p, $name, $IDENT, NULL, NULL); }
  ;

name: IDENT  { $$ = (ptm_name_t){$IDENT, @IDENT}; } ;

formals:
    %empty                   { $$ = NULL; }
  | formal_list opt_comma    { $$ = $formal_list; }
  ;
formal_list:
    formal                   { $$ = ptm_list(p, NULL, $formal); }
  | formal_list[l] ',' formal  { $$ = ptm_list(p, $l, $formal); }
  ;
formal:
    IDENT                    { $$ = ptm_formal(p, @1, $IDENT, false, NULL, NULL); }
  | IDENT '=' expr           { $$ = ptm_formal(p, @1, $IDENT, false, NULL, $expr); }
  | IDENT '[' dims ']'       { $$ = ptm_formal(p, @1, $IDENT, true, $dims, NULL); }
  | IDENT '[' ']'            { $$ = ptm_formal(p, @1, $IDENT, true, NULL, NULL); }
  ;
opt_comma: %empty | ',' ;
dims:
    IDENT                    { $$ = ptm_list(p, NULL, ptm_name(p, @1, $IDENT)); }
  | dims[l] ',' IDENT        { $$ = ptm_list(p, $l, ptm_name(p, @3, $IDENT)); }
  ;

/* ---- model and layer bodies ---- */

block: '{' stmts '}'  { $$ = $stmts; } ;

stmts:
    %empty                   { $$ = NULL; }
  | stmts[l] stmt            { $$ = $stmt ? ptm_list(p, $l, $stmt) : $l; }
  ;

stmt:
    targets '=' expr         { $$ = ptm_assign(p, $targets, $expr); }
  | DIM dim_list             { $$ = ptm_stmt(p, PTC_STMT_DIM, @1); ptm_decls(p, $$, $dim_list); }
  | PARAM opt_options decls opt_type opt_init {
      $$ = ptm_stmt(p, PTC_STMT_PARAM, @1);
      ptm_decls(p, $$, $decls);
      $$->options = $opt_options;
      $$->type = $opt_type;
      $$->init = $opt_init;
    }
  | INPUT decls opt_type opt_from opt_init {
      $$ = ptm_stmt(p, PTC_STMT_INPUT, @1);
      ptm_decls(p, $$, $decls);
      $$->type = $opt_type;
      $$->source = $opt_from.name;
      $$->source_loc = $opt_from.loc;
      $$->offset = $opt_from.offset;
      $$->init = $opt_init;
    }
  | LOSS '=' expr            { $$ = ptm_stmt(p, PTC_STMT_LOSS, @1); $$->value = $expr; }
  | LOSS name '=' expr       { $$ = ptm_named_stmt(p, PTC_STMT_LOSS, @1, $name, $expr); }
  | METRIC name '=' expr     { $$ = ptm_named_stmt(p, PTC_STMT_METRIC, @1, $name, $expr); }
  | OUTPUT dims              { $$ = ptm_output(p, @1, $dims); }
  | RETURN exprs             { $$ = ptm_return(p, @1, $exprs); }
  | REPEAT expr opt_as block {
      $$ = ptm_named_stmt(p, PTC_STMT_REPEAT, @1, $opt_as, $expr);
      $$->body = ptm_stmts(p, $block);
    }
  | if_stmt
  | layer                    { $$ = ptm_stmt(p, PTC_STMT_LAYER, $layer->loc); $$->layer = $layer; }
  | error SYNC               { $$ = NULL; yyerrok; }
  | error opened stmts '}'   { $$ = NULL; }
  ;

if_stmt:
    IF expr block opt_else   { $$ = ptm_if(p, @1, $expr, $block, $opt_else); }
  | IF error SYNC            { $$ = NULL; yyerrok; }
  | IF error opened stmts '}' opt_else  { $$ = NULL; }
  ;
opt_else:
    %empty                   { $$ = (ptm_else_t){false, NULL}; }
  | ELSE block               { $$ = (ptm_else_t){true, $block}; }
  | ELSE if_stmt             { $$ = (ptm_else_t){true, $2 ? ptm_list(p, NULL, $2) : NULL}; }
  | ELSE error SYNC          { $$ = (ptm_else_t){false, NULL}; yyerrok; }
  | ELSE error opened stmts '}' opt_else  { $$ = (ptm_else_t){false, NULL}; }
  ;

targets:
    target                   { $$ = ptm_list(p, NULL, $target); }
  | targets[l] ',' target    { $$ = ptm_list(p, $l, $target); }
  ;
target:
    IDENT                    { $$ = ptm_target(p, @1, $IDENT, false, NULL); }
  | IDENT '[' indices ']'    { $$ = ptm_target(p, @1, $IDENT, true, $indices); }
  | IDENT '[' ']'            { $$ = ptm_target(p, @1, $IDENT, true, NULL); }
  ;
dim_list:
    dim_decl                 { $$ = ptm_list(p, NULL, $dim_decl); }
  | dim_list[l] ',' dim_decl { $$ = ptm_list(p, $l, $dim_decl); }
  ;
dim_decl:  /* `dim d`: the integer parameter d is also a dim */
    IDENT                    { $$ = ptm_formal(p, @1, $IDENT, false, NULL, NULL); }
  | IDENT '=' expr           { $$ = ptm_formal(p, @1, $IDENT, false, NULL, $expr); }
  ;
decls:
    decl                     { $$ = ptm_list(p, NULL, $decl); }
  | decls[l] ',' decl        { $$ = ptm_list(p, $l, $decl); }
  ;
decl:
    IDENT '[' dims ']'       { $$ = ptm_formal(p, @1, $IDENT, true, $dims, NULL); }
  | IDENT '[' ']'            { $$ = ptm_formal(p, @1, $IDENT, true, NULL, NULL); }
  ;
opt_options:
    %empty                   { $$ = (ptc_call_t){0}; }
  | '(' args ')'             { $$ = ptm_call(p, @1, NULL, true, $args); }
  ;
opt_type:
    %empty                   { $$ = (ptc_call_t){0}; }
  | ':' call                 { $$ = $call; }
  ;
opt_init:
    %empty                   { $$ = (ptc_call_t){0}; }
  | '~' call                 { $$ = $call; }
  ;
call:
    IDENT                    { $$ = ptm_call(p, @1, $IDENT, false, NULL); }
  | IDENT '(' args ')'       { $$ = ptm_call(p, @1, $IDENT, true, $args); }
  ;
opt_from:
    %empty                   { $$ = (ptm_source_t){0}; }
  | FROM IDENT               { $$ = (ptm_source_t){$IDENT, @IDENT, NULL}; }
  | FROM IDENT '+' NUMBER    { $$ = (ptm_source_t){$IDENT, @IDENT, $NUMBER}; }
  ;
opt_as:
    %empty                   { $$ = (ptm_name_t){0}; }
  | AS name                  { $$ = $name; }
  ;

/* ---- expressions ---- */

exprs:
    expr                     { $$ = ptm_list(p, NULL, $expr); }
  | exprs[l] ',' expr        { $$ = ptm_list(p, $l, $expr); }
  ;
expr:
    postfix
  | expr[a] '+' expr[b]      { $$ = ptm_binary(p, PTC_OPR_ADD, @2, $a, $b); }
  | expr[a] '-' expr[b]      { $$ = ptm_binary(p, PTC_OPR_SUB, @2, $a, $b); }
  | expr[a] '*' expr[b]      { $$ = ptm_binary(p, PTC_OPR_MUL, @2, $a, $b); }
  | expr[a] '/' expr[b]      { $$ = ptm_binary(p, PTC_OPR_DIV, @2, $a, $b); }
  | expr[a] '%' expr[b]      { $$ = ptm_binary(p, PTC_OPR_MOD, @2, $a, $b); }
  | expr[a] '^' expr[b]      { $$ = ptm_binary(p, PTC_OPR_POW, @2, $a, $b); }
  | expr[a] EQ expr[b]       { $$ = ptm_binary(p, PTC_OPR_EQ, @2, $a, $b); }
  | expr[a] NE expr[b]       { $$ = ptm_binary(p, PTC_OPR_NE, @2, $a, $b); }
  | expr[a] '<' expr[b]      { $$ = ptm_binary(p, PTC_OPR_LT, @2, $a, $b); }
  | expr[a] LE expr[b]       { $$ = ptm_binary(p, PTC_OPR_LE, @2, $a, $b); }
  | expr[a] '>' expr[b]      { $$ = ptm_binary(p, PTC_OPR_GT, @2, $a, $b); }
  | expr[a] GE expr[b]       { $$ = ptm_binary(p, PTC_OPR_GE, @2, $a, $b); }
  | expr[a] AND expr[b]      { $$ = ptm_binary(p, PTC_OPR_AND, @2, $a, $b); }
  | expr[a] OR expr[b]       { $$ = ptm_binary(p, PTC_OPR_OR, @2, $a, $b); }
  | NOT expr[a]              { $$ = ptm_unary(p, PTC_OPR_NOT, @1, $a); }
  | '-' expr[a] %prec NEG    { $$ = ptm_unary(p, PTC_OPR_NEG, @1, $a); }
  ;
postfix:
    primary
  | postfix[f] '[' indices ']'  { $$ = ptm_index(p, $f, $indices); }
  | postfix[f] '(' args ')'     { $$ = ptm_call_expr(p, $f, $args); }
  ;
primary:
    IDENT                    { $$ = ptm_leaf(p, PTC_EXPR_NAME, @1, $IDENT); }
  | IDENT[f] '@' IDENT[i]    { $$ = ptm_leaf(p, PTC_EXPR_NAME, @1, $f); $$->instance = $i; }
  | NUMBER                   { $$ = ptm_leaf(p, PTC_EXPR_NUMBER, @1, $NUMBER); }
  | STRING                   { $$ = ptm_leaf(p, PTC_EXPR_STRING, @1, $STRING); }
  | ON                       { $$ = ptm_leaf(p, PTC_EXPR_ON, @1, NULL); $$->is_on = true; }
  | OFF                      { $$ = ptm_leaf(p, PTC_EXPR_ON, @1, NULL); }
  | '(' expr ')'             { $$ = ptm_paren(p, @1, $expr); }
  | '[' exprs opt_comma ']'  { $$ = ptm_items(p, PTC_EXPR_LIST, @1, $exprs); }
  ;
args:
    %empty                   { $$ = NULL; }
  | arg_list opt_comma       { $$ = $arg_list; }
  ;
arg_list:
    arg                      { $$ = ptm_list(p, NULL, $arg); }
  | arg_list[l] ',' arg      { $$ = ptm_list(p, $l, $arg); }
  ;
arg:
    expr                     { $$ = ptm_arg(p, NULL, $expr); }
  | IDENT '=' expr           { $$ = ptm_arg(p, $IDENT, $expr); }
  ;
indices:
    index                    { $$ = ptm_list(p, NULL, $index); }
  | indices[l] ',' index     { $$ = ptm_list(p, $l, $index); }
  ;
index:
    expr
  | '(' indices[l] ',' index[i] ')'  { $$ = ptm_items(p, PTC_EXPR_TUPLE, @1, ptm_list(p, $l, $i)); }
  ;

/* ---- train, parallel, cluster, device ---- */

settings_block: '{' settings '}'  { $$ = $settings; } ;
settings:
    %empty                   { $$ = NULL; }
  | settings[l] setting      { $$ = ptm_list(p, $l, ptm_par_setting(p, $setting)); }
  | settings[l] error SYNC   { $$ = $l; yyerrok; }
  ;
setting: IDENT '=' expr      { $$ = ptm_setting(p, @1, $IDENT, $expr); } ;

par_stmts:
    %empty                   { $$ = NULL; }
  | par_stmts[l] par_stmt    { $$ = ptm_list(p, $l, $par_stmt); }
  | par_stmts[l] error SYNC  { $$ = $l; yyerrok; }
  ;
par_stmt:
    setting                  { $$ = ptm_par_setting(p, $setting); }
  | SHARD path ON name[axis] OVER name[dim]                { $$ = ptm_par_shard(p, $path, NULL, $axis, $dim); }
  | SHARD path '[' dims ']' ON name[axis] OVER name[dim]   { $$ = ptm_par_shard(p, $path, $dims, $axis, $dim); }
  | CUT paths                { $$ = ptm_par_cuts(p, $paths); }
  ;
paths:
    path                     { $$ = ptm_list(p, NULL, $path); }
  | paths[l] ',' path        { $$ = ptm_list(p, $l, $path); }
  ;
path:
    IDENT                    { $$ = ptm_path(p, @1, $1); }
  | PATH                     { $$ = ptm_path(p, @1, $1); }
  ;

cl_block: '{' cl_items '}'   { $$ = $cl_items; } ;
cl_items:
    %empty                   { $$ = NULL; }
  | cl_items[l] cl_item      { $$ = ptm_list(p, $l, $cl_item); }
  | cl_items[l] error SYNC   { $$ = $l; yyerrok; }
  | cl_items[l] error opened cl_items[dropped] '}'  { $$ = $l; (void)$dropped; }
  ;
cl_item:
    NODE count TIMES IDENT '{' cl_items '}'  {
      $$ = ptm_cluster_item(p, PTC_CLUSTER_NODE, @1, $IDENT, NULL);
      $$->count = $count;
      ptm_set_cluster_items(p, $$, $cl_items);
    }
  | LINK IDENT props         { $$ = ptm_cluster_item(p, PTC_CLUSTER_LINK, @1, $IDENT, $props); }
  | NETWORK IDENT props      { $$ = ptm_cluster_item(p, PTC_CLUSTER_NETWORK, @1, $IDENT, $props); }
  | HOST props               { $$ = ptm_cluster_item(p, PTC_CLUSTER_HOST, @1, NULL, $props); }
  ;
props:
    %empty                   { $$ = NULL; }
  | props[l] prop            { $$ = ptm_list(p, $l, $prop); }
  ;
device_props:
    %empty                   { $$ = NULL; }
  | device_props[l] prop     { $$ = ptm_list(p, $l, $prop); }
  | device_props[l] error SYNC  { $$ = $l; yyerrok; }
  ;
prop: IDENT '=' quantity     { $$ = ptm_prop(p, @1, $IDENT, $quantity); } ;
count: NUMBER | IDENT ;
quantity:
    measure
  | NUMBER TIMES measure     { $$ = $measure; $$.times = $NUMBER; $$.loc = @1; }
  | IDENT                    { $$ = (ptc_quantity_t){.name = $IDENT, .loc = @1}; }
  ;
measure:
    NUMBER                   { $$ = (ptc_quantity_t){.number = $NUMBER, .loc = @1}; }
  | NUMBER UNIT              { $$ = (ptc_quantity_t){.number = $NUMBER, .unit = $UNIT, .loc = @1}; }
  ;

%%

// Called by bison on a syntax error: hands what would have been accepted to the words in
// syntax_error.c.
static int yyreport_syntax_error(const yypcontext_t *context, ptm_parse_t *p) {
  bool expected[PTM_MAX_TOKEN] = {false};
  const char *words[PTM_MAX_TOKEN] = {NULL};
  yysymbol_kind_t kinds[YYNTOKENS];
  int count = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
  if (count < 0) return count;
  // From symbol kinds back to token kinds.
  for (int kind = 0; kind < PTM_MAX_TOKEN; kind++) {
    yysymbol_kind_t symbol = YYTRANSLATE(kind);
    words[kind] = yysymbol_name(symbol);
    if (symbol == YYSYMBOL_YYUNDEF) continue;
    for (int i = 0; i < count; i++) expected[kind] |= kinds[i] == symbol;
  }
  ptm_syntax_error(p, expected, words);
  return 0;
}

// Bison's other complaint: the stack reached YYMAXDEPTH.
static void ptm_error(const ptc_loc_t *loc, ptm_parse_t *p, const char *message) {
  (void)message;
  ptm_too_deep(p, *loc);
}
