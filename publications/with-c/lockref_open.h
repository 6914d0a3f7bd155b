/* open and close of one file: the walk and the open file each take a reference of its dentry, and each drops it. */
#include "lockref.h"

struct dentry {
	u64 count;
} ____cacheline_aligned;

static void open_it(struct dentry *dentry)
{
	lockref_add(&dentry->count, 1);
	lockref_add(&dentry->count, 1);
	lockref_add(&dentry->count, -1);
}

AS_OPERATION(struct dentry, open_it(lock), lockref_add(&lock->count, -1))
