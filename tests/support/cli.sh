# Sourced by tests of the command line that run plans: enters a folder of their own, counts what they expect.
# Wants $build, the build folder as a whole path.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PTC_CACHE=${PTC_CACHE:-$build/kernel-cache}
cd "$work" || exit 2
PATH=$build:$PATH
unset NO_COLOR
export LC_ALL=C
export ASAN_OPTIONS=detect_leaks=0

passed=0
failed=0
# expect STATUS PATTERN COMMAND: runs COMMAND in a shell; its exit status must be STATUS, and what it
# says on stdout and stderr must contain PATTERN (fixed text; empty: anything).
expect() {
  local status=$1 pattern=$2 got=0
  timeout 300 bash -c "$3" >out 2>&1 || got=$?
  local ok=1
  [ "$got" -eq "$status" ] || ok=0
  [ -z "$pattern" ] || grep -qF -- "$pattern" out || ok=0
  grep -qE 'ERROR: AddressSanitizer|runtime error' out && ok=0
  if [ $ok = 1 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n  wanted status %s and "%s"; got %s and:\n' "$3" "$status" "$pattern" "$got"
    head -n 8 out | cut -c1-300
  fi
}
# The train block is $1; model.ptm, train.txt, val.txt.
write_model() {
  cat >model.ptm <<'END'
model small(d = 16, seq = 8, vocab = 256) {
  dim d, b = batch, s = seq, v = vocab, f = 2 * d
  param wte[v, d] ~ normal(0.05)
  layer mlp(x[b, s, d]) {
    param w1[d, f], w2[f, d] ~ normal(0.1)
    u[b, s, f] = x[b, s, d] * w1[d, f]
    y[b, s, d] = gelu(u[b, s, f]) * w2[f, d]
    return x + dropout(y, 0.1)
  }
  input tokens[b, s]  : int from text
  input targets[b, s] : int from text + 1
  x[b, s, d] = wte[tokens[b, s], d]
  repeat 3 { x = mlp(x) }
  logits[b, s, v] = x[b, s, d] * wte[v, d]
  loss = cross_entropy[v](logits, targets)
  output logits
}
END
  echo "$1" >>model.ptm
  seq 1 4000 >train.txt
  seq 7000 7300 >val.txt
}
