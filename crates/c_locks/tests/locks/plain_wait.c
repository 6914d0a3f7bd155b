/* A wrong lock: the turn is a plain variable. */
#include <knee_lock.h>
#include <stdatomic.h>

struct plain_lock {
	atomic_int taken;
	int turn;
};

static void plain_lock(struct plain_lock *lock)
{
	while (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
		lock->turn++;
}

KNEE_LOCK(struct plain_lock, plain_lock(lock), atomic_store(&lock->taken, 0))
