/* A phase-fair read-write lock of four counters (Brandenburg and Anderson 2010): a writer lets in the readers that came before
 * it, and is let in before those that come after it. */
#include <knee_lock.h>
#include <stdatomic.h>

#define READER 0x100u
#define WRITER 0x3u
#define PRESENT 0x2u

struct phase_fair { atomic_uint readers_in, readers_out, writers_in, writers_out; };

static void read_lock(struct phase_fair *lock)
{
	unsigned writer = atomic_fetch_add_explicit(&lock->readers_in, READER, memory_order_acquire) & WRITER;

	if (writer)
		while ((atomic_load_explicit(&lock->readers_in, memory_order_acquire) & WRITER) == writer)
			;
}

static void read_unlock(struct phase_fair *lock)
{
	atomic_fetch_add_explicit(&lock->readers_out, READER, memory_order_release);
}

static void write_lock(struct phase_fair *lock)
{
	unsigned turn = atomic_fetch_add_explicit(&lock->writers_in, 1, memory_order_relaxed);

	while (atomic_load_explicit(&lock->writers_out, memory_order_acquire) != turn)
		;
#ifdef NO_PHASE
	unsigned writer = PRESENT;
#else
	unsigned writer = PRESENT | (turn & 1);
#endif
	unsigned readers = atomic_fetch_add_explicit(&lock->readers_in, writer, memory_order_acquire) & ~0xFFu;

	while (atomic_load_explicit(&lock->readers_out, memory_order_acquire) != readers)
		;
}

static void write_unlock(struct phase_fair *lock)
{
	unsigned turn = atomic_load_explicit(&lock->writers_out, memory_order_relaxed);

	atomic_fetch_and_explicit(&lock->readers_in, ~0xFFu, memory_order_release);
	atomic_store_explicit(&lock->writers_out, turn + 1, memory_order_release);
}

KNEE_LOCK(struct phase_fair, write_lock(lock), write_unlock(lock))
KNEE_READ_LOCK(struct phase_fair, read_lock(lock), read_unlock(lock))
