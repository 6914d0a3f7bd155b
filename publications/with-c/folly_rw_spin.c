/* folly's RWSpinLock: a word with a bit for the writer and the number of readers, four of a count each. Nobody queues and nobody
 * backs off; a task that has tried 1000 times yields. */
#include <knee_lock.h>
#include <sched.h>
#include <stdatomic.h>

#define WRITER 1
#define READER 4

struct lock { atomic_int bits; };

static void yield_if_late(unsigned *tries)
{
	if (++*tries > 1000)
		sched_yield();
}

static void write_lock(struct lock *lock)
{
	unsigned tries = 0;
	int free = 0;

	while (!atomic_compare_exchange_strong_explicit(&lock->bits, &free, WRITER, memory_order_acq_rel,
							memory_order_acquire)) {
		yield_if_late(&tries);
		free = 0;
	}
}

static void write_unlock(struct lock *lock)
{
	atomic_fetch_and_explicit(&lock->bits, ~WRITER, memory_order_release);
}

static void read_lock(struct lock *lock)
{
	unsigned tries = 0;

	while (atomic_fetch_add_explicit(&lock->bits, READER, memory_order_acquire) & WRITER) {
		atomic_fetch_add_explicit(&lock->bits, -READER, memory_order_release);
		yield_if_late(&tries);
	}
}

static void read_unlock(struct lock *lock)
{
	atomic_fetch_add_explicit(&lock->bits, -READER, memory_order_release);
}

KNEE_LOCK(struct lock, write_lock(lock), write_unlock(lock))
KNEE_READ_LOCK(struct lock, read_lock(lock), read_unlock(lock))
