/* A queued spinlock as the kernel's, for operations that take more than one lock or none of knee's: a word with a byte for the
 * holder and one for the next, and behind it a queue. The tail is a word of its own on the same line. A task waits for one such
 * lock at a time.
 */
#ifndef QUEUED_H
#define QUEUED_H

#include <knee_kernel.h>

#define QUEUED_LOCKED 0x1u
#define QUEUED_PENDING 0x100u

struct queued_waiter {
	struct queued_waiter *next;
	u32 may_go;
} ____cacheline_aligned;

struct queued {
	u32 word;
	struct queued_waiter *tail;
};

static _Thread_local struct queued_waiter queued_waiter;

static bool queued_try(struct queued *lock)
{
	u32 free = 0;

	return !READ_ONCE(lock->word) && !READ_ONCE(lock->tail) &&
	       try_cmpxchg_acquire(&lock->word, &free, QUEUED_LOCKED);
}

static void queued_wait(struct queued *lock)
{
	struct queued_waiter *self = &queued_waiter, *before, *next;
	u32 word;

	WRITE_ONCE(self->next, NULL);
	WRITE_ONCE(self->may_go, 0);
	before = xchg(&lock->tail, self);
	if (before) {
		WRITE_ONCE(before->next, self);
		smp_cond_load_acquire(&self->may_go, VAL);
	}
	for (;;) {
		word = smp_cond_load_acquire(&lock->word, !(VAL & (QUEUED_LOCKED | QUEUED_PENDING)));
		if (try_cmpxchg_acquire(&lock->word, &word, word | QUEUED_LOCKED))
			break;
	}
	next = READ_ONCE(self->next);
	if (!next) {
		if (cmpxchg(&lock->tail, self, NULL) == self)
			return;
		next = smp_cond_load_relaxed(&self->next, VAL);
	}
	smp_store_release(&next->may_go, 1);
}

static void queued_take(struct queued *lock)
{
	u32 word;

	if (queued_try(lock))
		return;
	if (READ_ONCE(lock->word) & ~QUEUED_LOCKED || READ_ONCE(lock->tail)) {
		queued_wait(lock);
		return;
	}
	word = __atomic_fetch_or(&lock->word, QUEUED_PENDING, __ATOMIC_ACQUIRE);
	if (word & QUEUED_PENDING) {
		queued_wait(lock);
		return;
	}
	smp_cond_load_acquire(&lock->word, !(VAL & QUEUED_LOCKED));
	WRITE_ONCE(*(u16 *)&lock->word, QUEUED_LOCKED);
}

static void queued_release(struct queued *lock)
{
	smp_store_release((u8 *)&lock->word, 0);
}

#endif
