/* A counter in parts, one for each CPU, of memory that is allocated; bits of a word; and sums over all CPUs, which may be late but
 * never too large. -DSHARED: all tasks count in one part.
 */
#include <linux/percpu.h>
#include <linux/bitops.h>

struct counter { int *parts; unsigned long seen; };

static int sum(struct counter *counter)
{
	int cpu, all = 0;

	for_each_possible_cpu(cpu)
		all += READ_ONCE(*per_cpu_ptr(counter->parts, cpu));
	return all;
}

static void count(struct counter *counter)
{
#ifdef SHARED
	int *part = per_cpu_ptr(counter->parts, 0);

	WRITE_ONCE(*part, READ_ONCE(*part) + 1);
#else
	this_cpu_inc(*counter->parts);
#endif
	BUG_ON(test_and_set_bit(knee_cpu(), &counter->seen));
	BUG_ON(sum(counter) > knee_cpus());
}

KNEE_OPERATION(struct counter, count(shared))
KNEE_PREPARE(struct counter, shared->parts = alloc_percpu(int))
KNEE_CHECK(struct counter, sum(shared) == knee_cpus() && shared->seen == (1UL << knee_cpus()) - 1)
