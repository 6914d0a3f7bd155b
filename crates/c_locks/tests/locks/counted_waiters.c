/* Writers as folly's SharedMutex had them until April 2015 (commit b927c0557670): two bits beside that of the holder count the
 * sleeping waiters and saturate; each unlock takes one off and wakes one. A waiter that sleeps late, when the word has come
 * back to the value that it expects, is not counted: after two such waits nobody wakes it. */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/futex.h>
#include <knee_lock.h>

enum { HELD = 1, WAITER = 2, WAITERS = 3 * WAITER };
struct counted { atomic_uint state; };

static void counted_lock(struct counted *lock)
{
	unsigned state = atomic_load(&lock->state);

	for (;;) {
		while (state & HELD) {
			unsigned after = (state & WAITERS) == WAITERS ? state : state + WAITER;

			if (after != state && !atomic_compare_exchange_strong(&lock->state, &state, after))
				continue;
			syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, after, 0);
			state = atomic_load(&lock->state);
		}
		if (atomic_compare_exchange_strong(&lock->state, &state, state | HELD))
			return;
	}
}

static void counted_unlock(struct counted *lock)
{
	unsigned state = atomic_fetch_and(&lock->state, ~HELD) & ~HELD;

	while (state & WAITERS) {
		if ((state & WAITERS) != WAITERS && !atomic_compare_exchange_strong(&lock->state, &state, state - WAITER))
			continue;
		if (syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1) > 0)
			return;
		if (atomic_fetch_and(&lock->state, ~WAITERS) & WAITERS)
			syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1 << 30);
		return;
	}
}

KNEE_LOCK(struct counted, counted_lock(lock), counted_unlock(lock))
