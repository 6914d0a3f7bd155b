#include <knee_kernel.h>
/* A queue as qspinlock's, with its word in one piece. CPU 0 is the pending task that becomes the holder, between the exchanges
 * of the tail by CPUs 1 (queues first) and 2 (links behind it). Where its update carries no order on, node 1 may be cleared
 * after it was linked: so in the kernel's model until Linux 6.2 (arXiv 2111.15240, github.com/huawei-drc/cna-verification). */
struct node { struct node *next; int locked; };
struct q { atomic_t val; struct node n[3]; };
static void pending(struct q *q)
{
	int v;

	while (!((v = atomic_read(&q->val)) >> 8))
		cpu_relax();
	atomic_cmpxchg_relaxed(&q->val, 1 << 8, (1 << 8) + 1);
}
static void queue(struct q *q, int me)
{
	int v = atomic_read(&q->val), old;

	WRITE_ONCE(q->n[me].next, NULL);
	smp_wmb();
	if (me == 2 && !(v & 1))
		return;
	old = atomic_cmpxchg_relaxed(&q->val, v, (v & 1) | me << 8);
	if (old != v)
		return;
	if (old >> 8)
		WRITE_ONCE(q->n[old >> 8].next, &q->n[me]);
	if (me == 1 && atomic_read(&q->val) >> 8 == 2)
		while (!READ_ONCE(q->n[1].next))
			cpu_relax();
}
KNEE_OPERATION(struct q, knee_cpu() ? queue(shared, knee_cpu()) : pending(shared))
