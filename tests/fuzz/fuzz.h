/* A fuzz target is one function over bytes. With clang's libFuzzer it is a campaign (`make fuzz`);
 * with -DFUZZ_REPLAY it gets a main() that runs the files of the named directories through it, or of
 * its kept corpus (tests/fuzz/corpus/advice of fuzz_advice), and counts them as tests (`make test`).
 * A broken property aborts. */
#ifndef STINT_TESTS_FUZZ_FUZZ_H
#define STINT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#ifdef FUZZ_REPLAY
#include <dirent.h>
#include <string.h>

#define FUZZ_INPUT_MAX 65536

static inline int fuzz_replay_file(const char *name)
{
	FILE *in = fopen(name, "rb");
	uint8_t *room = malloc(FUZZ_INPUT_MAX);
	size_t size = in != NULL && room != NULL ? fread(room, 1, FUZZ_INPUT_MAX, in) : 0;
	/* a block of exactly its size, so that a sanitizer sees a byte too far */
	uint8_t *data = room != NULL ? malloc(size > 0 ? size : 1) : NULL;
	int bad = in == NULL || data == NULL;

	if (bad) {
		fprintf(stderr, "%s cannot be read\n", name);
	} else {
		memcpy(data, room, size);
		(void)LLVMFuzzerTestOneInput(data, size);
	}
	if (in != NULL)
		(void)fclose(in);
	free(room);
	free(data);
	return bad;
}

static inline int fuzz_replay_directory(const char *path, int *files)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	char name[4096];
	int bad = 0;

	if (directory == NULL) {
		fprintf(stderr, "%s is no directory\n", path);
		return 1;
	}
	while ((entry = readdir(directory)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		bad += fuzz_replay_file(name);
		(*files)++;
	}
	(void)closedir(directory);
	return bad;
}

int main(int argc, char **argv)
{
	const char *target = strstr(argv[0], "/fuzz_");
	char corpus[4096];
	int files = 0, bad = 0;

	(void)snprintf(corpus, sizeof(corpus), "tests/fuzz/corpus/%s",
		       target != NULL ? target + strlen("/fuzz_") : "");
	if (argc == 1)
		bad += fuzz_replay_directory(corpus, &files);
	for (int i = 1; i < argc; i++)
		bad += fuzz_replay_directory(argv[i], &files);
	if (files == 0)
		bad = 1;
	printf("%d passed, %d failed\n", files > bad ? files - bad : 0, bad);
	return bad > 0;
}
#endif

#endif
