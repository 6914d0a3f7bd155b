/* An operation of the kernel as a load of a publication: many tasks are in it at a time, so it is the reading side of a read-write
 * lock, with `reads = 100`. The writing side is never used there; it makes the file a lock whose claims hold. It costs the
 * operation one locked instruction on a line of the task's own.
 *
 *     AS_OPERATION(type, begin, end)    expressions with `lock`, before and after the time inside
 */
#ifndef OPERATION_H
#define OPERATION_H

#include <knee_kernel.h>

struct inside {
	u32 is;
} ____cacheline_aligned;

static struct inside gate;
static _Thread_local struct inside inside;

static void enter(void)
{
	while (xchg(&inside.is, 1), READ_ONCE(gate.is)) {
		WRITE_ONCE(inside.is, 0);
		smp_cond_load_relaxed(&gate.is, !VAL);
	}
	smp_rmb();
}

static void leave(void)
{
	smp_store_release(&inside.is, 0);
}

static void stop_others(void)
{
	while (xchg(&gate.is, 1))
		smp_cond_load_relaxed(&gate.is, !VAL);
	for (int cpu = 0; cpu < knee_cpus(); cpu++) {
		struct inside *other = per_cpu_ptr(&inside, cpu);

		smp_cond_load_acquire(&other->is, !VAL);
	}
}

static void let_others(void)
{
	smp_store_release(&gate.is, 0);
}

#define AS_OPERATION(type, begin, end) \
	KNEE_LOCK(type, stop_others(), let_others()) \
	KNEE_READ_LOCK(type, (enter(), begin), (end, leave()))

#endif
