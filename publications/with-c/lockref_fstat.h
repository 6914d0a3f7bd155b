/* fstat of one open file as glibc 2.33 calls it: newfstatat with an empty path takes a reference of the file's dentry and drops it. */
#include "lockref.h"

struct dentry {
	u64 count;
} ____cacheline_aligned;

AS_OPERATION(struct dentry, lockref_add(&lock->count, 1), lockref_add(&lock->count, -1))
