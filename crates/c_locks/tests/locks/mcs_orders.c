/* An MCS lock whose orders are chosen by flags. PUBLISH is that of the store by which a waiter links its node behind another,
 * LOOK that of the load by which the holder finds it, AWAIT those of the loads by which it waits for one that is about to come.
 * With one of them relaxed, the holder may hand over before the waiter has begun to wait: the 0 that it stores comes before the 1
 * of the waiter, who waits for ever. FENCES: with one before a task begins to wait, and one before the holder does; AWAIT may then be
 * relaxed. */
#include <knee_lock.h>
#include <stdatomic.h>
#include <stddef.h>

#ifndef PUBLISH
#define PUBLISH release
#endif
#ifndef LOOK
#define LOOK acquire
#endif
#ifndef AWAIT
#define AWAIT acquire
#endif
#ifdef FENCES
#define fence(order) atomic_thread_fence(order)
#else
#define fence(order) ((void)0)
#endif
#define ORDER_(name) memory_order_##name
#define ORDER(name) ORDER_(name)

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

	atomic_store_explicit(&node->locked, 1, memory_order_relaxed);
	atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
	before = atomic_exchange_explicit(&lock->tail, node, memory_order_acq_rel);
	if (!before)
		return;
	atomic_store_explicit(&before->next, node, ORDER(PUBLISH));
	fence(memory_order_acq_rel);
	while (atomic_load_explicit(&node->locked, memory_order_acquire))
		;
}

static void mcs_unlock(struct mcs_lock *lock, struct mcs_node *node)
{
	struct mcs_node *next = atomic_load_explicit(&node->next, ORDER(LOOK));

	if (!next) {
		struct mcs_node *expected = node;

		if (atomic_compare_exchange_strong_explicit(&lock->tail, &expected, NULL,
							    memory_order_release,
							    memory_order_relaxed))
			return;
		fence(memory_order_acquire);
		while (!(next = atomic_load_explicit(&node->next, ORDER(AWAIT))))
			;
	}
	atomic_store_explicit(&next->locked, 0, memory_order_release);
}

static _Thread_local struct mcs_node node;

KNEE_LOCK(struct mcs_lock, mcs_lock(lock, &node), mcs_unlock(lock, &node))
KNEE_AT_REST(struct mcs_lock, lock->tail == NULL)
