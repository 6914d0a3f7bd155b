/* A ticket lock that is released by a plain store behind a barrier, as kernels do on x86: a race that its author accepts.
 * -DREFUSED: nobody said so.
 */
#include <knee_kernel.h>

struct plain_ticket { atomic_t next; unsigned int serving; };

static void take(struct plain_ticket *lock)
{
	unsigned int mine = atomic_fetch_inc(&lock->next);

	while (READ_ONCE(lock->serving) != mine)
		cpu_relax();
	smp_rmb();
}

static void release(struct plain_ticket *lock)
{
	smp_wmb();
	lock->serving++;
}

KNEE_LOCK(struct plain_ticket, take(lock), release(lock))
#ifndef REFUSED
KNEE_ONCE(serving)
#endif
