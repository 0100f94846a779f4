#!/usr/bin/env bash
# Proves: the include arrows of the house hold (who may include whom), includes are paths from the
# root, and every header has the guard of its path. Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 2

passed=0
failed=0
check() {  # check WHAT PROBLEMS: passes if there are none
  if [ -z "$2" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n%s\n' "$1" "$2"
  fi
}

sources() {  # sources FOLDER: its files, without those of folders inside it
  find "$1" -maxdepth 1 -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.l' -o -name '*.y' \) | sort
}

# arrows FOLDER PATTERN: every quoted include in FOLDER matches PATTERN.
arrows() {
  local folder=$1 allowed=$2 files
  [ -d "$folder" ] || return 0
  files=$(sources "$folder")
  [ -n "$files" ] || return 0
  # shellcheck disable=SC2086
  check "$folder includes only what it may" \
    "$(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' $files | grep -vE "\"($allowed)\"")"
}

base='ir/base/[a-z0-9_]+\.h'
ir='ir/[a-z0-9_]+\.(h|def)'
arrows ir/base "$base"
arrows ir "$base|$ir"
arrows frontend "$base|$ir|frontend/[a-z0-9_]+\.(h|def)|ptm\.(tab|yy)\.h"
arrows passes "$base|$ir|passes/[a-z0-9_]+\.(h|def)"
arrows passes/planner "$base|$ir|passes/(planner/)?[a-z0-9_]+\.(h|def)"
arrows codegen "$base|$ir|codegen/[a-z0-9_]+\.(h|def)"
arrows codegen/worker "$base|codegen/nvrtc(_message)?\.h"
plan='ir/(type|opcode|plan)\.h|ir/ops\.def'
arrows runtime "$base|$plan|runtime/[a-z0-9_/]+\.(h|def)"
for folder in runtime/*/; do
  [ -d "$folder" ] && arrows "${folder%/}" "$base|$plan|runtime/[a-z0-9_/]+\.(h|def)"
done
arrows frontend/driver \
  "$base|$ir|(frontend|frontend/driver|passes|codegen|runtime)/[a-z0-9_/]+\.(h|def)"

# Private headers stay in their folder.
for header in $(find ir frontend passes codegen runtime -name '*_impl.h' 2>/dev/null | sort); do
  folder=$(dirname "$header")
  users=$(grep -rlE "#[[:space:]]*include[[:space:]]*\"$header\"" ir frontend passes codegen runtime \
    --include='*.c' --include='*.h' --include='*.l' --include='*.y' 2>/dev/null |
    grep -vE "^$folder/[^/]+$")
  check "$header is included in $folder alone" "$users"
done

# Guards: frontend/driver/compile.h has PTC_FRONTEND_DRIVER_COMPILE_H_.
for header in $(find ir frontend passes codegen runtime -name '*.h' 2>/dev/null | sort); do
  guard=PTC_$(echo "$header" | tr 'a-z/.' 'A-Z__')_
  problem=
  grep -q "^#ifndef $guard\$" "$header" && grep -q "^#define $guard\$" "$header" ||
    problem="no guard $guard"
  check "$header has its guard" "$problem"
done

# A source file includes its own header first.
for source in $(find ir frontend passes codegen runtime -name '*.c' 2>/dev/null | sort); do
  own=${source%.c}.h
  [ -f "$own" ] || continue
  first=$(grep -m1 -oE '^#include "[^"]+"' "$source" | cut -d'"' -f2)
  problem=
  [ "$first" = "$own" ] || problem="its first include is \"$first\""
  check "$source includes its own header first" "$problem"
done

# Each folder explains itself.
for folder in ir frontend passes codegen runtime tests samples; do
  problem=
  [ -s "$folder/README.md" ] || problem="$folder/README.md is missing"
  check "$folder has a README" "$problem"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
