/* queued_spin_lock and queued_spin_unlock, without paravirtualisation. */
#include <knee_kernel.h>
#include <asm-generic/qspinlock.h>
#include KNEE_FILE

KNEE_LOCK(struct qspinlock, queued_spin_lock(lock), queued_spin_unlock(lock))
KNEE_AT_REST(struct qspinlock, atomic_read(&lock->val) == 0)
