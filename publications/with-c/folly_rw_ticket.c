/* folly's RWTicketSpinLock64, which favours readers: three counts in a word, of tickets taken and of those that readers and writers
 * may use. A task that finds another ticket in use tries again at once; a reader waits a moment first. */
#include <knee_lock.h>
#include <stdatomic.h>
#include <stdint.h>

union counts {
	uint64_t whole;
	struct { uint16_t write, read, users; } of;
};

struct lock {
	union {
		_Atomic uint64_t whole;
		_Atomic uint32_t read_write;
		_Atomic uint16_t write;
	};
};

static int try_write(struct lock *lock)
{
	union counts now = { .whole = atomic_load_explicit(&lock->whole, memory_order_acquire) }, next = now;

	if (now.of.users != now.of.write)
		return 0;
	next.of.users++;
	return atomic_compare_exchange_strong(&lock->whole, &now.whole, next.whole);
}

static int try_read(struct lock *lock)
{
	union counts now = { .whole = atomic_load_explicit(&lock->whole, memory_order_acquire) }, next;

	now.of.users = now.of.read;
	next = now;
	next.of.read++;
	next.of.users++;
	return atomic_compare_exchange_strong(&lock->whole, &now.whole, next.whole);
}

static void write_lock(struct lock *lock)
{
	while (!try_write(lock))
		;
}

static void write_unlock(struct lock *lock)
{
	union counts now = { .whole = atomic_load_explicit(&lock->whole, memory_order_acquire) };

	now.of.read++;
	now.of.write++;
	atomic_store_explicit(&lock->read_write, (uint32_t)now.whole, memory_order_release);
}

static void read_lock(struct lock *lock)
{
	while (!try_read(lock))
		__builtin_ia32_pause();
}

static void read_unlock(struct lock *lock)
{
	atomic_fetch_add(&lock->write, 1);
}

KNEE_LOCK(struct lock, write_lock(lock), write_unlock(lock))
KNEE_READ_LOCK(struct lock, read_lock(lock), read_unlock(lock))
