/* osq_lock and osq_unlock: one task at a time comes to spin. The queue orders nothing else, so it is no lock for data. A task may
 * have to give its CPU away at any moment, and then leaves the queue.
 */
#define CONFIG_LOCK_SPIN_ON_OWNER 1
#define need_resched() knee_choose(2)
#include <knee_kernel.h>
#include KNEE_FILE

struct knee_spinners { struct optimistic_spin_queue queue; int inside; };

static void knee_spin(struct knee_spinners *spinners)
{
	if (!osq_lock(&spinners->queue))
		return;
	assert(__atomic_fetch_add(&spinners->inside, 1, __ATOMIC_RELAXED) == 0 && "one task at a time has the queue");
	__atomic_fetch_sub(&spinners->inside, 1, __ATOMIC_RELAXED);
	osq_unlock(&spinners->queue);
}

KNEE_OPERATION(struct knee_spinners, knee_spin(shared))
KNEE_CHECK(struct knee_spinners, atomic_read(&shared->queue.tail) == OSQ_UNLOCKED_VAL)
