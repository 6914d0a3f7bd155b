/* An object that readers find by a pointer, and that a writer takes away and uses again after a grace period.
 * -DNO_GRACE: without one.
 */
#define CONFIG_KNEE_RCU 1
#include <linux/rcupdate.h>
#include <linux/percpu.h>

struct box { int *current_object; int first, second; };

static void operate(struct box *box)
{
	int *object;

	if (knee_cpu() == 0) {
		rcu_assign_pointer(box->current_object, &box->second);
#ifndef NO_GRACE
		synchronize_rcu();
#endif
		box->first = 0;
		return;
	}
	rcu_read_lock();
	object = smp_load_acquire(&box->current_object);
	BUG_ON(*object != 1);
	rcu_read_unlock();
}

KNEE_OPERATION(struct box, operate(shared))
KNEE_PREPARE(struct box, (shared->first = shared->second = 1, shared->current_object = &shared->first))
