/* A task waits for a flag for some time, and takes its name off if the time is over. Signals end the wait of another kind.
 * -DLOST: a task that gives up says that it got what it waited for.
 */
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/jiffies.h>

struct slot {
	raw_spinlock_t lock;
	struct task_struct *waiter;
	int given, taken, gave_up;
};

static void wait_for_it(struct slot *slot)
{
	long left = msecs_to_jiffies(10);
	unsigned int state = knee_choose(2) ? TASK_INTERRUPTIBLE : TASK_UNINTERRUPTIBLE;

	raw_spin_lock(&slot->lock);
	while (!slot->given && left) {
		if (signal_pending_state(state, current)) {
			left = 0;
			break;
		}
		slot->waiter = current;
		__set_current_state(state);
		raw_spin_unlock(&slot->lock);
		left = schedule_timeout(left);
		raw_spin_lock(&slot->lock);
	}
	slot->waiter = NULL;
#ifdef LOST
	left = 1;
#endif
	if (left) {
		slot->taken++;
		BUG_ON(!slot->given);
	} else {
		slot->gave_up++;
	}
	raw_spin_unlock(&slot->lock);
}

static void give(struct slot *slot)
{
	raw_spin_lock(&slot->lock);
	slot->given = 1;
	if (slot->waiter)
		wake_up_process(slot->waiter);
	raw_spin_unlock(&slot->lock);
}

KNEE_OPERATION(struct slot, knee_cpu() == 0 ? give(shared) : knee_cpu() == 1 ? wait_for_it(shared) : (void)0)
KNEE_CHECK(struct slot, shared->taken + shared->gave_up == 1 && (!shared->taken || shared->given))
