#include "proxy/preset.h"

#include <stdio.h>
#include <string.h>

const struct preset *preset_find(const char *name)
{
	for (size_t i = 0; i < preset_count; i++)
		if (strcmp(presets[i].name, name) == 0)
			return &presets[i];
	return NULL;
}

void preset_names(char *ret_text, size_t len)
{
	size_t used = 0;

	if (len > 0)
		ret_text[0] = '\0';
	for (size_t i = 0; i < preset_count && used < len; i++) {
		int n = snprintf(ret_text + used, len - used, "%s%s", i > 0 ? ", " : "",
				 presets[i].name);

		used += n > 0 ? (size_t)n : 0;
	}
}
