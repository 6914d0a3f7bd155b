/* A ticket lock whose waiters sleep on one word, each for the bit of its ticket. WRONG_BIT: the wake-up is for another ticket. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <knee_lock.h>

#ifdef WRONG_BIT
#define NEXT 2
#else
#define NEXT 1
#endif

struct tickets { atomic_uint next, serving; };

static unsigned int bit(unsigned int ticket)
{
	return 1u << (ticket & 31);
}

static void take(struct tickets *lock)
{
	unsigned int mine = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed), now;

	while ((now = atomic_load_explicit(&lock->serving, memory_order_acquire)) != mine)
		syscall(SYS_futex, &lock->serving, FUTEX_WAIT_BITSET_PRIVATE, now, NULL, NULL, bit(mine));
}

static void give(struct tickets *lock)
{
	unsigned int now = atomic_load_explicit(&lock->serving, memory_order_relaxed);

	atomic_store_explicit(&lock->serving, now + 1, memory_order_release);
	syscall(SYS_futex, &lock->serving, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, bit(now + NEXT));
}

KNEE_LOCK(struct tickets, take(lock), give(lock))
