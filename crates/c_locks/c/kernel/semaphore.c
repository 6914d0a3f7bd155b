/* down and up of a semaphore that one task holds at a time. */
#include <knee_kernel.h>
#include KNEE_FILE

KNEE_LOCK(struct semaphore, down(lock), up(lock))
KNEE_PREPARE(struct semaphore, sema_init(lock, 1))
KNEE_AT_REST(struct semaphore, lock->count == 1 && list_empty(&lock->wait_list))
