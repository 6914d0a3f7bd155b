/* A read-write lock of one word: readers come in whenever no writer is inside, so that a writer may wait for ever. */
#include <stdatomic.h>
#include <knee_lock.h>

#define WRITING 0x100

struct readers_first { atomic_uint state; };

static void read_lock(struct readers_first *lock)
{
	while (atomic_fetch_add_explicit(&lock->state, 1, memory_order_acquire) & WRITING) {
		atomic_fetch_sub_explicit(&lock->state, 1, memory_order_relaxed);
		while (atomic_load_explicit(&lock->state, memory_order_relaxed) & WRITING)
			;
	}
}

static void read_unlock(struct readers_first *lock)
{
	atomic_fetch_sub_explicit(&lock->state, 1, memory_order_release);
}

static void write_lock(struct readers_first *lock)
{
	unsigned int nobody = 0;

	while (!atomic_compare_exchange_strong_explicit(&lock->state, &nobody, WRITING, memory_order_acquire, memory_order_relaxed)) {
		while (atomic_load_explicit(&lock->state, memory_order_relaxed))
			;
		nobody = 0;
	}
}

static void write_unlock(struct readers_first *lock)
{
	atomic_fetch_sub_explicit(&lock->state, WRITING, memory_order_release);
}

KNEE_LOCK(struct readers_first, write_lock(lock), write_unlock(lock))
KNEE_READ_LOCK(struct readers_first, read_lock(lock), read_unlock(lock))
