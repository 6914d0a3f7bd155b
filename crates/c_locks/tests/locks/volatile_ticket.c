/* A ticket lock with volatile words and fences, as code from before C11 has it. */
#include <knee_lock.h>
#ifdef X86
KNEE_X86_ORDER
#endif

struct ticket_lock {
	volatile unsigned short next;
	volatile unsigned short serving;
};

static void ticket_lock(struct ticket_lock *lock)
{
	unsigned short mine = __sync_fetch_and_add(&lock->next, 1);

	while (lock->serving != mine)
		__asm__ volatile("pause" : : : "memory");
	__sync_synchronize();
}

static void ticket_unlock(struct ticket_lock *lock)
{
#ifndef NO_FENCE
	__sync_synchronize();
#endif
	lock->serving++;
}

KNEE_LOCK(struct ticket_lock, ticket_lock(lock), ticket_unlock(lock))
