/* A slot that one task fills and another empties, with a counter between. RELAXED_STORE, RELAXED_LOAD: what the counter does not order.
 * PLAIN: the counter is no atomic. */
#include <assert.h>
#include <stdatomic.h>
#include <knee_lock.h>

#ifdef RELAXED_STORE
#define STORE memory_order_relaxed
#else
#define STORE memory_order_release
#endif
#ifdef RELAXED_LOAD
#define LOAD memory_order_relaxed
#else
#define LOAD memory_order_acquire
#endif
#ifdef PLAIN
#define FILL(slots) ((slots)->filled++)
#define FILLED(slots) ((slots)->filled)
struct slots { int value[4]; unsigned int filled; };
#else
#define FILL(slots) atomic_fetch_add_explicit(&(slots)->filled, 1, STORE)
#define FILLED(slots) atomic_load_explicit(&(slots)->filled, LOAD)
struct slots { int value[4]; atomic_uint filled; };
#endif

static void put(struct slots *slots)
{
	slots->value[0] = 7;
	FILL(slots);
}

static void get(struct slots *slots)
{
	if (FILLED(slots))
		assert(slots->value[0] == 7);
}

KNEE_OPERATION(struct slots, knee_cpu() ? get(shared) : put(shared))
