/* A ticket lock: a task takes a number and waits until that number is served.
 *
 *     knee check my_lock.c                every interleaving of three tasks
 *     knee check my_lock.c --mutants      weakens one access after the other: does the search notice?
 *     knee simulate my_lock.c,mcs         operations per second on 1 to 128 CPUs, versus another lock
 */
#include <knee_lock.h>
#include <stdatomic.h>

struct ticket_lock {
	atomic_uint next;
	atomic_uint serving;
};

static void ticket_lock(struct ticket_lock *lock)
{
	unsigned int mine = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);

	/* The task has its place in the queue: one that overtakes it now is a fault. */
	knee_arrive();
	/* Pairs with the release in ticket_unlock. */
	while (atomic_load_explicit(&lock->serving, memory_order_acquire) != mine)
		__builtin_ia32_pause();
}

static void ticket_unlock(struct ticket_lock *lock)
{
	unsigned int serving = atomic_load_explicit(&lock->serving, memory_order_relaxed);

	atomic_store_explicit(&lock->serving, serving + 1, memory_order_release);
}

/* How to take and release the lock, and when it is free: see knee show knee_lock.h. */
KNEE_LOCK(struct ticket_lock, ticket_lock(lock), ticket_unlock(lock))
KNEE_AT_REST(struct ticket_lock, lock->next == lock->serving)
