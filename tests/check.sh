#!/bin/bash
# The checks that the compiler does not make, one a call; `make check` runs all of them and sets
# the variables (CC, CPPFLAGS, CFLAGS, BIN, PURE, PURE_SRC).
#
#   tests/check.sh headers | rooms | pure | format | lint | config
set -uo pipefail

rooms=(classify budget proxy)
bad=0

fail()
{
	echo "check: $*" >&2
	bad=1
}

# Every header compiles alone, whatever a source includes before it.
check_headers()
{
	local header
	while read -r header; do
		# shellcheck disable=SC2086 # lists of flags
		printf '#include "%s"\n' "$header" |
			$CC $CPPFLAGS $CFLAGS -fsyntax-only -x c - || fail "$header does not compile alone"
	done < <(find "${rooms[@]}" -name '*.h' | sort)
}

# Dependencies run one way: proxy to budget and classify, budget to classify.
check_rooms()
{
	grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^">]*/)?proxy/' \
		-r classify budget --include='*.[ch]' && fail "budget/ or classify/ includes proxy/"
	grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^">]*/)?budget/' \
		-r classify --include='*.[ch]' && fail "classify/ includes budget/"
}

# Pure files see no library and no proxy header, by whatever detour; their objects take nothing
# from outside but what tests/pure.symbols lists, and hold nothing that can change.
check_pure()
{
	local source found
	local libraries='uv|microhttpd|sqlite3|yaml|jansson|hiredis|(curl|hiredis|openssl)/[a-z]*'
	for source in $PURE_SRC; do
		# shellcheck disable=SC2086
		found=$($CC $CPPFLAGS -M "$source" | tr ' ' '\n' |
			grep -E "(^|/)($libraries)\.h\$|^proxy/")
		[ -z "$found" ] || fail "$source is pure and includes" $found
	done

	found=$(comm -23 <(nm -u "$PURE" | awk 'NF == 2 && $1 == "U" {print $2}' | sort -u) \
		<({ nm --defined-only "$PURE" | awk 'NF == 3 {print $3}'
		    sed '/^#/d' tests/pure.symbols; } | sort -u))
	[ -z "$found" ] || {
		nm -Au "$PURE" | grep -wF "$found" >&2
		fail "pure objects use what tests/pure.symbols does not list:" $found
	}

	found=$(objdump -t "$PURE" | awk '$3 == "O" && $4 ~ /^\.(bss|data|tdata|tbss)$/ {print $NF}
		$2 == "O" && $3 ~ /^\*COM\*$/ {print $NF}
		$3 == "O" && $4 ~ /^\.(bss|data)\./ && $4 !~ /^\.data\.rel\.ro/ {print $NF}')
	[ -z "$found" ] || fail "pure objects hold mutable data:" $found
}

check_format()
{
	local version
	version=$(clang-format --version | grep -oE 'version [0-9]+' | cut -d' ' -f2)
	if [ "$version" != 14 ]; then
		echo "check: format skipped, it needs clang-format 14 and this is $version"
		return
	fi
	find "${rooms[@]}" tests -name '*.[ch]' -print0 | sort -z |
		xargs -0r clang-format --dry-run -Werror || fail "format: \`make format\` sets it right"
}

check_lint()
{
	mkdir -p build/cppcheck
	cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability \
		--inline-suppr --std=c11 -j "$(nproc)" --cppcheck-build-dir=build/cppcheck \
		-D_GNU_SOURCE -DSTINT_VERSION='"0"' -DSTINT_REVISION='"0"' -I. "${rooms[@]}" ||
		fail "cppcheck"
}

# The configurations that are shipped are good ones.
check_config()
{
	local file
	if [ ! -e "$BIN" ]; then
		echo "check: config skipped, $BIN is not built: its sources are missing"
		return
	fi
	for file in deploy/stint.yaml deploy/demo.yaml; do
		"$BIN" check -c "$file" || fail "$file is refused"
	done
}

"check_$1"
exit $bad
