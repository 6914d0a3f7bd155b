/* Each task has a flag in an array of two; -DPLAIN: and a count behind the end of another. */
#include <stdatomic.h>
#include <knee_lock.h>

struct flags {
	atomic_int taken;
	_Atomic int wants[2];
	int seen[2];
};

static void take(struct flags *flags)
{
	atomic_store_explicit(&flags->wants[knee_cpu()], 1, memory_order_relaxed);
	while (atomic_exchange_explicit(&flags->taken, 1, memory_order_acquire))
		;
}

static void release(struct flags *flags)
{
#ifdef PLAIN
	flags->seen[2 + knee_cpu()]++;
#endif
	atomic_store_explicit(&flags->taken, 0, memory_order_release);
}

KNEE_LOCK(struct flags, take(lock), release(lock))
