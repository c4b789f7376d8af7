#!/bin/bash
# The demonstration behind `make run`: the scripted provider, stint in front of it, and what to
# try. Both end with Ctrl-C (or SIGTERM).
set -uo pipefail

config=deploy/demo.yaml
provider_port=8399
listen_port=8380
admin_port=8381
ledger=build/run/ledger.db
python=/usr/bin/python3

die()
{
	echo "run: $*" >&2
	exit 1
}

# Whether something accepts on a port of the loopback address.
answers()
{
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

pids=()
stop()
{
	trap '' INT TERM
	[ ${#pids[@]} = 0 ] || kill -TERM "${pids[@]}" 2>/dev/null
	wait
}

# wait_for PORT PID WHAT: until it answers, or has ended, or 10 s have passed.
wait_for()
{
	for _ in $(seq 100); do
		answers "$1" && return
		kill -0 "$2" 2>/dev/null || break
		sleep 0.1
	done
	stop
	die "$3 did not start; what it said is above"
}

for port in $provider_port $listen_port $admin_port; do
	answers $port && die "port $port on 127.0.0.1 is taken: stop what listens there" \
		"(\`ss -ltnp sport = :$port\` names it) and try again"
done

trap 'stop; echo; echo "run: stopped"; exit 0' INT TERM
mkdir -p build/run

$python tests/provider/provider.py --port $provider_port --demo --honour-keys &
pids+=($!)
wait_for $provider_port $! "the scripted provider"
build/stint serve -c $config &
pids+=($!)
wait_for $listen_port $! "stint"

run=$(date +%H%M%S)
url=http://127.0.0.1:$listen_port
cat <<EOF

stint listens on 127.0.0.1:$listen_port, in front of a scripted provider on port $provider_port; admin,
with /metrics and /v1/operations, on 127.0.0.1:$admin_port. Try, in another terminal:

1. The provider answers 503 twice, then 200. The caller waits, and sees one answer:
   curl -i -H 'Idempotency-Key: invoice-$run-a' -d amount=42 '$url/payments/charge?plan=flaky'

2. The provider does the work and its answer is lost. Nobody knows, and stint does not guess: it
   is unknown until somebody finds out, and is not sent again:
   curl -i -H 'Idempotency-Key: invoice-$run-b' -d amount=42 '$url/transfers/charge?plan=lost'

3. The first one once more: answered from the ledger (Stint: replayed), nothing is sent:
   curl -i -H 'Idempotency-Key: invoice-$run-a' -d amount=42 '$url/payments/charge?plan=flaky'

The ledger is $ledger:
   sqlite3 -readonly $ledger 'SELECT key, state, class, attempts, unresolved FROM ops'
   curl -s http://127.0.0.1:$admin_port/v1/operations?state=unknown

Ctrl-C ends both.

EOF

wait -n "${pids[@]}"
stop
die "the provider or stint has ended"
