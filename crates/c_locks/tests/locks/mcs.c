/* An MCS lock with C11 atomics: each waiter spins in a node of its own. */
#include <knee_lock.h>
#include <stdatomic.h>
#include <stddef.h>

struct mcs_node {
	struct mcs_node *_Atomic next;
	atomic_int locked;
};

struct mcs_lock {
	struct mcs_node *_Atomic tail;
};

static void mcs_lock(struct mcs_lock *lock, struct mcs_node *node)
{
	struct mcs_node *before;

	atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
	atomic_store_explicit(&node->locked, 1, memory_order_relaxed);
	before = atomic_exchange_explicit(&lock->tail, node, memory_order_acq_rel);
	knee_arrive();
	if (before) {
		atomic_store_explicit(&before->next, node, memory_order_release);
		while (atomic_load_explicit(&node->locked, memory_order_acquire))
			;
	}
}

static void mcs_unlock(struct mcs_lock *lock, struct mcs_node *node)
{
	struct mcs_node *next = atomic_load_explicit(&node->next, memory_order_acquire);

	if (!next) {
		struct mcs_node *expected = node;

		if (atomic_compare_exchange_strong_explicit(&lock->tail, &expected, NULL,
							    memory_order_release,
							    memory_order_relaxed))
			return;
		while (!(next = atomic_load_explicit(&node->next, memory_order_acquire)))
			;
	}
	atomic_store_explicit(&next->locked, 0, memory_order_release);
}

static _Thread_local struct mcs_node node;

KNEE_LOCK(struct mcs_lock, mcs_lock(lock, &node), mcs_unlock(lock, &node))
KNEE_AT_REST(struct mcs_lock, lock->tail == NULL)
