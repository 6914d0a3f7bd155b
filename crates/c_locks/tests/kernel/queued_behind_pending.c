#include <knee_kernel.h>
#include <asm-generic/qspinlock.h>
#include "kernel/locking/qspinlock.c"

/* The lock begins free, with a task pending: task 0 is that one, where the holder has gone. Tasks 1 and 2 queue. */
static void operate(struct qspinlock *lock)
{
	if (knee_cpu() == 0)
		clear_pending_set_locked(lock);
	else
		queued_spin_lock_slowpath(lock, _Q_LOCKED_VAL | _Q_PENDING_VAL);
	queued_spin_unlock(lock);
}
KNEE_OPERATION(struct qspinlock, operate(shared))
KNEE_PREPARE(struct qspinlock, atomic_set(&lock->val, _Q_PENDING_VAL))
