/* osq_lock and osq_unlock: one task at a time comes to spin. The queue orders nothing else, so it is no lock for data. A task that
 * must not give its CPU away gets its turn in the end.
 */
#define CONFIG_LOCK_SPIN_ON_OWNER 1
#include <knee_kernel.h>
#include KNEE_FILE

struct knee_spinners { struct optimistic_spin_queue queue; int inside; };

static void knee_spin(struct knee_spinners *spinners)
{
	BUG_ON(!osq_lock(&spinners->queue));
	assert(__atomic_fetch_add(&spinners->inside, 1, __ATOMIC_RELAXED) == 0 && "one task at a time has the queue");
	__atomic_fetch_sub(&spinners->inside, 1, __ATOMIC_RELAXED);
	osq_unlock(&spinners->queue);
}

KNEE_OPERATION(struct knee_spinners, knee_spin(shared))
KNEE_CHECK(struct knee_spinners, atomic_read(&shared->queue.tail) == OSQ_UNLOCKED_VAL)
