# stint: `make` builds build/stint, `make test` tests it, `make help` lists the rest.
#
# Everything lands under build/$(MODE)/; SAN=address|undefined|thread is a mode of its own, and so
# is SAN=address,undefined, both in one build.

VERSION := 0.1.0
REVISION := $(or $(shell git rev-parse --short HEAD 2>/dev/null),unknown)

CC = gcc
AR = ar
PREFIX = /usr/local
PYTHON = /usr/bin/python3
JOBS := $(shell nproc 2>/dev/null || echo 2)
PYTEST_JOBS = 4

# --- mode and flags ---------------------------------------------------------------------------

SAN ?=
comma := ,
ifeq ($(filter $(SAN),address undefined thread address$(comma)undefined),)
ifneq ($(SAN),)
$(error SAN is address, undefined, thread or address$(comma)undefined, not "$(SAN)")
endif
endif
MODE ?= $(if $(SAN),san-$(subst $(comma),-,$(SAN)),release)

B := build/$(MODE)
BIN := $(if $(filter release,$(MODE)),build/stint,$(B)/stint)

# A warning is an error with the compiler that the tree is kept clean with (gcc 12, Debian 12);
# another compiler's new warning must not keep anybody from building. WERROR= switches it off.
WERROR ?= $(if $(filter 12,$(shell $(CC) -dumpversion 2>/dev/null)),-Werror)
WARN = -Wall -Wextra -Wconversion -Wshadow

ifeq ($(SAN),)
OPT = -O2
HARDEN = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
else
# The sanitizers' own instrumentation is what makes gcc 12 see uses before initialization.
OPT = -O1 -fno-omit-frame-pointer -fsanitize=$(SAN) -Wno-maybe-uninitialized
OPT += $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=all)
HARDEN =
endif

PKGS := libmicrohttpd libcurl libuv sqlite3 yaml-0.1 jansson libcrypto
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null)

ALL_CPPFLAGS = -D_GNU_SOURCE -I. $(PKG_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS = -std=c11 $(OPT) -g $(WARN) $(WERROR) $(HARDEN) -fPIE -pthread $(CFLAGS)
ALL_LDFLAGS = $(OPT) -pie -pthread -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)
BANNED := -include classify/banned.h
COMPILE = $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# --- sources ----------------------------------------------------------------------------------

# Pure files of budget/, by stem: STEM.c and STEM_*.c.
PURE_BUDGET := operation schedule gate delivery name

SRC := $(sort $(wildcard classify/*.c budget/*.c proxy/*.c proxy/*/*.c))
PURE_SRC := $(filter classify/%,$(SRC)) \
	$(foreach s,$(PURE_BUDGET),$(filter budget/$(s).c budget/$(s)_%.c,$(SRC)))
OBJ := $(SRC:%.c=$(B)/obj/%.o)
# The presets become C below $(B)/presets, and one object each.
PRESETS := $(sort $(wildcard deploy/presets/*.yaml))
PRESET_OBJ := $(PRESETS:deploy/presets/%.yaml=$(B)/obj/presets/%.o) $(B)/obj/presets/table.o
LIB_OBJ := $(filter-out $(B)/obj/proxy/main.o,$(OBJ)) $(PRESET_OBJ)
PURE_OBJ := $(PURE_SRC:%.c=$(B)/obj/%.o)
LIB := $(B)/libstint.a
PURE := $(B)/libpure.a

# A C file of tests/unit, tests/property and tests/fault that has a main is a program; the others
# of its directory are its helpers. A program whose first five lines say `pure-test` links with
# the pure objects only.
with_main = $(sort $(shell grep -lw '^int main' $(wildcard $(1)) /dev/null))
pure_only = $(shell for f in $(1); do head -n 5 $$f | grep -q pure-test && echo $$f; done)

UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
PROPERTY_SRC := $(call with_main,tests/property/*.c)
FAULT_SRC := $(call with_main,tests/fault/*.c)
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
SCENARIO_SRC := $(sort $(wildcard tests/scenario/*.c))
PROGRAM_SRC := $(UNIT_SRC) $(PROPERTY_SRC) $(FAULT_SRC)
PURE_TEST_SRC := $(call pure_only,$(PROGRAM_SRC))

unit_helpers := $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c))
property_helpers := $(filter-out $(PROPERTY_SRC),$(wildcard tests/property/*.c))
fault_helpers := $(filter-out $(FAULT_SRC),$(wildcard tests/fault/*.c))

UNIT := $(UNIT_SRC:tests/unit/%.c=$(B)/tests/%)
PROPERTY := $(PROPERTY_SRC:tests/%.c=$(B)/tests/%)
FAULT := $(FAULT_SRC:tests/%.c=$(B)/tests/%)
REPLAY := $(FUZZ_SRC:tests/%.c=$(B)/tests/%)
SCENARIO := $(if $(SCENARIO_SRC),$(B)/tests/scenario)
SCENARIOS := $(sort $(wildcard tests/scenario/*.scn))
TEST_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/unit/*.c tests/property/*.c \
	tests/fault/*.c tests/scenario/*.c tests/fuzz/*.c tests/bench/bench_classify.c))

E2E := $(filter-out tests/e2e/test_long_%,$(sort $(wildcard tests/e2e/test_*.py)))
E2E_LONG := $(sort $(wildcard tests/e2e/test_long_*.py))

# --- building ---------------------------------------------------------------------------------

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

.PHONY: all
all: $(BIN) ## build build/stint (with SAN=...: build/san-.../stint)

build/stint: build/release/stint
	@ln -f $< $@

$(B)/stint: $(B)/obj/proxy/main.o $(LIB)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS)

# $(call stamp,file,text): a file that changes only when its text does.
stamp = @mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' >$@

.PHONY: FORCE
FORCE:

$(B)/flags: FORCE
	@pkg-config --exists --print-errors $(PKGS) || { \
		echo "stint: libraries are missing; \`make deps\` installs them" >&2; exit 1; }
	$(call stamp,$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS))

$(B)/objects: FORCE
	$(call stamp,$(LIB_OBJ) $(PURE_OBJ))

$(B)/revision: FORCE
	$(call stamp,$(VERSION) $(REVISION))

$(LIB): $(LIB_OBJ) $(B)/objects
	@rm -f $@
	$(AR) rcs $@ $(LIB_OBJ)

$(PURE): $(PURE_OBJ) $(B)/objects
	@rm -f $@
	$(AR) rcs $@ $(PURE_OBJ)

$(OBJ): $(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE) $(BANNED)

$(B)/presets/%.c: deploy/presets/%.yaml deploy/presets/embed.sh
	@mkdir -p $(@D)
	@deploy/presets/embed.sh text $< >$@

$(B)/presets/list: FORCE
	$(call stamp,$(PRESETS))

$(B)/presets/table.c: $(B)/presets/list deploy/presets/embed.sh
	@deploy/presets/embed.sh table $(PRESETS) >$@

$(PRESET_OBJ): $(B)/obj/%.o: $(B)/%.c $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE) $(BANNED)

# One object knows the version, so that a commit does not rebuild the others.
# (private: its prerequisites, the flags' own record among them, keep the common flags.)
$(B)/obj/proxy/version.o: private ALL_CPPFLAGS += \
	-DSTINT_VERSION='"$(VERSION)"' -DSTINT_REVISION='"$(REVISION)"'
$(B)/obj/proxy/version.o: $(B)/revision

$(TEST_OBJ): $(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE)

-include $(OBJ:.o=.d) $(PRESET_OBJ:.o=.d) $(TEST_OBJ:.o=.d)

# --- test programs ----------------------------------------------------------------------------

# $(call program,source,binary,helpers)
define program
$(2): $(B)/obj/$(1:.c=.o) $(3:%.c=$(B)/obj/%.o) $(if $(filter $(1),$(PURE_TEST_SRC)),$(PURE),$(LIB))
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ -lcmocka \
		$(if $(filter $(1),$(PURE_TEST_SRC)),,$$(PKG_LIBS))
endef
# $(call programs,sources,directory that becomes $(B)/tests,helpers)
programs = $(foreach s,$(1),$(eval $(call program,$(s),$(s:$(2)/%.c=$(B)/tests/%),$(3))))
$(call programs,$(UNIT_SRC),tests/unit,$(unit_helpers))
$(call programs,$(PROPERTY_SRC),tests,$(property_helpers))
$(call programs,$(FAULT_SRC),tests,$(fault_helpers))

$(SCENARIO): $(SCENARIO_SRC:%.c=$(B)/obj/%.o) $(PURE)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^

# The fuzz targets as programs that replay their kept corpus.
$(B)/obj/tests/fuzz/%.o: private ALL_CPPFLAGS += -DFUZZ_REPLAY
$(REPLAY): $(B)/tests/fuzz/%: $(B)/obj/tests/fuzz/%.o $(PURE)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^

$(B)/tests/bench/bench_classify: $(B)/obj/tests/bench/bench_classify.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS)

# --- testing ----------------------------------------------------------------------------------

# Each step-% target runs one suite and records its counts; tests/run.sh adds them up. A failing
# suite does not keep the next one from running; the total fails.
RUN := MODE=$(MODE) tests/run.sh
SUB = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
RELEASE = $(SUB) SAN= MODE=release
PYTEST := $(PYTHON) -m pytest -q -n $(PYTEST_JOBS) -p no:cacheprovider
SUITES := unit property scenario fault replay
TEST_LIMIT := 880
LONG_LIMIT := 2640
LONG_PROPERTY_STEPS := 1000000

export PYTHONDONTWRITEBYTECODE := 1
export STINT_BIN := $(CURDIR)/$(BIN)
export STINT_MODE := $(MODE)

.PHONY: programs $(SUITES:%=programs-%) $(SUITES:%=step-%) step-build step-e2e step-e2e-long
programs: $(SUITES:%=programs-%)
programs-unit: $(UNIT)
programs-property: $(PROPERTY)
programs-scenario: $(SCENARIO)
programs-fault: $(FAULT)
programs-replay: $(REPLAY)

step-build:
	@echo "building $(MODE)"
	+@$(RUN) build build $(SUB) -s -k all programs

step-unit: SUITE_RUN = programs unit $(UNIT)
step-property: SUITE_RUN = programs property $(PROPERTY)
step-fault: SUITE_RUN = programs fault $(FAULT)
step-replay: SUITE_RUN = programs replay $(REPLAY)
step-scenario: SUITE_RUN = $(if $(SCENARIO),program scenario scenario $(SCENARIO) $(SCENARIOS))
$(SUITES:%=step-%): step-%:
	+@$(RUN) build $* $(SUB) -s -k programs-$*
	@$(if $(SUITE_RUN),$(RUN) $(SUITE_RUN))

step-e2e:
	@$(if $(E2E),$(RUN) live e2e pytest $(PYTEST) $(E2E))

step-e2e-long:
	@$(if $(E2E_LONG),$(RUN) live e2e-long pytest $(PYTEST) $(E2E_LONG))

.PHONY: test test-long test-steps test-long-steps $(SUITES) e2e e2e-long
test: deps ## all suites but the long ones, at most 15 minutes
	+@$(SUB) test-steps

test-steps:
	@$(RUN) start $(TEST_LIMIT)
	+@$(SUB) step-build
	+@$(RELEASE) step-check
	+@for s in $(SUITES) e2e; do $(SUB) step-$$s || exit; done
	@$(RUN) total

test-long: deps deps-long ## sanitizers, long runs and many property steps, at most 45 minutes
	+@STINT_PROPERTY_STEPS=$(LONG_PROPERTY_STEPS) $(RELEASE) test-long-steps

MODE_OF = san-$$(echo $$m | tr , -)
test-long-steps:
	@$(RUN) start $(LONG_LIMIT)
	+@for m in address,undefined thread; do \
		$(SUB) SAN=$$m MODE=$(MODE_OF) step-build || exit; \
		for s in $(SUITES) e2e; do $(SUB) SAN=$$m MODE=$(MODE_OF) step-$$s || exit; done; \
	done
	+@$(SUB) step-build
	+@for s in property e2e-long; do $(SUB) step-$$s || exit; done
	@$(RUN) total

$(SUITES): ## one suite alone
	@$(RUN) start $(TEST_LIMIT)
	+@$(SUB) step-$@
	@$(RUN) total

e2e e2e-long: $(BIN) ## the end-to-end suites alone
	@$(RUN) start $(LONG_LIMIT)
	+@$(SUB) step-$@
	@$(RUN) total

# --- checks -----------------------------------------------------------------------------------

CHECKS := headers rooms pure format lint config
CHECK = CC='$(CC)' CPPFLAGS='$(ALL_CPPFLAGS)' CFLAGS='-std=c11 $(WARN) -Werror' BIN=$(BIN) \
	PURE=$(PURE) PURE_SRC='$(PURE_SRC)' tests/check.sh

.PHONY: check step-check $(CHECKS:%=check-%)
check: ## what the build cannot see: rooms, purity, headers, format, lint, sample files
	@$(RUN) start $(TEST_LIMIT)
	+@$(RELEASE) step-check
	@$(RUN) total

step-check:
	+@for c in $(CHECKS); do $(RUN) check $$c $(SUB) -s check-$$c || exit; done

$(CHECKS:%=check-%): check-%:
	@$(CHECK) $*
check-pure: $(PURE)
check-config: $(if $(wildcard proxy/main.c),$(BIN))

# --- running ----------------------------------------------------------------------------------

.PHONY: run bench fuzz install clean format help deps deps-run deps-test deps-long deps-bench deps-fuzz
run: deps-run ## build, and run a demonstration with a scripted provider
	+@$(RELEASE) build/stint
	@exec tests/run-demo.sh

bench: deps-bench ## compare with nginx and other yardsticks on this machine
	+@$(RELEASE) build/stint build/release/tests/bench/bench_classify
	@build/release/tests/bench/bench_classify; rc=$$?; \
		$(PYTHON) tests/bench/bench.py && exit $$rc

# What a campaign finds stays below build/fuzz; what is worth keeping is copied into the corpus.
FUZZ_SECONDS := 60
FUZZ_CLANG := clang -g -O1 -std=c11 -D_GNU_SOURCE -I. \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
fuzz: deps-fuzz ## fuzz what reads replies with clang's libFuzzer, FUZZ_SECONDS for each target
	@set -e; for t in $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%); do \
		mkdir -p build/fuzz/$$t; \
		$(FUZZ_CLANG) -o build/fuzz/fuzz_$$t tests/fuzz/fuzz_$$t.c $(wildcard classify/*.c); \
		build/fuzz/fuzz_$$t -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -verbosity=0 \
			-print_final_stats=1 -artifact_prefix=build/fuzz/$$t- \
			build/fuzz/$$t tests/fuzz/corpus/$$t; \
	done

install: build/stint ## install under $(DESTDIR)$(PREFIX)
	install -D -m 755 build/stint $(DESTDIR)$(PREFIX)/bin/stint
	install -D -m 644 deploy/stint.yaml $(DESTDIR)$(PREFIX)/share/doc/stint/stint.yaml
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/stint/LICENSE
	@for man in $(wildcard deploy/*.[1-8]); do \
		install -D -m 644 $$man $(DESTDIR)$(PREFIX)/share/man/man$${man##*.}/$${man##*/}; \
	done

clean: ## remove build/
	rm -rf build

format: ## format every C file in place (clang-format 14)
	clang-format -i $(foreach d,classify budget proxy tests,$(shell find $(d) -name '*.[ch]'))

help: ## this list
	@sed -n 's/^\([a-z$$][^:=]*\):[^=#]*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		sed 's/$$(SUITES)/$(SUITES)/' | awk -F'|' '{printf "%-32s %s\n", $$1, $$2}'
	@echo "SAN=address|undefined|thread selects a sanitizer build; WERROR= lets warnings pass"

# --- Debian packages --------------------------------------------------------------------------

DEPS_RUN := ca-certificates gcc libc6-dev make pkg-config libmicrohttpd-dev libcurl4-openssl-dev libuv1-dev \
	libsqlite3-dev libyaml-dev libjansson-dev libssl-dev python3 sqlite3 curl
DEPS_TEST := $(DEPS_RUN) libcmocka-dev clang-format cppcheck python3-pytest python3-pytest-xdist \
	openssl nginx-light procps iproute2
# The SDKs of the long tests come from npm; any node of 18 or later on the PATH will do.
DEPS_LONG = $(if $(shell command -v node 2>/dev/null),,nodejs npm)
DEPS_BENCH := $(DEPS_RUN) wrk nginx-light procps iproute2

deps: deps-test ## install what is missing of the Debian packages (12 or 13)
deps-run:
	@tests/deps.sh $(DEPS_RUN)
deps-test:
	@tests/deps.sh $(DEPS_TEST)
deps-long:
	@tests/deps.sh $(DEPS_LONG)
deps-bench:
	@tests/deps.sh $(DEPS_BENCH)
deps-fuzz:
	@tests/deps.sh $(DEPS_RUN) clang
