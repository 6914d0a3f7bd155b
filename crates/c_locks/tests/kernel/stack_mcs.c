/* An MCS lock whose node lies on the stack of the task that takes it: the holder gives its node up once it is inside, as in K42.
 * -DLATE: the hand-over looks at the node once more, when its task may have returned; -DRELAXED: it orders nothing.
 */
#include <knee_lock.h>
#include <stdatomic.h>
#include <stddef.h>

struct node {
	_Atomic(struct node *) next;
	atomic_int waits;
};

struct stack_mcs {
	_Atomic(struct node *) tail;
	/* The successor of the holder. */
	_Atomic(struct node *) next;
};

#ifdef RELAXED
#define HAND_OVER memory_order_relaxed
#else
#define HAND_OVER memory_order_release
#endif

/* In place of the tail while the lock is held without a successor. */
#define HELD(lock) ((struct node *)&(lock)->next)

static void take(struct stack_mcs *lock)
{
	struct node node, *before, *me;

	for (;;) {
		before = atomic_load_explicit(&lock->tail, memory_order_relaxed);
		if (before == NULL) {
			if (atomic_compare_exchange_strong_explicit(&lock->tail, &before, HELD(lock),
								    memory_order_acquire, memory_order_relaxed))
				return;
			continue;
		}
		atomic_init(&node.next, NULL);
		atomic_init(&node.waits, 1);
		if (!atomic_compare_exchange_strong_explicit(&lock->tail, &before, &node,
							     memory_order_acq_rel, memory_order_relaxed))
			continue;
		if (before == HELD(lock))
			atomic_store_explicit(&lock->next, &node, memory_order_release);
		else
			atomic_store_explicit(&before->next, &node, memory_order_release);
		while (atomic_load_explicit(&node.waits, memory_order_acquire))
			;
		me = &node;
		if (atomic_load_explicit(&node.next, memory_order_acquire) == NULL) {
			atomic_store_explicit(&lock->next, NULL, memory_order_relaxed);
			if (atomic_compare_exchange_strong_explicit(&lock->tail, &me, HELD(lock),
								    memory_order_release, memory_order_relaxed))
				return;
			while (atomic_load_explicit(&node.next, memory_order_acquire) == NULL)
				;
		}
		atomic_store_explicit(&lock->next, atomic_load_explicit(&node.next, memory_order_relaxed),
				      memory_order_relaxed);
		return;
	}
}

static void release(struct stack_mcs *lock)
{
	struct node *next = atomic_load_explicit(&lock->next, memory_order_acquire), *held = HELD(lock);

	if (next == NULL) {
		if (atomic_compare_exchange_strong_explicit(&lock->tail, &held, NULL, memory_order_release,
							    memory_order_relaxed))
			return;
		while ((next = atomic_load_explicit(&lock->next, memory_order_acquire)) == NULL)
			;
	}
	atomic_store_explicit(&next->waits, 0, HAND_OVER);
#ifdef LATE
	if (atomic_load(&next->next) == next)
		atomic_store(&lock->next, next);
#endif
}

KNEE_LOCK(struct stack_mcs, take(lock), release(lock))
KNEE_AT_REST(struct stack_mcs, lock->tail == NULL)
