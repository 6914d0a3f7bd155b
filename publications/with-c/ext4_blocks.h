/* Allocating and freeing two blocks of ext4, as fallocate and truncate of many small files do: the lock of a block group with the
 * lines of its bitmaps and counts, and the one lock of the file system, s_md_lock, for the group to begin with and for freed blocks.
 * A task frees where it allocated before. Groups never fill.
 *
 *     SKIP     a busy group is passed over                                    patch 1 of the series
 *     HINT     the group to begin with is one word without a lock             patch 4
 *     GOALS    each task has such a word of its own                           patch 5
 *     PENDING  the count of freed blocks is an atomic                         patch 8
 *     MERGE    a freed extent takes s_md_lock once, not twice                 patch 9
 */
#include "operation.h"
#include "queued.h"

#define GROUPS 128
#define LOCKS 128
#define LINES 6

struct line {
	u64 value;
} ____cacheline_aligned;

struct group_lock {
	struct queued lock;
} ____cacheline_aligned;

struct file_system {
	struct queued md_lock;
	u32 last_group, last_start;
	u64 freed, pending;
} ____cacheline_aligned;

struct allocation {
	u32 group;
} ____cacheline_aligned;

static struct line groups[GROUPS][LINES];
static struct group_lock group_locks[LOCKS];
static struct line pending;
static _Thread_local struct allocation goal, allocated;

static struct queued *lock_of(u32 group)
{
	return &group_locks[group % LOCKS].lock;
}

static void change(struct line *lines)
{
	for (int line = 0; line < LINES; line++)
		WRITE_ONCE(lines[line].value, READ_ONCE(lines[line].value) + 1);
}

static u32 first_group(struct file_system *fs)
{
#ifdef GOALS
	(void)fs;
	return READ_ONCE(goal.group);
#elif defined(HINT)
	return READ_ONCE(fs->last_group);
#else
	u32 group;

	queued_take(&fs->md_lock);
	group = READ_ONCE(fs->last_group);
	READ_ONCE(fs->last_start);
	queued_release(&fs->md_lock);
	return group;
#endif
}

static void remember_group(struct file_system *fs, u32 group)
{
#ifdef GOALS
	(void)fs;
	WRITE_ONCE(goal.group, group);
#elif defined(HINT)
	WRITE_ONCE(fs->last_group, group);
#else
	queued_take(&fs->md_lock);
	WRITE_ONCE(fs->last_group, group);
	WRITE_ONCE(fs->last_start, group);
	queued_release(&fs->md_lock);
#endif
}

static void allocate(struct file_system *fs)
{
	u32 group = first_group(fs);

#ifdef SKIP
	int tries = 0;

	while (!queued_try(lock_of(group))) {
		group = (group + 1) % GROUPS;
		if (++tries == GROUPS) {
			queued_take(lock_of(group));
			break;
		}
	}
#else
	queued_take(lock_of(group));
#endif
	change(groups[group]);
	queued_release(lock_of(group));
	remember_group(fs, group);
	WRITE_ONCE(allocated.group, group);
}

static void put_on_list(struct file_system *fs)
{
	queued_take(&fs->md_lock);
	WRITE_ONCE(fs->freed, READ_ONCE(fs->freed) + 1);
#ifndef PENDING
	WRITE_ONCE(fs->pending, READ_ONCE(fs->pending) + 2);
#endif
	queued_release(&fs->md_lock);
}

static void free_blocks(struct file_system *fs)
{
	u32 group = READ_ONCE(allocated.group);

	queued_take(lock_of(group));
	change(groups[group]);
	queued_release(lock_of(group));
#ifndef MERGE
	put_on_list(fs);
#endif
	put_on_list(fs);
#ifdef PENDING
	__atomic_fetch_add(&pending.value, 2, __ATOMIC_RELAXED);
#endif
}

AS_OPERATION(struct file_system, allocate(lock), free_blocks(lock))
