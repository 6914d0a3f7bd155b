/* knee_kernel.h: the words of the Linux kernel that locks are written with, so that a file of kernel/locking compiles
 * as it is. READ_ONCE and WRITE_ONCE are relaxed accesses; smp_rmb and smp_wmb are acquire and release fences; accesses
 * to another task's per-CPU variables come after the reads that their addresses depend on, as in the kernel's memory
 * model. Include it first; headers of the kernel that locks include stand for this one.
 */
#ifndef KNEE_KERNEL_H
#define KNEE_KERNEL_H

#include <assert.h>
#include <knee_lock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic64_t;
typedef atomic64_t atomic_long_t;

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define __pure __attribute__((pure))
#define __lockfunc
#define __ref
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define ____cacheline_aligned __attribute__((aligned(64)))
#define ____cacheline_aligned_in_smp ____cacheline_aligned
#define EXPORT_SYMBOL(x)
#define EXPORT_SYMBOL_GPL(x)
#define BUILD_BUG_ON(x) ((void)sizeof(char[1 - 2 * !!(x)]))
#define BUG_ON(x) assert(!(x))
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

/* Accesses. */
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define smp_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define smp_store_mb(x, v) (__atomic_store_n(&(x), (v), __ATOMIC_RELAXED), smp_mb())
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
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

/* Read-modify-writes of any word. */
#define knee_xchg(p, v, order) __atomic_exchange_n((p), (v), order)
#define xchg(p, v) knee_xchg(p, v, __ATOMIC_SEQ_CST)
#define xchg_acquire(p, v) knee_xchg(p, v, __ATOMIC_ACQUIRE)
#define xchg_release(p, v) knee_xchg(p, v, __ATOMIC_RELEASE)
#define xchg_relaxed(p, v) knee_xchg(p, v, __ATOMIC_RELAXED)
#define knee_cmpxchg(p, old, new, order) ({ \
	__typeof__(*(p)) knee_old = (old); \
	__atomic_compare_exchange_n((p), &knee_old, (new), 0, order, __ATOMIC_RELAXED); \
	knee_old; })
#define cmpxchg(p, o, n) knee_cmpxchg(p, o, n, __ATOMIC_SEQ_CST)
#define cmpxchg_acquire(p, o, n) knee_cmpxchg(p, o, n, __ATOMIC_ACQUIRE)
#define cmpxchg_release(p, o, n) knee_cmpxchg(p, o, n, __ATOMIC_RELEASE)
#define cmpxchg_relaxed(p, o, n) knee_cmpxchg(p, o, n, __ATOMIC_RELAXED)
#define knee_try_cmpxchg(p, old, new, order) \
	__atomic_compare_exchange_n((p), (old), (new), 0, order, __ATOMIC_RELAXED)
#define try_cmpxchg(p, o, n) knee_try_cmpxchg(p, o, n, __ATOMIC_SEQ_CST)
#define try_cmpxchg_acquire(p, o, n) knee_try_cmpxchg(p, o, n, __ATOMIC_ACQUIRE)
#define try_cmpxchg_release(p, o, n) knee_try_cmpxchg(p, o, n, __ATOMIC_RELEASE)
#define try_cmpxchg_relaxed(p, o, n) knee_try_cmpxchg(p, o, n, __ATOMIC_RELAXED)

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
#define atomic_fetch_add(i, v) __atomic_fetch_add(&(v)->counter, (i), __ATOMIC_SEQ_CST)
#define atomic_fetch_add_acquire(i, v) __atomic_fetch_add(&(v)->counter, (i), __ATOMIC_ACQUIRE)
#define atomic_fetch_add_release(i, v) __atomic_fetch_add(&(v)->counter, (i), __ATOMIC_RELEASE)
#define atomic_fetch_add_relaxed(i, v) __atomic_fetch_add(&(v)->counter, (i), __ATOMIC_RELAXED)
#define atomic_fetch_sub(i, v) __atomic_fetch_sub(&(v)->counter, (i), __ATOMIC_SEQ_CST)
#define atomic_fetch_or(i, v) __atomic_fetch_or(&(v)->counter, (i), __ATOMIC_SEQ_CST)
#define atomic_fetch_or_acquire(i, v) __atomic_fetch_or(&(v)->counter, (i), __ATOMIC_ACQUIRE)
#define atomic_fetch_or_release(i, v) __atomic_fetch_or(&(v)->counter, (i), __ATOMIC_RELEASE)
#define atomic_fetch_or_relaxed(i, v) __atomic_fetch_or(&(v)->counter, (i), __ATOMIC_RELAXED)
#define atomic_fetch_and(i, v) __atomic_fetch_and(&(v)->counter, (i), __ATOMIC_SEQ_CST)
#define atomic_add(i, v) ((void)__atomic_fetch_add(&(v)->counter, (i), __ATOMIC_RELAXED))
#define atomic_sub(i, v) ((void)__atomic_fetch_sub(&(v)->counter, (i), __ATOMIC_RELAXED))
#define atomic_inc(v) atomic_add(1, v)
#define atomic_dec(v) atomic_sub(1, v)
#define atomic_or(i, v) ((void)__atomic_fetch_or(&(v)->counter, (i), __ATOMIC_RELAXED))
#define atomic_and(i, v) ((void)__atomic_fetch_and(&(v)->counter, (i), __ATOMIC_RELAXED))
#define atomic_andnot(i, v) atomic_and(~(i), v)
#define atomic_add_return(i, v) __atomic_add_fetch(&(v)->counter, (i), __ATOMIC_SEQ_CST)
#define atomic_add_return_acquire(i, v) __atomic_add_fetch(&(v)->counter, (i), __ATOMIC_ACQUIRE)
#define atomic_add_return_release(i, v) __atomic_add_fetch(&(v)->counter, (i), __ATOMIC_RELEASE)
#define atomic_sub_return_release(i, v) __atomic_sub_fetch(&(v)->counter, (i), __ATOMIC_RELEASE)
#define atomic_dec_and_test(v) (__atomic_sub_fetch(&(v)->counter, 1, __ATOMIC_SEQ_CST) == 0)

/* Per-CPU variables: each task has its own. */
#define __percpu
#define DECLARE_PER_CPU(type, name) extern _Thread_local __typeof__(type) name
#define DEFINE_PER_CPU(type, name) _Thread_local __typeof__(type) name
#define DEFINE_PER_CPU_ALIGNED(type, name) _Thread_local ____cacheline_aligned __typeof__(type) name
#define DEFINE_PER_CPU_SHARED_ALIGNED(type, name) DEFINE_PER_CPU_ALIGNED(type, name)
#define this_cpu_ptr(p) (p)
#define raw_cpu_ptr(p) (p)
#define per_cpu_ptr(p, cpu) ((__typeof__(p))knee_of_cpu((p), (cpu)))
#define per_cpu(x, cpu) (*per_cpu_ptr(&(x), cpu))
#define this_cpu_read(x) (x)
#define this_cpu_write(x, v) ((x) = (v))
#define this_cpu_inc(x) ((x)++)
#define this_cpu_dec(x) ((x)--)
#define __this_cpu_read(x) (x)
#define __this_cpu_inc(x) ((x)++)
#define __this_cpu_dec(x) ((x)--)
#define smp_processor_id() knee_cpu()
#define raw_smp_processor_id() knee_cpu()
#define numa_node_id() knee_node()
#define nr_cpu_ids NR_CPUS
#define trace_contention_begin(lock, flags) ((void)0)
#define trace_contention_end(lock, result) ((void)0)
#define preempt_disable() ((void)0)
#define preempt_enable() ((void)0)

#endif
