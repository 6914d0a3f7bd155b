/* BRAVO (Dice and Kogan 2019) over a read-write spin lock: readers that are alone leave their mark in a slot of their own, and a
 * writer looks into all of them. -DLOOK_ONCE: the writer looks into its own slot alone.
 */
/* knee_equivalent: relaxed | if (atomic_load(&lock->is_biased)) { | the second look decides */
/* knee_equivalent: off by one | atomic_store(&slot, NULL); | every value but the lock means that the slot is free */
/* knee_equivalent: relaxed | while ((readers = atomic_load(&lock->readers)) < 0) | the exchange after it acquires */
/* knee_equivalent: no release | while (!atomic_compare_exchange_strong(&lock->readers, | taking the lock publishes nothing */
/* knee_equivalent: skipped | atomic_store(&lock->is_biased, true); | without a bias all readers are counted */
/* knee_equivalent: off by one | atomic_store(&lock->is_biased, true); | every value but 0 is a bias */
/* knee_equivalent: no acquire | atomic_fetch_sub(&lock->readers, 1); | releasing the lock reads nothing */
/* knee_equivalent: relaxed | while (atomic_load(&lock->readers) != 0) | the exchange after it acquires */
/* knee_equivalent: relaxed | if (!atomic_load(&lock->is_biased)) | the exchange before it has acquired what readers wrote */
#include <knee_lock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct bravo {
	atomic_int readers;
	atomic_bool is_biased;
};

static _Thread_local _Atomic(struct bravo *) slot;
static _Thread_local bool is_fast;

#define slot_of(cpu) ((_Atomic(struct bravo *) *)knee_of_cpu(&slot, cpu))

static void read_lock(struct bravo *lock)
{
	int readers;

	if (atomic_load(&lock->is_biased)) {
		atomic_store(&slot, lock);
		if (atomic_load(&lock->is_biased)) {
			is_fast = true;
			return;
		}
		atomic_store(&slot, NULL);
	}
	is_fast = false;
	do {
		while ((readers = atomic_load(&lock->readers)) < 0)
			;
	} while (!atomic_compare_exchange_strong(&lock->readers, &readers, readers + 1));
	atomic_store(&lock->is_biased, true);
}

static void read_unlock(struct bravo *lock)
{
	if (is_fast)
		atomic_store(&slot, NULL);
	else
		atomic_fetch_sub(&lock->readers, 1);
}

static void write_lock(struct bravo *lock)
{
	int free = 0;

	while (!atomic_compare_exchange_strong(&lock->readers, &free, -1)) {
		while (atomic_load(&lock->readers) != 0)
			;
		free = 0;
	}
	if (!atomic_load(&lock->is_biased))
		return;
	atomic_store(&lock->is_biased, false);
#ifdef LOOK_ONCE
	for (int cpu = knee_cpu(); cpu == knee_cpu(); cpu++)
#else
	for (int cpu = 0; cpu < knee_cpus(); cpu++)
#endif
		while (atomic_load(slot_of(cpu)) == lock)
			;
}

KNEE_LOCK(struct bravo, write_lock(lock), atomic_store(&lock->readers, 0))
KNEE_READ_LOCK(struct bravo, read_lock(lock), read_unlock(lock))
KNEE_AT_REST(struct bravo, lock->readers == 0)
