/* A semaphore whose waiters lie on their tasks' stacks, and whose tasks are woken through a wake queue after the spin lock is
 * released. -DNO_WAKE: the waker forgets the queue; -DLATE: it writes to the waiter once more, which may be gone then.
 */
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/sched/wake_q.h>
#include <linux/spinlock.h>

struct gate {
	raw_spinlock_t lock;
	bool taken;
	struct list_head waiters;
};

struct gate_waiter {
	struct list_head list;
	struct task_struct *task;
	bool is_first, up;
};

static void take(struct gate *gate)
{
	struct gate_waiter waiter;

	raw_spin_lock_irq(&gate->lock);
	if (!gate->taken) {
		gate->taken = true;
		raw_spin_unlock_irq(&gate->lock);
		return;
	}
	waiter.task = current;
	waiter.is_first = list_empty(&gate->waiters);
	waiter.up = false;
	list_add_tail(&waiter.list, &gate->waiters);
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		raw_spin_unlock_irq(&gate->lock);
		schedule();
		raw_spin_lock_irq(&gate->lock);
		if (waiter.up)
			break;
	}
	raw_spin_unlock_irq(&gate->lock);
}

static void release(struct gate *gate)
{
	DEFINE_WAKE_Q(wake_q);
	struct gate_waiter *waiter = NULL;

	raw_spin_lock_irq(&gate->lock);
	if (list_empty(&gate->waiters)) {
		gate->taken = false;
	} else {
		waiter = list_first_entry(&gate->waiters, struct gate_waiter, list);
		list_del(&waiter->list);
		waiter->up = true;
		wake_q_add(&wake_q, waiter->task);
	}
	raw_spin_unlock_irq(&gate->lock);
#ifndef NO_WAKE
	wake_up_q(&wake_q);
#endif
#ifdef LATE
	if (waiter)
		waiter->is_first = false;
#endif
}

KNEE_LOCK(struct gate, take(lock), release(lock))
KNEE_PREPARE(struct gate, INIT_LIST_HEAD(&lock->waiters))
KNEE_AT_REST(struct gate, !lock->taken && list_empty(&lock->waiters))
