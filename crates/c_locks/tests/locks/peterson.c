/* Peterson's lock for two tasks: it needs a full fence between its stores and its loads. */
#include <assert.h>
#include <knee_lock.h>
#include <stdatomic.h>

struct peterson_lock {
	atomic_int wants[2];
	atomic_int turn;
	int holders;
};

static void peterson_lock(struct peterson_lock *lock)
{
	int me = knee_cpu(), other = !me;

	atomic_store_explicit(&lock->wants[me], 1, memory_order_release);
	atomic_store_explicit(&lock->turn, other, memory_order_release);
#ifndef NO_FENCE
	atomic_thread_fence(memory_order_seq_cst);
#endif
	while (atomic_load_explicit(&lock->wants[other], memory_order_acquire) &&
	       atomic_load_explicit(&lock->turn, memory_order_acquire) == other)
		;
#ifdef WRONG
	assert(lock->holders++ == 1);
#endif
}

KNEE_LOCK(struct peterson_lock, peterson_lock(lock),
	  atomic_store_explicit(&lock->wants[knee_cpu()], 0, memory_order_release))
