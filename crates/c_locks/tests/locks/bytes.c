/* A ticket lock that moves bytes of a local variable; with flags, beyond what is its own. */
#include <assert.h>
#include <knee_lock.h>
#include <stdatomic.h>
#include <string.h>

struct bytes_lock {
	atomic_uint next;
	atomic_uint serving;
};

/* A number of bytes that the compiler does not know. */
static size_t unknown(size_t bytes)
{
	__asm__("" : "+r"(bytes));
	return bytes;
}

static void bytes_lock(struct bytes_lock *lock)
{
	unsigned int mine = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);
	char local[8] = "abcdefg";

	while (atomic_load_explicit(&lock->serving, memory_order_acquire) != mine)
		;
	memmove(local + 1, local, unknown(6));
	assert(local[1] == 'a' && local[2] == 'b' && local[6] == 'f');
#ifdef BEYOND_LOCK
	memset(lock, 0, unknown(1 << 24));
#endif
#ifdef BEYOND_STACK
	memset(local, 0, unknown(1 << 16));
	assert(!local[0]);
#endif
}

static void bytes_unlock(struct bytes_lock *lock)
{
	unsigned int serving = atomic_load_explicit(&lock->serving, memory_order_relaxed);

	atomic_store_explicit(&lock->serving, serving + 1, memory_order_release);
}

KNEE_LOCK(struct bytes_lock, bytes_lock(lock), bytes_unlock(lock))
