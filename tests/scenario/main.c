/* scenario FILE.scn...: runs scenarios of the delivery machine, one line of result each. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/scenario/script.h"

int main(int argc, char **argv)
{
	struct script *script = calloc(1, sizeof(*script));
	int passed, failed;

	if (script == NULL)
		return 2;
	for (int i = 1; i < argc; i++) {
		if (!script_run(script, argv[i])) {
			printf("FAILED %s cannot be read\n", argv[i]);
			script->failed++;
		}
	}
	passed = script->passed;
	failed = script->failed;
	free(script);
	printf("%d passed, %d failed\n", passed, failed);
	return failed == 0 && passed > 0 ? 0 : 1;
}
