/* A ticket lock: a task takes a number and waits until that number is served. */
#include <knee_lock.h>
#include <stdatomic.h>

struct ticket_lock {
	atomic_uint next;
	atomic_uint serving;
};

static void ticket_lock(struct ticket_lock *lock)
{
	unsigned int mine = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);

	knee_arrive();
	while (atomic_load_explicit(&lock->serving, memory_order_acquire) != mine)
		__builtin_ia32_pause();
}

static void ticket_unlock(struct ticket_lock *lock)
{
	unsigned int serving = atomic_load_explicit(&lock->serving, memory_order_relaxed);

	atomic_store_explicit(&lock->serving, serving + 1, memory_order_release);
}

KNEE_LOCK(struct ticket_lock, ticket_lock(lock), ticket_unlock(lock))
KNEE_AT_REST(struct ticket_lock, lock->next == lock->serving)
