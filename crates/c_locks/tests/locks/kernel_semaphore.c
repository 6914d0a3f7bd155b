/* A semaphore as the kernel writes them: a list of waiters under a spin lock, tasks that sleep and are woken. */
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

struct semaphore {
	raw_spinlock_t lock;
	bool taken;
	struct list_head waiters;
};

struct waiter {
	struct list_head list;
	struct task_struct *task;
	bool up;
};

static _Thread_local struct waiter waiter;

static void down(struct semaphore *sem)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&sem->lock, flags);
	if (!sem->taken) {
		sem->taken = true;
		raw_spin_unlock_irqrestore(&sem->lock, flags);
		return;
	}
	waiter.task = current;
	waiter.up = false;
	list_add_tail(&waiter.list, &sem->waiters);
	for (;;) {
#ifndef LATE_STATE
		__set_current_state(TASK_UNINTERRUPTIBLE);
#endif
		raw_spin_unlock_irq(&sem->lock);
#ifdef LATE_STATE
		__set_current_state(TASK_UNINTERRUPTIBLE);
#endif
		schedule();
		raw_spin_lock_irq(&sem->lock);
		if (waiter.up)
			break;
	}
	raw_spin_unlock_irqrestore(&sem->lock, flags);
}

static void up(struct semaphore *sem)
{
	raw_spin_lock(&sem->lock);
	if (list_empty(&sem->waiters)) {
		sem->taken = false;
	} else {
		struct waiter *first = list_first_entry(&sem->waiters, struct waiter, list);

		list_del(&first->list);
		first->up = true;
		wake_up_process(first->task);
	}
	raw_spin_unlock(&sem->lock);
}

KNEE_LOCK(struct semaphore, down(lock), up(lock))
KNEE_PREPARE(struct semaphore, INIT_LIST_HEAD(&lock->waiters))
KNEE_AT_REST(struct semaphore, !lock->taken && list_empty(&lock->waiters))
