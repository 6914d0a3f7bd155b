/* A count with a spinlock in one word, as a dentry has it: taken and dropped by compare-and-exchange. With PAUSE a task pauses after
 * each failure, 140 cycles: five locked instructions on a line of its own take as long. After 100 failures the kernel takes the
 * lock; here it goes on.
 */
#ifndef LOCKREF_H
#define LOCKREF_H

#include "operation.h"

struct own_line {
	u32 turns;
} ____cacheline_aligned;

static _Thread_local struct own_line own_line;

static void lose_time(void)
{
#ifdef PAUSE
	for (int turn = 0; turn < 5; turn++)
		__atomic_fetch_add(&own_line.turns, 1, __ATOMIC_RELAXED);
#endif
}

static void lockref_add(u64 *count, u64 by)
{
	u64 old = READ_ONCE(*count);

	while (!try_cmpxchg_relaxed(count, &old, old + by))
		lose_time();
}

#endif
