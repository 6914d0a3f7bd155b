/* A wrong lock: tasks count themselves before they have it. */
#include <knee_lock.h>
#include <stdatomic.h>

struct plain_lock {
	atomic_int taken;
	int waiters;
};

static void plain_lock(struct plain_lock *lock)
{
	lock->waiters++;
	while (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
		while (atomic_load_explicit(&lock->taken, memory_order_relaxed))
			;
}

KNEE_LOCK(struct plain_lock, plain_lock(lock), atomic_store(&lock->taken, 0))
