/* First writes to one mapping of all tasks, as threads: what pft, the page fault test of mmtests, does once. Each task
 * has a part of the mapping and gives it back when all of its pages were written. SPDX-License-Identifier: MIT OR
 * Apache-2.0 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "knee.h"

#define PART (64UL << 20) /* bytes of a task */
#define PAGE 4096UL

const char *const knee_description = "All threads write to pages of one mapping, each in a part of its own.";
const char *const knee_operation = "first write to a page; one madvise(MADV_DONTNEED) per 16384 of them";
const unsigned knee_semantics = 1;

static char *all;

struct task {
	char *part;
	unsigned long offset;
	long faults; /* of this thread before its first operation */
};

static long faults(void)
{
	struct rusage used;

	return getrusage(RUSAGE_THREAD, &used) ? -1 : used.ru_minflt;
}

int knee_prepare(const struct knee_run *run)
{
	errno = 0;
	if (!run->threads)
		return knee_fail("processes do not share the mapping: use threads");
	all = mmap(NULL, run->tasks * PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED || madvise(all, run->tasks * PART, MADV_NOHUGEPAGE))
		return knee_fail("mapping memory");
	return 0;
}

int knee_task(const struct knee_run *run, unsigned index, void **task)
{
	struct task *mine = calloc(1, sizeof(struct task));

	(void)run;
	if (!mine)
		return knee_fail("allocating a task");
	mine->part = all + index * PART;
	mine->faults = faults();
	*task = mine;
	return 0;
}

int knee_operate(void *task)
{
	struct task *mine = task;

	if (mine->offset == PART) {
		if (madvise(mine->part, PART, MADV_DONTNEED))
			return -1;
		mine->offset = 0;
	}
	*(volatile char *)(mine->part + mine->offset) = 1;
	mine->offset += PAGE;
	return 0;
}

int knee_verify(void *task, unsigned long long operations)
{
	struct task *mine = task;
	long since = faults() - mine->faults;

	errno = 0;
	if (since < 0 || (unsigned long long)since < operations)
		return knee_fail("%llu operations, but %ld faults", operations, since);
	return 0;
}
