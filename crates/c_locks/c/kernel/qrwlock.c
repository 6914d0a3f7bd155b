/* queued_write_lock, queued_write_unlock, queued_read_lock and queued_read_unlock. */
#include <knee_kernel.h>
#include <asm-generic/qrwlock.h>
#include KNEE_FILE

KNEE_LOCK(struct qrwlock, queued_write_lock(lock), queued_write_unlock(lock))
KNEE_READ_LOCK(struct qrwlock, queued_read_lock(lock), queued_read_unlock(lock))
KNEE_AT_REST(struct qrwlock, atomic_read(&lock->cnts) == 0)
