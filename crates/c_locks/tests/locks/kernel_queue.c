/* A queue of per-CPU nodes, written with the kernel's words: the tail is a CPU's number plus one. RELAXED: the holder empties
 * the queue without ordering that after its own `locked`, so the next task may still find the lock free. (The kernel's lock takes
 * `locked` and the tail in one exchange of the word there.)
 *
 * knee_equivalent: off by one | WRITE_ONCE(lock->locked | every value but 0 means locked
 * knee_equivalent: off by one | smp_store_release(&next->locked | every value but 0 makes the waiter the first
 * knee_equivalent: relaxed | smp_store_release(&next->locked | the first in the queue acquires lock->locked next
 * knee_equivalent: relaxed | smp_cond_load_acquire(&node->locked | the first in the queue acquires lock->locked next
 * knee_equivalent: relaxed | xchg_acquire(&lock->tail | on x86 it is a full barrier
 * knee_equivalent: relaxed | empty(&lock->tail | on x86 it is a full barrier
 */
#include <knee_kernel.h>

struct queue_node {
	struct queue_node *next;
	int locked;
};

struct queue_lock {
	union {
		atomic_t val;
		struct {
			u8 locked;
			u8 unused;
			u16 tail;
		};
	};
};

#ifdef RELAXED
#define empty cmpxchg_relaxed
#else
#define empty cmpxchg_release
#endif

static DEFINE_PER_CPU_ALIGNED(struct queue_node, queue_node);

static void queue_lock(struct queue_lock *lock)
{
	struct queue_node *node = this_cpu_ptr(&queue_node), *next;
	u16 mine = smp_processor_id() + 1, before;

	node->locked = 0;
	node->next = NULL;
	/* Pairs with the address dependency below: others find our node ready. */
	smp_wmb();
	before = xchg_acquire(&lock->tail, mine);
	knee_arrive();
	if (before) {
		WRITE_ONCE(per_cpu_ptr(&queue_node, before - 1)->next, node);
		smp_cond_load_acquire(&node->locked, VAL);
	}
	/* We are the first in the queue. */
	smp_cond_load_acquire(&lock->locked, !VAL);
	WRITE_ONCE(lock->locked, 1);
	if (empty(&lock->tail, mine, 0) == mine)
		return;
	next = smp_cond_load_relaxed(&node->next, VAL);
	smp_store_release(&next->locked, 1);
}

static void queue_unlock(struct queue_lock *lock)
{
	smp_store_release(&lock->locked, 0);
}

KNEE_LOCK(struct queue_lock, queue_lock(lock), queue_unlock(lock))
KNEE_AT_REST(struct queue_lock, atomic_read(&lock->val) == 0)
