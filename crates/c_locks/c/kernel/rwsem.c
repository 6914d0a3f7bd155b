/* down_write, up_write, down_read and up_read, with writers that spin while the owner runs. */
#define CONFIG_RWSEM_SPIN_ON_OWNER 1
#define CONFIG_LOCK_SPIN_ON_OWNER 1
#include <knee_kernel.h>
#include KNEE_FILE
#include <../kernel/locking/osq_lock.c>

KNEE_LOCK(struct rw_semaphore, down_write(lock), up_write(lock))
KNEE_READ_LOCK(struct rw_semaphore, down_read(lock), up_read(lock))
KNEE_PREPARE(struct rw_semaphore, init_rwsem(lock))
KNEE_AT_REST(struct rw_semaphore, !rwsem_is_locked(lock) && list_empty(&lock->wait_list))
