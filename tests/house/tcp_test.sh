#!/usr/bin/env bash
# Proves: ranks that meet at MASTER_ADDR and MASTER_PORT compute the bits of the definition and of threads; what goes wrong
# between them is named, also a rank that is killed; and so is, in bounded time, whatever keeps them from meeting:
# nobody there, ranks that do not come, another number of ranks, a rank twice, an address in use, an unknown host, a
# stranger. Usage: tcp_test.sh BUILD_DIR. Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 2
build=${1:?usage: tcp_test.sh BUILD_DIR}
export PTC_CACHE=${PTC_CACHE:-$build/kernel-cache}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
log=$root/log
passed=0
failed=0
check() {  # check WHAT COMMAND...
  if "${@:2}" >/dev/null; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$1"
    cat "$log".*
  fi
}

export MASTER_ADDR=localhost MASTER_PORT
port=$((20000 + $$ * 13 % 12000))
next_port() { port=$((port + 1)) MASTER_PORT=$port; }

# rank RANK WORLD LOG COMMAND... : in the background; $pids has it.
rank() {
  RANK=$1 WORLD_SIZE=$2 timeout 60 "${@:4}" >"$log.$3" 2>&1 &
  pids="$pids $!"
}
finish() { for pid in $pids; do wait "$pid"; done; pids=; }
ranks() {  # ranks WORLD COMMAND... : all of them
  local r
  rm -f "$log".*
  next_port
  for ((r = 0; r < $1; r++)); do rank $r "$1" $r "${@:2}"; done
  finish
}
all_right() { [ "$(cat "$log".* | grep -c ': 0 wrong$')" = "$1" ]; }
said() { cat "$log".* | grep -q "$1"; }

for world in 2 5; do
  PTC_CASES=${PTC_CASES:-8} ranks $world "$build/tests/communicator_test" rank
  check "$world ranks" all_right $world
done
for deed in "other kind" "other size" "other cut" message "give up" "take long"; do
  ranks 3 "$build/tests/communicator_faults_test" rank "$deed"
  check "$deed" all_right 3
done
ranks 4 "$build/tests/communicator_faults_test" rank die
check "a rank that dies" all_right 3

# --- a run

settings=(--set layers=1 --set d=16 --set heads=2 --set seq=8 --set vocab=256 --set train.batch=4)
"$build/ptc" samples/gpt2.ptm -o "$root/plan" -q "${settings[@]}" --parallel dp=2,tp=2 >"$log.c" 2>&1
train() { "$build/ptc" run "$root/plan" --data README.md:bytes --steps 3 -q --threads=4 "$@"; }
env -u MASTER_ADDR bash -c "$(declare -f train)"'; build=$0 root=$1; train --run-dir "$root/threads"' "$build" "$root" >"$log.t" 2>&1
export build root
LOCAL_WORLD_SIZE=1 ranks 4 bash -c "$(declare -f train)"'; train --run-dir "$root/tcp"'
check "the bits of threads" diff -r "$root/threads/ckpt" "$root/tcp/ckpt"
LOCAL_WORLD_SIZE=1 ranks 2 bash -c "$(declare -f train)"'; train --run-dir "$root/two"'
check "a plan for more ranks" said 'comm-world'

# --- ranks that do not meet

short() { PTC_COMM_LIMIT=1 "$build/ptc" run "$root/plan" --data README.md:bytes --steps 1 -q --run-dir "$root/none"; }
meet="$(declare -f short); short"
alone() {  # alone WHAT WORDS RANK WORLD
  local begin=$SECONDS
  rm -f "$log".*
  rank "$3" "$4" 0 bash -c "$meet"
  finish
  check "$1" said "$2"
  check "$1, in bounded time" test $((SECONDS - begin)) -lt 20
}
next_port
alone "nobody there" 'comm-stuck.*rank 0 was not to be reached for 1 s.*Connection refused\|rank 0 was not to be reached for 1 s.*Connection refused' 1 2
next_port
alone "ranks that do not come" 'these have not come: ranks 1, 2, 3' 0 4
MASTER_ADDR=no.such.host.invalid alone "an unknown host" 'no such host' 1 2
next_port
rm -f "$log".*
rank 0 3 0 bash -c "$meet"
rank 1 4 1 bash -c "$meet"
finish
check "another number of ranks" test "$(cat "$log".* | grep -c 'rank 1 has been started as one of 4 ranks, rank 0 as one of 3')" = 2
next_port
rm -f "$log".*
rank 0 3 0 bash -c "$meet"
rank 1 3 1 bash -c "$meet"
rank 1 3 2 bash -c "$meet"
finish
check "a rank twice" test "$(cat "$log".* | grep -c 'rank 1 of 3 has been started twice')" = 3

# Another program has the port, and says nothing that makes sense.
next_port
python3 -c '
import socket, sys
s = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
s.settimeout(20)
c, _ = s.accept()
c.recv(100)
c.close()
' $port >"$root/ready" 2>/dev/null &
other=$!
for _ in $(seq 100); do grep -qs ready "$root/ready" && break; sleep 0.05; done
if grep -qs ready "$root/ready"; then
  alone "an address in use" 'another program does.*Address already in use' 0 2
  alone "who listens is no rank" 'no rank 0 of ptc' 1 2
  kill $other 2>/dev/null
  wait $other 2>/dev/null
  # A stranger does not disturb.
  next_port
  rm -f "$log".*
  PTC_CASES=1 rank 0 2 0 "$build/tests/communicator_test" rank
  python3 -c '
import socket, sys, time
for i in range(100):
    try:
        s = socket.create_connection(("localhost", int(sys.argv[1])))
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        break
    except OSError:
        time.sleep(0.05)
' $port
  PTC_CASES=1 rank 1 2 1 "$build/tests/communicator_test" rank
  finish
  check "a stranger" all_right 2
else
  echo "skipped: python3 is not there to hold a port"
fi
echo "$passed passed, $failed failed"
