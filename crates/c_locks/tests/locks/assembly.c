/* An MCS lock whose accesses are inline assembly, with the order that x86 gives them.
 *
 * knee_equivalent: relaxed | "movq $0, %0" | the exchange is a full barrier
 * knee_equivalent: relaxed | "movl $1, %0" | the exchange is a full barrier
 * knee_equivalent: off by one | "movl $1, %0" | every value but 0 means waiting
 * knee_equivalent: no release | "xchgq %0, %1" | the link to the node, which comes next, releases it
 * knee_equivalent: relaxed | "=m"(before->next) | the exchange is a full barrier, and the node has been ready since
 * knee_equivalent: no acquire | "lock; cmpxchgq %3, %1; setz %0" | a task that leaves reads nothing
 * knee_equivalent: relaxed | "=r"(next) | the exchange of the waiter is a full barrier, and it has come
 */
#include <knee_lock.h>

struct node {
	struct node *next;
	int waits;
};

struct mcs_lock {
	struct node *tail;
};

static _Thread_local struct node node;

static void mcs_lock(struct mcs_lock *lock)
{
	struct node *before = &node, *next;
	int waits;

	__asm__ volatile("movq $0, %0" : "=m"(node.next) : : "memory");
	__asm__ volatile("movl $1, %0" : "=m"(node.waits) : : "memory");
	__asm__ volatile("xchgq %0, %1" : "+r"(before), "+m"(lock->tail) : : "memory");
	if (!before)
		return;
	next = &node;
	__asm__ volatile("movq %1, %0" : "=m"(before->next) : "r"(next) : "memory");
	do {
		__asm__ volatile("rep; nop; movl %1, %0" : "=r"(waits) : "m"(node.waits) : "memory");
	} while (waits);
}

static void mcs_unlock(struct mcs_lock *lock)
{
	struct node *mine = &node, *next;
	unsigned char was_last;

	__asm__ volatile("lock; cmpxchgq %3, %1; setz %0"
			 : "=q"(was_last), "+m"(lock->tail), "+a"(mine)
			 : "r"((struct node *)0)
			 : "memory", "cc");
	if (was_last)
		return;
	do {
		__asm__ volatile("movq %1, %0" : "=r"(next) : "m"(node.next) : "memory");
	} while (!next);
	__asm__ volatile("movl $0, %0" : "=m"(next->waits) : : "memory");
}

KNEE_LOCK(struct mcs_lock, mcs_lock(lock), mcs_unlock(lock))
