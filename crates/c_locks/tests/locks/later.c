/* A task reads a word plainly between a load of another one and a store to the first, which may be visible before that load. EARLY:
 * what the store is read as comes back by way of the other task. */
#include <assert.h>
#include <knee_lock.h>

struct words { int first, second; };

static void store(struct words *words)
{
	int before;

	__atomic_store_n(&words->first, 1, __ATOMIC_RELAXED);
	before = __atomic_load_n(&words->second, __ATOMIC_RELAXED);
	__asm__ volatile("" : : : "memory");
	assert(words->first == 1);
	__atomic_store_n(&words->first, 2, __ATOMIC_RELAXED);
#ifdef EARLY
	assert(before != 2);
#endif
	(void)before;
}

static void copy(struct words *words)
{
	__atomic_store_n(&words->second, __atomic_load_n(&words->first, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

KNEE_OPERATION(struct words, knee_cpu() ? copy(shared) : store(shared))
