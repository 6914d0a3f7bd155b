/* OpenImageIO's spin_rw_mutex until 2017: a test-and-set lock that readers take to count themselves, and that a writer keeps until
 * all readers have gone. Each on a line of its own. */
#include "backoff.h"
#include <knee_lock.h>
#include <stdatomic.h>
#include <stdbool.h>

struct lock {
	_Alignas(64) atomic_bool taken;
	_Alignas(64) atomic_int readers;
};

static void take(struct lock *lock)
{
	int pauses = 1;

	while (atomic_exchange_explicit(&lock->taken, true, memory_order_acquire)) {
		do
			back_off(&pauses);
		while (atomic_load_explicit(&lock->taken, memory_order_relaxed));
	}
}

static void release(struct lock *lock)
{
	atomic_store_explicit(&lock->taken, false, memory_order_release);
}

static void read_lock(struct lock *lock)
{
	take(lock);
	atomic_fetch_add(&lock->readers, 1);
	release(lock);
}

static void read_unlock(struct lock *lock)
{
	atomic_fetch_sub(&lock->readers, 1);
}

static void write_lock(struct lock *lock)
{
	take(lock);
	while (atomic_load(&lock->readers) > 0)
		;
}

KNEE_LOCK(struct lock, write_lock(lock), release(lock))
KNEE_READ_LOCK(struct lock, read_lock(lock), read_unlock(lock))
