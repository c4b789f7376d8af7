/* The scenario language: one command a line, words and NAME=VALUE options; what nobody asked for is
 * refused with FILE:LINE. The commands are listed in script.c, the expectations in
 * script_expect.c. */
#ifndef STINT_TESTS_SCENARIO_SCRIPT_H
#define STINT_TESTS_SCENARIO_SCRIPT_H

#include "tests/scenario/sim.h"

#define SCRIPT_WORDS 96

struct script {
	const char *file;
	int line;
	struct sim sim;
	char name[256];  /* of the scenario */
	bool open;       /* a scenario is being run */
	char error[512]; /* its first failure, with FILE:LINE; "": none */
	int passed, failed;

	/* The line's words; those that were read are taken. */
	char *words[SCRIPT_WORDS];
	bool taken[SCRIPT_WORDS];
	int word_count;
};

/* Records the scenario's failure; only the first counts. Returns false. */
bool script_fail(struct script *script, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Runs a file; false: it cannot be read. */
bool script_run(struct script *script, const char *file);

/* The next word that is no option; NULL: there is none. */
const char *script_word(struct script *script);
/* The value of NAME=VALUE; NULL: not given. */
const char *script_option(struct script *script, const char *name);
/* A bare word anywhere in the line. */
bool script_flag(struct script *script, const char *name);
/* Options with a value of one kind; false: not given (or refused, and the scenario has failed). */
bool script_time(struct script *script, const char *name, usec_t *ret_time);
bool script_number(struct script *script, const char *name, int *ret_number);
bool script_bool(struct script *script, const char *name, bool *ret_value);
/* 30s, 250ms, 5m, 2h, 1d, 1.5s, never. */
bool script_parse_time(const char *text, usec_t *ret_time);

/* script_setup.c */
bool script_provider(struct script *script);
bool script_steps(struct script *script);
bool script_rule(struct script *script);
bool script_store(struct script *script);
/* script_expect.c */
bool script_expect(struct script *script);

/* script_commands.c */
bool script_instances(struct script *script);
bool script_deliver(struct script *script);
bool script_queue(struct script *script);
bool script_gone(struct script *script);
bool script_half(struct script *script);
bool script_crash(struct script *script);
bool script_start(struct script *script);
bool script_drain(struct script *script);
bool script_hold(struct script *script);
bool script_release(struct script *script);
bool script_reopen(struct script *script);
bool script_resolve(struct script *script);
bool script_probe(struct script *script);
bool script_finding(struct script *script);
bool script_retain(struct script *script);
bool script_pass(struct script *script);

#endif
