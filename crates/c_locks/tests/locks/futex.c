/* Drepper's mutex with three states: free, taken, and taken with tasks that sleep. With -DLOST a wake-up is lost. */
#include <errno.h>
#include <knee_lock.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef LOST
#define SLEEPERS 1
#else
#define SLEEPERS 2
#endif

struct mutex { atomic_int state; };

static void wait(struct mutex *mutex)
{
	if (syscall(SYS_futex, &mutex->state, FUTEX_WAIT_PRIVATE, SLEEPERS, NULL) && errno != EAGAIN) {
		perror("futex");
		exit(1);
	}
}

static void take(struct mutex *mutex)
{
	int state = 0;

	if (atomic_compare_exchange_strong(&mutex->state, &state, 1))
		return;
	sched_yield();
	while (atomic_exchange(&mutex->state, SLEEPERS))
		wait(mutex);
}

static void release(struct mutex *mutex)
{
	if (atomic_exchange(&mutex->state, 0) == 2)
		syscall(SYS_futex, &mutex->state, FUTEX_WAKE_PRIVATE, 1);
}

KNEE_LOCK(struct mutex, take(lock), release(lock))
KNEE_AT_REST(struct mutex, lock->state == 0)
