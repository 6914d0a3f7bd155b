/* A spin lock with atomics on the stack of its task. WAITER: a waiter on the stack, which the task that releases the lock writes. */
#include <stdatomic.h>
#include <knee_lock.h>

struct waiter { atomic_int may_go; };
struct spin { atomic_int held; _Atomic(struct waiter *) waiter; };

static void take(struct spin *lock)
{
	struct waiter me = { 0 };
	atomic_int tries = 0;

	while (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire)) {
		atomic_fetch_add(&tries, 1);
#ifdef WAITER
		atomic_store(&lock->waiter, &me);
		while (!atomic_load(&me.may_go))
			;
#else
		atomic_store(&me.may_go, atomic_load(&tries));
		while (atomic_load_explicit(&lock->held, memory_order_relaxed))
			;
		tries = 0;
#endif
	}
}

static void give(struct spin *lock)
{
	struct waiter *waiter = atomic_exchange(&lock->waiter, 0);

	atomic_store_explicit(&lock->held, 0, memory_order_release);
	if (waiter)
		atomic_store(&waiter->may_go, 1);
}

KNEE_LOCK(struct spin, take(lock), give(lock))
