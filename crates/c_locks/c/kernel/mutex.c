/* mutex_lock and mutex_unlock, with tasks that spin while the owner runs, as on all hosts of several CPUs. */
#define CONFIG_MUTEX_SPIN_ON_OWNER 1
#define CONFIG_LOCK_SPIN_ON_OWNER 1
#include <knee_kernel.h>
#include KNEE_FILE
#include <../kernel/locking/osq_lock.c>

KNEE_LOCK(struct mutex, mutex_lock(lock), mutex_unlock(lock))
KNEE_PREPARE(struct mutex, mutex_init(lock))
KNEE_AT_REST(struct mutex, !mutex_is_locked(lock) && list_empty(&lock->wait_list))
/* A waiter that was woken looks whether it is the first, without the lock of the list. */
KNEE_ONCE(wait_list.next)
