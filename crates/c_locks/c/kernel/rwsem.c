/* down_write, up_write, down_read and up_read, with writers that spin while the owner runs. */
#define CONFIG_RWSEM_SPIN_ON_OWNER 1
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

KNEE_LOCK(struct rw_semaphore, down_write(lock), up_write(lock))
KNEE_READ_LOCK(struct rw_semaphore, down_read(lock), up_read(lock))
KNEE_PREPARE(struct rw_semaphore, init_rwsem(lock))
KNEE_AT_REST(struct rw_semaphore, !rwsem_is_locked(lock) && list_empty(&lock->wait_list))
/* A waiter looks without the lock of the list whether somebody has handed the semaphore over to it. */
KNEE_ONCE(waiter.handoff_set)
