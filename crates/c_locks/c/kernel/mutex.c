/* mutex_lock and mutex_unlock, with tasks that spin while the owner runs, as on all hosts of several CPUs. */
#define CONFIG_MUTEX_SPIN_ON_OWNER 1
#define CONFIG_LOCK_SPIN_ON_OWNER 1
#define CONFIG_KNEE_SLICE 3
#include <knee_kernel.h>
#include KNEE_FILE

/* The queue of those that spin, which osq_lock.c is: one of them at a time, unless it has to give its CPU away. */
bool osq_lock(struct optimistic_spin_queue *queue)
{
	while (atomic_xchg_relaxed(&queue->tail, 1))
		if (need_resched())
			return false;
	return true;
}

void osq_unlock(struct optimistic_spin_queue *queue)
{
	atomic_set(&queue->tail, 0);
}

KNEE_LOCK(struct mutex, mutex_lock(lock), mutex_unlock(lock))
KNEE_PREPARE(struct mutex, mutex_init(lock))
KNEE_AT_REST(struct mutex, !mutex_is_locked(lock) && list_empty(&lock->wait_list))
/* A waiter that was woken looks whether it is the first, without the lock of the list. */
KNEE_ONCE(wait_list.next)
