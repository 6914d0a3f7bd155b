/* percpu_down_write, percpu_up_write, percpu_down_read and percpu_up_read. RCU is given. */
#define CONFIG_KNEE_RCU 1
#include <knee_kernel.h>
/* A sum over CPUs reads counters that others change. */
#undef per_cpu
#define per_cpu(x, cpu) (*(volatile __typeof__(x) *)per_cpu_ptr(&(x), cpu))
#include KNEE_FILE

KNEE_LOCK(struct percpu_rw_semaphore, percpu_down_write(lock), percpu_up_write(lock))
KNEE_READ_LOCK(struct percpu_rw_semaphore, percpu_down_read(lock), percpu_up_read(lock))
KNEE_PREPARE(struct percpu_rw_semaphore, percpu_init_rwsem(lock))
KNEE_AT_REST(struct percpu_rw_semaphore, !percpu_is_write_locked(lock) && list_empty(&lock->waiters.head))
