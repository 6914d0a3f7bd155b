/* A CLH lock: its first state is not zero, and its nodes lie on two cache lines each. */
#include <knee_lock.h>
#include "atomics.h"

struct clh_node {
	_Alignas(128) int locked;
};

struct clh_lock {
	struct clh_node *tail;
	struct clh_node first;
};

static _Thread_local struct clh_node own;
static _Thread_local struct clh_node *node, *before;

static void clh_lock(struct clh_lock *lock)
{
	if (!node)
		node = &own;
	node->locked = 1;
	before = swap(&lock->tail, node);
	while (load_acquire(&before->locked))
		;
}

static void clh_unlock(void)
{
	struct clh_node *mine = node;

	node = before;
	store_release(&mine->locked, 0);
}

KNEE_LOCK(struct clh_lock, clh_lock(lock), clh_unlock())
KNEE_PREPARE(struct clh_lock, lock->tail = &lock->first)
