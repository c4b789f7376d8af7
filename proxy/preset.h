/* The presets of deploy/presets, compiled in: what is known of a provider, as the YAML of one entry
 * of `providers`. */
#ifndef STINT_PROXY_PRESET_H
#define STINT_PROXY_PRESET_H

#include <stddef.h>

struct preset {
	const char *name;
	const char *text; /* the whole file */
};

/* In the order of their names; made by deploy/presets/embed.sh. */
extern const struct preset presets[];
extern const size_t preset_count;

/* NULL if there is none of that name. */
const struct preset *preset_find(const char *name);
/* "adyen, anthropic, ...", cut where it does not fit. */
void preset_names(char *ret_text, size_t len);

#endif
