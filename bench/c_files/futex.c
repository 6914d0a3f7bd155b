/* 0 free, 1 taken, 2 taken and others may sleep. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
struct shared { word state; };

static void take(struct shared *lock)
{
	unsigned state = 0;

	if (replace_full(&lock->state, &state, 1))
		return;
#if FAULT == NOT_MARKED
	while (state = 0, !replace_full(&lock->state, &state, 1))
		syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, state, NULL, NULL, 0);
#elif FAULT == MARK_LOST
	do {
		if (state == 2 || swap_full(&lock->state, 2))
			syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
		state = 0;
	} while (!replace_full(&lock->state, &state, 1));
#else
	while (swap_full(&lock->state, 2))
		syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
#endif
}

static void give(struct shared *lock)
{
#if FAULT == NOT_WOKEN
	swap_full(&lock->state, 0);
#elif FAULT == NOT_RELEASED
	if (swap(&lock->state, 0) == 2)
		syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
#else
	if (swap_full(&lock->state, 0) == 2)
		syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
#endif
}

