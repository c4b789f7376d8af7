#!/bin/bash
# Runs test programs, counts their tests, and adds the counts up over several calls; the Makefile
# calls it once for each suite. MODE names the build that is tested.
#
#   start SECONDS             forgets earlier results; everything has to end within SECONDS
#   build SUITE CMD...        a command that must succeed; counts only if it does not
#   check NAME CMD...         one command, one test
#   program SUITE NAME CMD... a command that counts its own tests
#   live SUITE NAME CMD...    the same, its output shown as it comes
#   programs SUITE FILE...    each file is a program
#   total                     the table, the failures, "N passed, N failed"; fails if any failed
#
# All but `total` return 0 when a test fails, so that the next suite still runs.
set -uo pipefail

root=$PWD
results=$root/build/results
mode=${MODE:-release}
logs=$results/$mode
reports=$results/reports
each_limit=600
pytest_line='^(=+ )?[0-9]+ (passed|failed|errors?|skipped|xfailed|xpassed).* in [0-9.]+s'

# Sanitizers write to files: a report counts even if the program that made it was a child of a test
# that looks at neither its exit code nor its standard error. Not so end to end: there the harness
# reads what each stint wrote, and so can say which test it was.
sanitizer_options()
{
	local common=exitcode=86
	[ "$1" = live ] || common+=":log_path=$reports/san"
	export ASAN_OPTIONS="$common:detect_stack_use_after_return=1:strict_string_checks=1"
	export UBSAN_OPTIONS="$common:print_stacktrace=1"
	export TSAN_OPTIONS="$common:suppressions=$root/tests/tsan.supp:second_deadlock_stack=1"
	TSAN_OPTIONS+=":ignore_noninstrumented_modules=1"
}

# gcc 12's thread sanitizer cannot map its shadow where the kernel randomizes with 32 bits.
prefix=()
if [ "$mode" = san-thread ] && setarch -R true 2>/dev/null; then
	prefix=(setarch -R)
fi

# sum FILE PATTERN: adds up the numbers that the pattern's match holds.
sum()
{
	grep -oE "$2" "$1" | grep -oE '[0-9]+' | awk '{n += $1} END {print n + 0}'
}

# count LOG RC: sets passed, failed and skipped by what the program said; by its exit code alone
# where it said nothing. A bad exit code is a failure whatever it said.
count()
{
	local log=$1 rc=$2 line
	passed=0 failed=0 skipped=0
	if line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1) && [ -n "$line" ]; then
		passed=$(cut -d' ' -f1 <<<"$line")
		failed=$(cut -d' ' -f3 <<<"$line")
	elif grep -qE '^\[==========\]' "$log"; then # cmocka
		passed=$(grep -cE '^\[       OK \] ' "$log")
		failed=$(sum "$log" '^\[  FAILED  \] [0-9]+ test\(s\), listed')
		skipped=$(sum "$log" '^\[  SKIPPED \] [0-9]+ test\(s\), listed')
	elif line=$(grep -E "$pytest_line" "$log" | tail -n 1) && [ -n "$line" ]; then
		passed=$(sum <(echo "$line") '[0-9]+ (passed|xfailed|xpassed)')
		failed=$(sum <(echo "$line") '[0-9]+ (failed|errors?)')
		skipped=$(sum <(echo "$line") '[0-9]+ skipped')
	elif [ "$rc" = 0 ]; then
		passed=1
	fi
	if [ "$rc" != 0 ] && [ "$failed" = 0 ]; then
		failed=1
	fi
}

# record SUITE NAME PASSED FAILED SKIPPED SECONDS
record()
{
	echo "$mode $*" >>"$results/counts"
}

# run LOG HOW CMD...: sets rc. HOW is `quiet` or `live`.
run()
{
	local log=$1 how=$2 left pid
	shift 2
	left=$(($(cat "$results/deadline") - $(date +%s)))
	if [ "$left" -le 0 ]; then
		echo "not run: the time for all tests is over" >"$log"
		rc=124
		return
	fi
	if [ "$how" = quiet ] && [ "$left" -gt $each_limit ]; then
		left=$each_limit
	fi
	# Job control gives the program a process group of its own, which can be stopped as a whole,
	# and the default SIGINT, which a background job would otherwise ignore.
	set -m
	timeout --kill-after=10 "$left" "${prefix[@]}" "$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	trap 'kill -TERM $pid 2>/dev/null; wait $pid; exit 130' INT TERM
	if [ "$how" = live ]; then
		tail -n +1 -s 0.2 --pid=$pid -f "$log"
	fi
	wait $pid
	rc=$?
	trap - INT TERM
	if [ $rc = 124 ]; then
		echo "stopped: it took longer than $left s" >>"$log"
	fi
}

# suite_run SUITE NAME HOW CMD...
suite_run()
{
	local suite=$1 name=$2 how=$3 log=$logs/$1.$2.log began found
	shift 3
	mkdir -p "$logs" "$reports"
	rm -f "$reports"/san.*
	began=$(date +%s)
	run "$log" "$how" "$@"
	if [ "$suite" = check ]; then
		count /dev/null "$rc"
	else
		count "$log" "$rc"
	fi
	found=$(find "$reports" -name 'san.*' -size +0 | sort)
	if [ -n "$found" ]; then
		# shellcheck disable=SC2086 # a list of files
		cat $found >>"$log"
		failed=$((failed > 0 ? failed : 1))
	fi
	record "$suite" "$name" "$passed" "$failed" "$skipped" $(($(date +%s) - began))
	if [ "$failed" != 0 ]; then
		[ "$how" = live ] && [ -z "$found" ] || tail -n 200 "$log"
		echo "FAILED $mode $suite $name ($log)"
	elif [ "$how" = quiet ]; then
		echo "ok     $mode $suite $name: $passed passed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
		grep -h '^check: .*skipped' "$log"
	fi
	return 0
}

total()
{
	local passed failed
	passed=$(awk '{n += $4} END {print n + 0}' "$results/counts")
	failed=$(awk '{n += $5} END {print n + 0}' "$results/counts")
	echo
	awk '{k = $1 " " $2; if (!(k in p)) order[++n] = k
		p[k] += $4; f[k] += $5; s[k] += $6; t[k] += $7}
		END {printf "%-28s %7s %7s %7s %7s\n", "suite", "passed", "failed", "skipped", "seconds"
		for (i = 1; i <= n; i++) {k = order[i]
			printf "%-28s %7d %7d %7d %7d\n", k, p[k], f[k], s[k], t[k]}}' "$results/counts"
	awk '$5 > 0 {print "FAILED " $1 " " $2 " " $3}' "$results/counts"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
}

verb=$1
shift
sanitizer_options "$verb"
case $verb in
start)
	rm -rf "$results"
	mkdir -p "$results"
	: >"$results/counts"
	echo $(($(date +%s) + $1)) >"$results/deadline"
	;;
build)
	# Outside of the time limit's process group: a compiler ends by itself.
	suite=$1
	shift
	prefix=()
	"$@" || record "$suite" build 0 1 0 0
	;;
check)
	suite_run check "$1" quiet "${@:2}"
	;;
program)
	suite_run "$1" "$2" quiet "${@:3}"
	;;
live)
	suite_run "$1" "$2" live "${@:3}"
	;;
programs)
	suite=$1
	shift
	for file; do
		suite_run "$suite" "${file##*/}" quiet "$file"
	done
	;;
total)
	total
	;;
*)
	echo "run.sh: unknown verb $verb" >&2
	exit 2
	;;
esac
