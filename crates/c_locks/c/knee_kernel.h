/* knee_kernel.h: the words of the Linux kernel that locks are written with, so that a file of kernel/locking compiles
 * as it is. READ_ONCE and WRITE_ONCE are relaxed accesses; smp_rmb and smp_wmb are acquire and release fences where C11's
 * rules are asked for; accesses to another task's per-CPU variables come after the reads that their addresses depend on, as
 * in the kernel's memory model. Include it first; headers of the kernel that locks include stand for this one. Spin locks,
 * lists and sleeping tasks are there as far as locks use them inside; interrupts and preemption never come.
 */
#ifndef KNEE_KERNEL_H
#define KNEE_KERNEL_H

#include <assert.h>
#include <knee_lock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Tells knee that addresses order accesses. */
const char knee_kernel_words = 1;

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
#ifndef _LINUX_TYPES_H
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
#endif
typedef u64 aligned_u64 __attribute__((aligned(8)));
typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic64_t;
typedef atomic64_t atomic_long_t;

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define __pure __attribute__((pure))
#define __lockfunc
#define __ref
#define __must_check
#define __maybe_unused __attribute__((unused))
#define __used __attribute__((used))
#define __cold
#define __sched
#define __init
#define __aligned(x) __attribute__((aligned(x)))
#define __packed __attribute__((packed))
#define __acquires(x)
#define __releases(x)
#define __acquire(x) ((void)0)
#define __release(x) ((void)0)
#define __cond_acquires(...)
#define __force
#define __user
#define __rcu
#define __bitwise
#define __visible
#define __read_mostly
#define __ro_after_init
#define __init_or_module
#define __cacheline_aligned_in_smp ____cacheline_aligned
#define asmlinkage
#define notrace
#define __no_kcsan
#define __assume_ctx_lock(...)
#define __private
#define typeof __typeof__
#define fallthrough __attribute__((__fallthrough__))
#define __printf(a, b)
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define ____cacheline_aligned __attribute__((aligned(64)))
#define ____cacheline_aligned_in_smp ____cacheline_aligned
#define EXPORT_SYMBOL(x)
#define EXPORT_SYMBOL_GPL(x)
#define EXPORT_TRACEPOINT_SYMBOL_GPL(x)
struct file;
#define BUILD_BUG_ON(x) ((void)sizeof(char[1 - 2 * !!(x)]))
#define BUILD_BUG_ON_NOT_POWER_OF_2(n) BUILD_BUG_ON(((n) & ((n) - 1)) != 0)
#define compiletime_assert(x, text) BUILD_BUG_ON(!(x))
#define compiletime_assert_atomic_type(x) BUILD_BUG_ON(sizeof(x) > 8)
#ifndef static_assert
#define static_assert _Static_assert
#endif
#define BUG() assert(!"BUG()")
#define BUG_ON(x) assert(!(x))
#define WARN_ONCE(x, ...) WARN_ON(x)
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define BIT(n) (1UL << (n))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define WARN_ON(x) ({ bool knee_w = !!(x); assert(!knee_w && #x); knee_w; })
#define WARN_ON_ONCE(x) ({ bool knee_w = !!(x); assert(!knee_w && #x); knee_w; })
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
/* IS_ENABLED: whether a word of the configuration is defined as 1. */
#define knee_is_1_1 0,
#define knee_second(a, b, ...) b
#define knee_is_1_of(first) knee_second(first 1, 0, 0)
#define knee_is_1(x) knee_is_1_of(knee_is_1_##x)
#define IS_ENABLED(x) knee_is_1(x)

/* Configuration. */
#ifndef CONFIG_NR_CPUS
#define CONFIG_NR_CPUS 64
#endif
#define NR_CPUS CONFIG_NR_CPUS
#define __LITTLE_ENDIAN 1234
#ifndef CONFIG_SMP
#define CONFIG_SMP 1
#endif
#define CONFIG_64BIT 1
#define CONFIG_ARCH_USE_CMPXCHG_LOCKREF 1

/* Accesses. */
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define smp_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define smp_store_mb(x, v) ((void)__atomic_exchange_n(&(x), (v), __ATOMIC_RELAXED), smp_mb())
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
void knee_fence_loads(void);
void knee_fence_stores(void);
#define smp_rmb() knee_fence_loads()
#define smp_wmb() knee_fence_stores()
#define smp_mb__before_atomic() smp_mb()
#define smp_mb__after_atomic() smp_mb()
#define smp_mb__after_spinlock() smp_mb()
#define smp_mb__after_unlock_lock() smp_mb()
#define smp_acquire__after_ctrl_dep() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define barrier() __asm__ __volatile__("" : : : "memory")
#define cpu_relax() ((void)0)
#define prefetch(p) ((void)(p))
#define prefetchw(p) ((void)(p))

#define knee_cond_load(p, condition, order) ({ \
	__typeof__(p) knee_p = (p); \
	__typeof__(*knee_p) VAL; \
	for (;;) { \
		VAL = __atomic_load_n(knee_p, order); \
		if (condition) \
			break; \
	} \
	VAL; })
#define smp_cond_load_relaxed(p, condition) knee_cond_load(p, condition, __ATOMIC_RELAXED)
#define smp_cond_load_acquire(p, condition) knee_cond_load(p, condition, __ATOMIC_ACQUIRE)
#define atomic_cond_read_relaxed(v, condition) smp_cond_load_relaxed(&(v)->counter, condition)
#define atomic_cond_read_acquire(v, condition) smp_cond_load_acquire(&(v)->counter, condition)

/* Read-modify-writes of any word. Those without a suffix are full barriers, unless they fail. */
#define knee_full(access) ({ __auto_type knee_value = (access); smp_mb(); knee_value; })
#define knee_full_if(access) ({ bool knee_done = (access); if (knee_done) smp_mb(); knee_done; })
#define knee_xchg(p, v, order) __atomic_exchange_n((p), (v), order)
#define xchg(p, v) knee_full(knee_xchg(p, v, __ATOMIC_SEQ_CST))
#define xchg_acquire(p, v) knee_xchg(p, v, __ATOMIC_ACQUIRE)
#define xchg_release(p, v) knee_xchg(p, v, __ATOMIC_RELEASE)
#define xchg_relaxed(p, v) knee_xchg(p, v, __ATOMIC_RELAXED)
#define knee_cmpxchg(p, old, new, order) ({ \
	__typeof__(*(p)) knee_old = (old); \
	__atomic_compare_exchange_n((p), &knee_old, (new), 0, order, __ATOMIC_RELAXED); \
	knee_old; })
#define cmpxchg(p, o, n) ({ \
	__typeof__(*(p)) knee_found = (o); \
	knee_full_if(knee_try_cmpxchg(p, &knee_found, n, __ATOMIC_SEQ_CST)); \
	knee_found; })
#define cmpxchg_acquire(p, o, n) knee_cmpxchg(p, o, n, __ATOMIC_ACQUIRE)
#define cmpxchg_release(p, o, n) knee_cmpxchg(p, o, n, __ATOMIC_RELEASE)
#define cmpxchg_relaxed(p, o, n) knee_cmpxchg(p, o, n, __ATOMIC_RELAXED)
#define knee_try_cmpxchg(p, old, new, order) \
	__atomic_compare_exchange_n((p), (old), (new), 0, order, __ATOMIC_RELAXED)
#define try_cmpxchg(p, o, n) knee_full_if(knee_try_cmpxchg(p, o, n, __ATOMIC_SEQ_CST))
#define try_cmpxchg_acquire(p, o, n) knee_try_cmpxchg(p, o, n, __ATOMIC_ACQUIRE)
#define try_cmpxchg_release(p, o, n) knee_try_cmpxchg(p, o, n, __ATOMIC_RELEASE)
#define try_cmpxchg_relaxed(p, o, n) knee_try_cmpxchg(p, o, n, __ATOMIC_RELAXED)

#define cmpxchg64(p, o, n) cmpxchg(p, o, n)
#define cmpxchg64_relaxed(p, o, n) cmpxchg_relaxed(p, o, n)
#define try_cmpxchg64(p, o, n) try_cmpxchg(p, o, n)
#define try_cmpxchg64_relaxed(p, o, n) try_cmpxchg_relaxed(p, o, n)

/* atomic_t. */
#define ATOMIC_INIT(i) { (i) }
#define atomic_read(v) READ_ONCE((v)->counter)
#define atomic_read_acquire(v) smp_load_acquire(&(v)->counter)
#define atomic_set(v, i) WRITE_ONCE((v)->counter, (i))
#define atomic_set_release(v, i) smp_store_release(&(v)->counter, (i))
#define atomic_xchg(v, n) xchg(&(v)->counter, n)
#define atomic_xchg_acquire(v, n) xchg_acquire(&(v)->counter, n)
#define atomic_xchg_release(v, n) xchg_release(&(v)->counter, n)
#define atomic_xchg_relaxed(v, n) xchg_relaxed(&(v)->counter, n)
#define atomic_cmpxchg(v, o, n) cmpxchg(&(v)->counter, o, n)
#define atomic_cmpxchg_acquire(v, o, n) cmpxchg_acquire(&(v)->counter, o, n)
#define atomic_cmpxchg_release(v, o, n) cmpxchg_release(&(v)->counter, o, n)
#define atomic_cmpxchg_relaxed(v, o, n) cmpxchg_relaxed(&(v)->counter, o, n)
#define atomic_try_cmpxchg(v, o, n) try_cmpxchg(&(v)->counter, (int *)(o), n)
#define atomic_try_cmpxchg_acquire(v, o, n) try_cmpxchg_acquire(&(v)->counter, (int *)(o), n)
#define atomic_try_cmpxchg_release(v, o, n) try_cmpxchg_release(&(v)->counter, (int *)(o), n)
#define atomic_try_cmpxchg_relaxed(v, o, n) try_cmpxchg_relaxed(&(v)->counter, (int *)(o), n)
#define atomic_fetch_add(i, v) knee_full(__atomic_fetch_add(&(v)->counter, (i), __ATOMIC_SEQ_CST))
#define atomic_fetch_add_acquire(i, v) __atomic_fetch_add(&(v)->counter, (i), __ATOMIC_ACQUIRE)
#define atomic_fetch_add_release(i, v) __atomic_fetch_add(&(v)->counter, (i), __ATOMIC_RELEASE)
#define atomic_fetch_add_relaxed(i, v) __atomic_fetch_add(&(v)->counter, (i), __ATOMIC_RELAXED)
#define atomic_fetch_sub(i, v) knee_full(__atomic_fetch_sub(&(v)->counter, (i), __ATOMIC_SEQ_CST))
#define atomic_fetch_or(i, v) knee_full(__atomic_fetch_or(&(v)->counter, (i), __ATOMIC_SEQ_CST))
#define atomic_fetch_or_acquire(i, v) __atomic_fetch_or(&(v)->counter, (i), __ATOMIC_ACQUIRE)
#define atomic_fetch_or_release(i, v) __atomic_fetch_or(&(v)->counter, (i), __ATOMIC_RELEASE)
#define atomic_fetch_or_relaxed(i, v) __atomic_fetch_or(&(v)->counter, (i), __ATOMIC_RELAXED)
#define atomic_fetch_and(i, v) knee_full(__atomic_fetch_and(&(v)->counter, (i), __ATOMIC_SEQ_CST))
#define atomic_add(i, v) ((void)__atomic_fetch_add(&(v)->counter, (i), __ATOMIC_RELAXED))
#define atomic_sub(i, v) ((void)__atomic_fetch_sub(&(v)->counter, (i), __ATOMIC_RELAXED))
#define atomic_inc(v) atomic_add(1, v)
#define atomic_dec(v) atomic_sub(1, v)
#define atomic_or(i, v) ((void)__atomic_fetch_or(&(v)->counter, (i), __ATOMIC_RELAXED))
#define atomic_and(i, v) ((void)__atomic_fetch_and(&(v)->counter, (i), __ATOMIC_RELAXED))
#define atomic_andnot(i, v) atomic_and(~(i), v)
#define atomic_add_return(i, v) knee_full(__atomic_add_fetch(&(v)->counter, (i), __ATOMIC_SEQ_CST))
#define atomic_add_return_acquire(i, v) __atomic_add_fetch(&(v)->counter, (i), __ATOMIC_ACQUIRE)
#define atomic_add_return_release(i, v) __atomic_add_fetch(&(v)->counter, (i), __ATOMIC_RELEASE)
#define atomic_sub_return_release(i, v) __atomic_sub_fetch(&(v)->counter, (i), __ATOMIC_RELEASE)
#define atomic_sub_return(i, v) knee_full(__atomic_sub_fetch(&(v)->counter, (i), __ATOMIC_SEQ_CST))
#define atomic_inc_return(v) atomic_add_return(1, v)
#define atomic_dec_return(v) atomic_sub_return(1, v)
#define atomic_fetch_inc(v) atomic_fetch_add(1, v)
#define atomic_fetch_dec(v) atomic_fetch_sub(1, v)
#define atomic_fetch_andnot(i, v) atomic_fetch_and(~(i), v)
#define atomic_fetch_xor(i, v) knee_full(__atomic_fetch_xor(&(v)->counter, (i), __ATOMIC_SEQ_CST))
#define atomic_dec_and_test(v) (atomic_sub_return(1, v) == 0)
#define atomic_inc_and_test(v) (atomic_add_return(1, v) == 0)
#define atomic_fetch_add_unless(v, a, u) ({ \
	__typeof__((v)->counter) knee_c = atomic_read(v); \
	while (knee_c != (u) && !try_cmpxchg(&(v)->counter, &knee_c, knee_c + (a))) \
		; \
	knee_c; })
#define atomic_add_unless(v, a, u) (atomic_fetch_add_unless(v, a, u) != (u))
#define atomic_inc_not_zero(v) atomic_add_unless(v, 1, 0)

/* atomic_long_t. */
#define ATOMIC_LONG_INIT(i) { (i) }
#define atomic_long_read(v) atomic_read(v)
#define atomic_long_read_acquire(v) atomic_read_acquire(v)
#define atomic_long_set(v, i) atomic_set(v, i)
#define atomic_long_set_release(v, i) atomic_set_release(v, i)
#define atomic_long_xchg(v, n) atomic_xchg(v, n)
#define atomic_long_cmpxchg(v, o, n) atomic_cmpxchg(v, o, n)
#define atomic_long_cmpxchg_acquire(v, o, n) atomic_cmpxchg_acquire(v, o, n)
#define atomic_long_cmpxchg_release(v, o, n) atomic_cmpxchg_release(v, o, n)
#define atomic_long_cmpxchg_relaxed(v, o, n) atomic_cmpxchg_relaxed(v, o, n)
#define atomic_long_try_cmpxchg(v, o, n) try_cmpxchg(&(v)->counter, o, n)
#define atomic_long_try_cmpxchg_acquire(v, o, n) try_cmpxchg_acquire(&(v)->counter, o, n)
#define atomic_long_try_cmpxchg_release(v, o, n) try_cmpxchg_release(&(v)->counter, o, n)
#define atomic_long_try_cmpxchg_relaxed(v, o, n) try_cmpxchg_relaxed(&(v)->counter, o, n)
#define atomic_long_fetch_add(i, v) atomic_fetch_add(i, v)
#define atomic_long_fetch_add_acquire(i, v) atomic_fetch_add_acquire(i, v)
#define atomic_long_fetch_add_release(i, v) atomic_fetch_add_release(i, v)
#define atomic_long_fetch_add_relaxed(i, v) atomic_fetch_add_relaxed(i, v)
#define atomic_long_fetch_sub(i, v) atomic_fetch_sub(i, v)
#define atomic_long_fetch_or(i, v) atomic_fetch_or(i, v)
#define atomic_long_fetch_or_acquire(i, v) atomic_fetch_or_acquire(i, v)
#define atomic_long_fetch_or_release(i, v) atomic_fetch_or_release(i, v)
#define atomic_long_fetch_or_relaxed(i, v) atomic_fetch_or_relaxed(i, v)
#define atomic_long_fetch_and(i, v) atomic_fetch_and(i, v)
#define atomic_long_fetch_andnot(i, v) atomic_fetch_andnot(i, v)
#define atomic_long_xchg_acquire(v, n) atomic_xchg_acquire(v, n)
#define atomic_long_xchg_release(v, n) atomic_xchg_release(v, n)
#define atomic_long_xchg_relaxed(v, n) atomic_xchg_relaxed(v, n)
#define atomic_long_add(i, v) atomic_add(i, v)
#define atomic_long_sub(i, v) atomic_sub(i, v)
#define atomic_long_inc(v) atomic_inc(v)
#define atomic_long_inc_return_relaxed(v) __atomic_add_fetch(&(v)->counter, 1, __ATOMIC_RELAXED)
#define atomic_long_dec(v) atomic_dec(v)
#define atomic_long_or(i, v) atomic_or(i, v)
#define atomic_long_and(i, v) atomic_and(i, v)
#define atomic_long_andnot(i, v) atomic_andnot(i, v)
#define atomic_long_add_return(i, v) atomic_add_return(i, v)
#define atomic_long_add_return_relaxed(i, v) __atomic_add_fetch(&(v)->counter, (i), __ATOMIC_RELAXED)
#define atomic_long_sub_return(i, v) atomic_sub_return(i, v)
#define atomic_long_add_return_acquire(i, v) atomic_add_return_acquire(i, v)
#define atomic_long_add_return_release(i, v) atomic_add_return_release(i, v)
#define atomic_long_sub_return_release(i, v) atomic_sub_return_release(i, v)

/* Per-CPU variables: each task has its own. this_cpu_inc and the like are no atomic updates, but single loads and stores. */
#define __percpu
#define DECLARE_PER_CPU(type, name) extern _Thread_local __typeof__(type) name
#define DEFINE_PER_CPU(type, name) _Thread_local __typeof__(type) name
#define DEFINE_PER_CPU_ALIGNED(type, name) _Thread_local ____cacheline_aligned __typeof__(type) name
#define DEFINE_PER_CPU_SHARED_ALIGNED(type, name) DEFINE_PER_CPU_ALIGNED(type, name)
#define this_cpu_ptr(p) per_cpu_ptr(p, knee_cpu())
#define raw_cpu_ptr(p) this_cpu_ptr(p)
#define per_cpu_ptr(p, cpu) ((__typeof__(p))knee_of_cpu((p), (cpu)))
#define per_cpu(x, cpu) (*per_cpu_ptr(&(x), cpu))
#define this_cpu_read(x) READ_ONCE(*this_cpu_ptr(&(x)))
#define this_cpu_write(x, v) WRITE_ONCE(*this_cpu_ptr(&(x)), v)
#define this_cpu_add(x, n) ({ \
	__typeof__(&(x)) knee_x = this_cpu_ptr(&(x)); \
	WRITE_ONCE(*knee_x, READ_ONCE(*knee_x) + (n)); })
#define this_cpu_sub(x, n) this_cpu_add(x, -(n))
#define this_cpu_inc(x) this_cpu_add(x, 1)
#define this_cpu_dec(x) this_cpu_add(x, -1)
#define __this_cpu_read(x) this_cpu_read(x)
#define __this_cpu_write(x, v) this_cpu_write(x, v)
#define __this_cpu_inc(x) this_cpu_inc(x)
#define __this_cpu_dec(x) this_cpu_dec(x)
#define raw_cpu_read(x) this_cpu_read(x)
#define raw_cpu_write(x, v) this_cpu_write(x, v)
#define smp_processor_id() knee_cpu()
#define raw_smp_processor_id() knee_cpu()
#define numa_node_id() knee_node()
#define nr_cpu_ids NR_CPUS
#define trace_contention_begin(lock, flags) ((void)0)
#define trace_contention_end(lock, result) ((void)0)
#define preempt_disable() ((void)0)
#define preempt_enable() ((void)0)
#define local_irq_disable() ((void)0)
#define local_irq_enable() ((void)0)
#define local_irq_save(flags) ((void)((flags) = 0))
#define local_irq_restore(flags) ((void)(flags))
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define might_sleep() ((void)0)
#define cond_resched() ((void)0)
#define preempt_enable_no_resched() preempt_enable()
#define in_interrupt() 0
#define in_task() 1
/* Whether the task should give its CPU away, and whether a virtual CPU has lost its own: define them to try. */
#ifndef need_resched
#define need_resched() 0
#endif
#ifndef vcpu_is_preempted
#define vcpu_is_preempted(cpu) ((void)(cpu), 0)
#endif

/* Spin locks that a lock uses inside: a test-and-set lock, whose layouts are the kernel's as far as files look into them. */
struct knee_spinlock { u32 locked; };
typedef union { u32 locked; struct knee_spinlock raw_lock; } raw_spinlock_t;
typedef union { u32 locked; raw_spinlock_t rlock; } spinlock_t;
#define SPINLOCK_SIZE 4
#define __RAW_SPIN_LOCK_UNLOCKED(name) { 0 }
#define __SPIN_LOCK_UNLOCKED(name) { 0 }
typedef struct { u32 locked; } rwlock_t;
#define DEFINE_RAW_SPINLOCK(name) raw_spinlock_t name = { 0 }
#define DEFINE_SPINLOCK(name) spinlock_t name = { 0 }
static inline void knee_spin_lock(u32 *locked)
{
	while (xchg_acquire(locked, 1))
		smp_cond_load_relaxed(locked, !VAL);
}
static inline bool knee_spin_trylock(u32 *locked)
{
	return !READ_ONCE(*locked) && !xchg_acquire(locked, 1);
}
static inline void knee_spin_unlock(u32 *locked)
{
	smp_store_release(locked, 0);
}
#define raw_spin_lock_init(lock) WRITE_ONCE((lock)->locked, 0)
#define raw_spin_lock(lock) knee_spin_lock(&(lock)->locked)
#define raw_spin_lock_nested(lock, subclass) raw_spin_lock(lock)
#define raw_spin_trylock(lock) knee_spin_trylock(&(lock)->locked)
#define raw_spin_unlock(lock) knee_spin_unlock(&(lock)->locked)
#define raw_spin_is_locked(lock) READ_ONCE((lock)->locked)
#define raw_spin_lock_irq(lock) raw_spin_lock(lock)
#define raw_spin_unlock_irq(lock) raw_spin_unlock(lock)
#define raw_spin_lock_irqsave(lock, flags) (local_irq_save(flags), raw_spin_lock(lock))
#define raw_spin_unlock_irqrestore(lock, flags) (raw_spin_unlock(lock), local_irq_restore(flags))
#define spin_lock_init(lock) raw_spin_lock_init(lock)
#define spin_lock(lock) raw_spin_lock(lock)
#define spin_lock_nested(lock, subclass) raw_spin_lock(lock)
#define spin_trylock(lock) raw_spin_trylock(lock)
#define spin_unlock(lock) raw_spin_unlock(lock)
#define spin_is_locked(lock) raw_spin_is_locked(lock)
#define assert_raw_spin_locked(lock) BUG_ON(!raw_spin_is_locked(lock))
#define assert_spin_locked(lock) assert_raw_spin_locked(lock)
#define spin_lock_irq(lock) raw_spin_lock(lock)
#define spin_unlock_irq(lock) raw_spin_unlock(lock)
#define spin_lock_bh(lock) raw_spin_lock(lock)
#define spin_unlock_bh(lock) raw_spin_unlock(lock)
#define spin_lock_irqsave(lock, flags) raw_spin_lock_irqsave(lock, flags)
#define spin_unlock_irqrestore(lock, flags) raw_spin_unlock_irqrestore(lock, flags)

#include <knee_kernel_tasks.h>

#endif
