/* A hierarchical queued spinlock, after the description of Huawei's RFC of November 2025, in words of our own: the kernel's
 * queued lock, whose waiters queue by memory node. A waiter goes to the queue of its node; the first of a queue puts the node
 * in a queue of nodes. The first waiter of the first node waits for the lock word, takes it, and makes the next waiter of its
 * node the first, or the first of the next node, if its own has none or has had PASSES turns.
 *
 *     word    locked, pending, queued          as in the kernel; `queued` sends newcomers to the queues
 *     queues  tail of the waiters of a node    a line for each node, in its memory
 *     nodes   tail of the nodes                with what the RFC looks up before it queues
 *
 * A file that includes it says how many NODES there are and which is THIS_NODE.
 */
#include <knee_kernel.h>

#define LOCKED 0x1u
#define PENDING 0x100u
#define QUEUED 0x10000u
#define PASSES 1000

struct waiter {
	struct waiter *next;
	u32 may_go; /* 1: first in its node, which is first; 2: first in its node, which has to queue */
	u32 passed; /* how often the node has passed it on since its turn began */
} ____cacheline_aligned;

struct node_queue {
	struct waiter *tail;
	struct node_queue *next;
	u32 may_go;
} ____cacheline_aligned;

struct nodes {
	struct node_queue *tail;
	u32 generation;
} ____cacheline_aligned;

struct hq_lock {
	u32 word;
} ____cacheline_aligned;

static struct node_queue queues[NODES];
static struct nodes nodes;
static _Thread_local struct waiter waiter;

static void queue_node(struct hq_lock *lock, struct node_queue *queue)
{
	struct node_queue *before;

	WRITE_ONCE(queue->next, NULL);
	WRITE_ONCE(queue->may_go, 0);
	before = xchg(&nodes.tail, queue);
	if (before) {
		WRITE_ONCE(before->next, queue);
		smp_cond_load_acquire(&queue->may_go, VAL);
		return;
	}
	__atomic_fetch_or(&lock->word, QUEUED, __ATOMIC_RELAXED);
}

/* The next node's turn begins, if there is one. */
static void pass_to_next_node(struct hq_lock *lock, struct node_queue *queue)
{
	struct node_queue *next = READ_ONCE(queue->next);

	if (!next) {
		__atomic_fetch_and(&lock->word, ~QUEUED, __ATOMIC_RELAXED);
		if (cmpxchg(&nodes.tail, queue, NULL) == queue)
			return;
		__atomic_fetch_or(&lock->word, QUEUED, __ATOMIC_RELAXED);
		next = smp_cond_load_relaxed(&queue->next, VAL);
	}
	smp_store_release(&next->may_go, 1);
}

/* The task has the lock and stops being the first waiter. */
static void pass_on(struct hq_lock *lock, struct node_queue *queue, struct waiter *self)
{
	struct waiter *next = READ_ONCE(self->next);

	if (next && self->passed < PASSES) {
		WRITE_ONCE(next->passed, self->passed + 1);
		smp_store_release(&next->may_go, 1);
		return;
	}
	pass_to_next_node(lock, queue);
	if (!next) {
		if (cmpxchg(&queue->tail, self, NULL) == self)
			return;
		next = smp_cond_load_relaxed(&self->next, VAL);
	}
	WRITE_ONCE(next->passed, 0);
	smp_store_release(&next->may_go, 2);
}

static void hq_queue(struct hq_lock *lock)
{
	struct node_queue *queue = &queues[THIS_NODE];
	struct waiter *self = &waiter, *before;
	u32 word, may_go = 2;

	WRITE_ONCE(self->next, NULL);
	WRITE_ONCE(self->may_go, 0);
	WRITE_ONCE(self->passed, 0);
	READ_ONCE(nodes.generation);
	before = xchg(&queue->tail, self);
	if (before) {
		WRITE_ONCE(before->next, self);
		may_go = smp_cond_load_acquire(&self->may_go, VAL);
	}
	if (may_go == 2)
		queue_node(lock, queue);
	for (;;) {
		word = smp_cond_load_acquire(&lock->word, !(VAL & (LOCKED | PENDING)));
		if (try_cmpxchg(&lock->word, &word, word | LOCKED))
			break;
	}
	pass_on(lock, queue, self);
}

static void hq_take(struct hq_lock *lock)
{
	u32 word = READ_ONCE(lock->word);

	if (!word && try_cmpxchg_acquire(&lock->word, &word, LOCKED))
		return;
	if (word & ~LOCKED) {
		hq_queue(lock);
		return;
	}
	word = __atomic_fetch_or(&lock->word, PENDING, __ATOMIC_ACQUIRE);
	if (word & ~LOCKED) {
		if (!(word & PENDING))
			WRITE_ONCE(((u8 *)&lock->word)[1], 0);
		hq_queue(lock);
		return;
	}
	smp_cond_load_acquire(&lock->word, !(VAL & LOCKED));
	WRITE_ONCE(*(u16 *)&lock->word, LOCKED);
}

static void hq_release(struct hq_lock *lock)
{
	smp_store_release((u8 *)&lock->word, 0);
}

KNEE_LOCK(struct hq_lock, hq_take(lock), hq_release(lock))
KNEE_AT_REST(struct hq_lock, !(READ_ONCE(lock->word) & (LOCKED | PENDING)))
