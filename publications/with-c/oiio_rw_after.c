/* OpenImageIO's spin_rw_mutex since 2017: one word with a bit for the writer and a count of readers, who add themselves first and
 * look then. */
#include "backoff.h"
#include <knee_lock.h>
#include <stdatomic.h>

#define WRITER (1 << 30)

struct lock { atomic_int bits; };

static void read_lock(struct lock *lock)
{
	int pauses = 1, others;

	if (!(atomic_fetch_add_explicit(&lock->bits, 1, memory_order_acquire) & WRITER))
		return;
	others = (atomic_fetch_sub(&lock->bits, 1) - 1) & ~WRITER;
	while (!atomic_compare_exchange_strong_explicit(&lock->bits, &others, others + 1, memory_order_acquire,
							memory_order_relaxed)) {
		back_off(&pauses);
		others = atomic_load(&lock->bits) & ~WRITER;
	}
}

static void read_unlock(struct lock *lock)
{
	atomic_fetch_sub_explicit(&lock->bits, 1, memory_order_release);
}

static void write_lock(struct lock *lock)
{
	int pauses = 1, nobody = 0;

	while (!atomic_compare_exchange_strong_explicit(&lock->bits, &nobody, WRITER, memory_order_acquire,
							memory_order_relaxed)) {
		back_off(&pauses);
		nobody = 0;
	}
}

static void write_unlock(struct lock *lock)
{
	atomic_fetch_sub_explicit(&lock->bits, WRITER, memory_order_release);
}

KNEE_LOCK(struct lock, write_lock(lock), write_unlock(lock))
KNEE_READ_LOCK(struct lock, read_lock(lock), read_unlock(lock))
