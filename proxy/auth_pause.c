#include "proxy/auth_pause.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct paused {
	uint8_t credential[OP_CREDENTIAL_LEN];
	int refused;    /* in a row; 0: the place is free */
	usec_t until;   /* 0: not paused */
	usec_t met;     /* last refused or asked for */
	uint64_t probe; /* that is out; 0: none */
};

struct auth_pause {
	pthread_mutex_t lock;
	int after;
	int count;       /* paused ones */
	uint64_t probes; /* the last number given */
	struct paused places[AUTH_PAUSE_SETS][AUTH_PAUSE_WAYS];
};

struct auth_pause *auth_pause_new(int after)
{
	struct auth_pause *pause = calloc(1, sizeof(*pause));

	if (pause == NULL)
		return NULL;
	pthread_mutex_init(&pause->lock, NULL);
	pause->after = after;
	return pause;
}

void auth_pause_free(struct auth_pause *pause)
{
	if (pause == NULL)
		return;
	pthread_mutex_destroy(&pause->lock);
	free(pause);
}

/* A credential is an HMAC under a secret: any of its bytes spread evenly, and nobody can aim. */
static struct paused *set_of(struct auth_pause *pause, const uint8_t *credential)
{
	_Static_assert(AUTH_PAUSE_SETS <= 256, "one byte picks the set");

	return pause->places[credential[0] % AUTH_PAUSE_SETS];
}

static struct paused *find(struct auth_pause *pause, const uint8_t *credential)
{
	struct paused *set = set_of(pause, credential);

	for (int i = 0; i < AUTH_PAUSE_WAYS; i++) {
		if (set[i].refused > 0 &&
		    memcmp(set[i].credential, credential, OP_CREDENTIAL_LEN) == 0)
			return &set[i];
	}
	return NULL;
}

static void forget(struct auth_pause *pause, struct paused *place)
{
	if (place->until != 0)
		pause->count--;
	*place = (struct paused){.refused = 0};
}

/* Whether `a` is the better one to give way. */
static bool gives_way(const struct paused *a, const struct paused *b)
{
	if ((a->refused == 0) != (b->refused == 0))
		return a->refused == 0;
	if ((a->until == 0) != (b->until == 0))
		return a->until == 0;
	return a->met < b->met;
}

static struct paused *make(struct auth_pause *pause, const uint8_t *credential)
{
	struct paused *set = set_of(pause, credential), *place = &set[0];

	for (int i = 1; i < AUTH_PAUSE_WAYS; i++) {
		if (gives_way(&set[i], place))
			place = &set[i];
	}
	forget(pause, place);
	memcpy(place->credential, credential, OP_CREDENTIAL_LEN);
	return place;
}

bool auth_pause_enter(struct auth_pause *pause, const uint8_t credential[OP_CREDENTIAL_LEN],
		      usec_t now, uint64_t *ret_probe)
{
	struct paused *place;
	uint64_t probe = 0;
	bool may = true;

	pthread_mutex_lock(&pause->lock);
	place = find(pause, credential);
	if (place != NULL)
		place->met = now;
	if (place != NULL && place->until != 0) {
		may = now >= place->until && place->probe == 0;
		if (may)
			probe = place->probe = ++pause->probes;
	}
	pthread_mutex_unlock(&pause->lock);
	if (may)
		*ret_probe = probe;
	return may;
}

void auth_pause_probe_back(struct auth_pause *pause, const uint8_t credential[OP_CREDENTIAL_LEN],
			   uint64_t probe)
{
	struct paused *place;

	pthread_mutex_lock(&pause->lock);
	place = find(pause, credential);
	if (place != NULL && place->probe == probe)
		place->probe = 0;
	pthread_mutex_unlock(&pause->lock);
}

/* A 5xx, a 408 or a 425 may come from what stands in front of the check; a 429 counts requests of a
 * credential that is known, or of an address that is not. */
enum auth_report auth_report_of(const struct verdict *verdict)
{
	switch (verdict->class) {
	case CLASS_AUTH:
		return AUTH_REPORT_REFUSED;
	case CLASS_SUCCESS:
	case CLASS_INVALID:
	case CLASS_QUOTA:
	case CLASS_DEFERRED:
		return AUTH_REPORT_ACCEPTED;
	default:
		return AUTH_REPORT_NOTHING;
	}
}

static void refuse(struct auth_pause *pause, struct paused *place, usec_t now)
{
	place->met = now;
	if (place->refused < pause->after)
		place->refused++;
	if (place->refused < pause->after || now < place->until)
		return;
	if (place->until == 0)
		pause->count++;
	place->until = usec_add(now, AUTH_PAUSE_TIME);
	place->probe = 0;
}

void auth_pause_report(struct auth_pause *pause, const uint8_t credential[OP_CREDENTIAL_LEN],
		       enum auth_report report, usec_t now)
{
	struct paused *place;

	if (report == AUTH_REPORT_NOTHING)
		return;
	pthread_mutex_lock(&pause->lock);
	place = find(pause, credential);
	if (report == AUTH_REPORT_REFUSED)
		refuse(pause, place != NULL ? place : make(pause, credential), now);
	else if (place != NULL)
		forget(pause, place);
	pthread_mutex_unlock(&pause->lock);
}

void auth_pause_lift(struct auth_pause *pause, const uint8_t credential[OP_CREDENTIAL_LEN])
{
	struct paused *place;

	pthread_mutex_lock(&pause->lock);
	place = find(pause, credential);
	if (place != NULL)
		forget(pause, place);
	pthread_mutex_unlock(&pause->lock);
}

int auth_pause_count(struct auth_pause *pause)
{
	int count;

	if (pause == NULL)
		return 0;
	pthread_mutex_lock(&pause->lock);
	count = pause->count;
	pthread_mutex_unlock(&pause->lock);
	return count;
}
