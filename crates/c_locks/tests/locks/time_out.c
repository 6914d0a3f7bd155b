/* A mutex that sleeps for a limited time. LOST: it is released without a wake-up, which only the time-out hides. GIVES_UP: a task
 * that was not woken in time takes the lock by spinning. */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <knee_lock.h>

struct mutex { atomic_int state; };

static void take(struct mutex *mutex)
{
	const struct timespec limit = { .tv_nsec = 1000000 };
	int was = 0;

	if (atomic_compare_exchange_strong(&mutex->state, &was, 1))
		return;
	while (atomic_exchange(&mutex->state, 2)) {
		if (syscall(SYS_futex, &mutex->state, FUTEX_WAIT_PRIVATE, 2, &limit, NULL, 0) == 0)
			continue;
#ifdef GIVES_UP
		if (errno == ETIMEDOUT) {
			while (atomic_exchange(&mutex->state, 2))
				while (atomic_load(&mutex->state))
					;
			return;
		}
#endif
	}
}

static void give(struct mutex *mutex)
{
	int was = atomic_exchange(&mutex->state, 0);

#ifndef LOST
	if (was == 2)
		syscall(SYS_futex, &mutex->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
#endif
}

KNEE_LOCK(struct mutex, take(lock), give(lock))
KNEE_AT_REST(struct mutex, lock->state == 0)
