/* An array lock with a slot for each CPU that the kernel could have: 16 KiB with CONFIG_NR_CPUS=256. */
#include <knee_kernel.h>
#include <knee_lock.h>

struct slot {
	int may_enter;
} __attribute__((aligned(64)));

static struct slot slots[NR_CPUS];
static _Thread_local unsigned int mine;

struct array_lock {
	unsigned int next;
};

static void set_up(struct array_lock *lock)
{
	slots[0].may_enter = 1;
}

static void take(struct array_lock *lock)
{
	mine = __atomic_fetch_add(&lock->next, 1, __ATOMIC_RELAXED) % NR_CPUS;
	while (!smp_load_acquire(&slots[mine].may_enter))
		;
	WRITE_ONCE(slots[mine].may_enter, 0);
}

static void release(struct array_lock *lock)
{
	smp_store_release(&slots[(mine + 1) % NR_CPUS].may_enter, 1);
}

KNEE_LOCK(struct array_lock, take(lock), release(lock))
KNEE_PREPARE(struct array_lock, set_up(lock))
