/* What `perf bench futex hash` does in the kernel with a bucket of the futex hash: FUTEX_WAIT of a word that has another value. Each
 * of `locks` is a bucket. A ticket lock stands for the bucket's spinlock, which seldom has a second waiter.
 *
 *     REFERENCES   the hash is the process's own and has a count of its users, one word for all tasks
 *     BACK         the bucket points back to its hash, and the pointer is loaded before and after
 *     BACK_APART   that pointer is on a line of its own, with the list
 */
#include <knee_kernel.h>

struct bucket {
	u32 waiters;
	u32 next, serving;
#ifdef BACK_APART
	u64 filler[6];
#endif
	void *chain[2];
	void *back;
} ____cacheline_aligned;

struct hash {
	u32 users;
	u32 mask;
} ____cacheline_aligned;

static struct hash hash;

static void take(struct bucket *bucket)
{
	u32 ticket;

	READ_ONCE(hash.mask);
#if defined(BACK) || defined(BACK_APART)
	READ_ONCE(bucket->back);
#endif
#ifdef REFERENCES
	__atomic_fetch_add(&hash.users, 1, __ATOMIC_RELAXED);
#endif
	__atomic_fetch_add(&bucket->waiters, 1, __ATOMIC_SEQ_CST);
	ticket = __atomic_fetch_add(&bucket->next, 1, __ATOMIC_RELAXED);
	smp_cond_load_acquire(&bucket->serving, VAL == ticket);
}

static void release(struct bucket *bucket)
{
	__atomic_fetch_sub(&bucket->waiters, 1, __ATOMIC_RELAXED);
	smp_store_release(&bucket->serving, READ_ONCE(bucket->serving) + 1);
#if defined(BACK) || defined(BACK_APART)
	READ_ONCE(bucket->back);
#endif
#ifdef REFERENCES
	__atomic_fetch_sub(&hash.users, 1, __ATOMIC_RELEASE);
#endif
}

KNEE_LOCK(struct bucket, take(lock), release(lock))
