/* A bit of a word as a lock, with the instructions of x86 for bits, beside a bit that is flipped. */
/* knee_equivalent: no release | while (set_bit( | taking the lock publishes nothing */
/* knee_equivalent: no acquire | lock; btrl | releasing it reads nothing */
/* knee_equivalent: torn | lock; btrl | others set only the bit that this clears, which is set */
/* knee_equivalent: torn | atomic_fetch_xor | only the holder flips */
#include <knee_lock.h>
#include <stdatomic.h>

struct bits { unsigned words[2]; atomic_uint flips; };

static int set_bit(unsigned *words, long bit)
{
	int was;

	__asm__ volatile("lock; btsl %2, %1\n\tsbbl %0, %0" : "=r"(was), "+m"(*words) : "r"((int)bit) : "memory", "cc");
	return was;
}

static void lock_bit(struct bits *bits)
{
	while (set_bit(bits->words, 35))
		while (*(volatile unsigned *)&bits->words[1] & 8)
			;
	atomic_fetch_xor_explicit(&bits->flips, 3, memory_order_relaxed);
}

static void unlock_bit(struct bits *bits)
{
	atomic_fetch_xor_explicit(&bits->flips, 3, memory_order_relaxed);
	__asm__ volatile("lock; btrl $3, %0" : "+m"(bits->words[1]) : : "memory", "cc");
}

KNEE_LOCK(struct bits, lock_bit(lock), unlock_bit(lock))
KNEE_AT_REST(struct bits, lock->words[0] == 0 && lock->words[1] == 0 && lock->flips == 0)
