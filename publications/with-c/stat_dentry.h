/* stat of one file: the walk compares the name in the dentry, takes a reference of it, reads its inode, and drops the reference.
 * With APART the name and what else the walk reads are not on the line of the count.
 */
#include "lockref.h"

struct dentry {
	u64 sequence, parent, name, inode;
#ifdef APART
	u64 filler[4];
#endif
	u64 count;
} ____cacheline_aligned;

static void walk(struct dentry *dentry)
{
	READ_ONCE(dentry->sequence);
	READ_ONCE(dentry->parent);
	READ_ONCE(dentry->name);
	READ_ONCE(dentry->inode);
	lockref_add(&dentry->count, 1);
	READ_ONCE(dentry->sequence);
}

AS_OPERATION(struct dentry, walk(lock), lockref_add(&lock->count, -1))
