/* knee_kernel_tasks.h: the second part of knee_kernel.h: lists, tasks that sleep and are woken, wait queues, time and RCU, as
 * far as locks of the kernel use them. Interrupts and preemption never come. A time-out may fire at any moment, and so jiffies
 * may have passed any time. A grace period of RCU waits only where CONFIG_KNEE_RCU is defined: then sections without preemption
 * are its readers.
 */
#ifndef KNEE_KERNEL_TASKS_H
#define KNEE_KERNEL_TASKS_H

#include <errno.h>

/* Errors in pointers. */
#define MAX_ERRNO 4095
#define ERR_PTR(error) ((void *)(long)(error))
#define PTR_ERR(p) ((long)(p))
#define IS_ERR(p) ((unsigned long)(p) >= (unsigned long)-MAX_ERRNO)
#define IS_ERR_OR_NULL(p) (!(p) || IS_ERR(p))

/* What checks locks in the kernel itself: nothing. */
struct lock_class_key { char unused; };
struct lockdep_map { char unused; };
#define _RET_IP_ 0UL
#define _THIS_IP_ 0UL
#define lockdep_assert_held(lock) ((void)0)
#define lockdep_assert_held_write(lock) ((void)0)
#define lockdep_assert_not_held(lock) ((void)0)
#define lockdep_assert_preemption_disabled() ((void)0)
#define lockdep_assert_preemption_enabled() ((void)0)
#define lockdep_assert_irqs_disabled() ((void)0)
#define lockdep_assert_in_irq() ((void)0)
#define lockdep_assert(condition) ((void)0)
#define lockdep_is_held(lock) 1
#define lockdep_init_map(map, name, key, subclass) ((void)(name), (void)(key))
#define lockdep_init_map_wait(map, name, key, subclass, inner) ((void)(name), (void)(key))
#define lock_acquire(map, subclass, trylock, read, check, nest, ip) ((void)(ip))
#define lock_release(map, ip) ((void)(ip))
#define lock_acquired(map, ip) ((void)(ip))
#define lock_contended(map, ip) ((void)(ip))
#define mutex_acquire(map, subclass, trylock, ip) ((void)(ip))
#define mutex_acquire_nest(map, subclass, trylock, nest, ip) ((void)(ip))
#define mutex_release(map, ip) ((void)(ip))
#define rwsem_acquire(map, subclass, trylock, ip) ((void)(ip))
#define rwsem_acquire_nest(map, subclass, trylock, nest, ip) ((void)(ip))
#define rwsem_acquire_read(map, subclass, trylock, ip) ((void)(ip))
#define rwsem_release(map, ip) ((void)(ip))
#define seqcount_acquire(map, subclass, trylock, ip) ((void)(ip))
#define seqcount_acquire_read(map, subclass, trylock, ip) ((void)(ip))
#define seqcount_release(map, ip) ((void)(ip))
#define spin_acquire(map, subclass, trylock, ip) ((void)(ip))
#define spin_release(map, ip) ((void)(ip))
#define lock_downgrade(map, ip) ((void)(ip))
#define LOCK_CONTENDED(lock, try, take) take(lock)
#define LOCK_CONTENDED_RETURN(lock, try, take) take(lock)
#define might_lock(lock) ((void)(lock))
#define might_lock_nested(lock, subclass) ((void)(lock))
#define debug_locks_off() 0
#define DEBUG_LOCKS_WARN_ON(x) WARN_ON(x)
#define DEFINE_GUARD(...)
#define DEFINE_GUARD_COND(...)
#define DEFINE_FREE(...)
#define DEFINE_CLASS(...)
#define DEFINE_LOCK_GUARD_0(...)
#define DEFINE_LOCK_GUARD_1(...)
#define DEFINE_LOCK_GUARD_1_COND(...)
#define kcsan_atomic_next(n) ((void)0)
#define kcsan_nestable_atomic_begin() ((void)0)
#define kcsan_nestable_atomic_end() ((void)0)
#define kcsan_flat_atomic_begin() ((void)0)
#define kcsan_flat_atomic_end() ((void)0)
#define ASSERT_EXCLUSIVE_WRITER(x) ((void)0)
#define ASSERT_EXCLUSIVE_ACCESS(x) ((void)0)
#define data_race(x) ({ __typeof__((x)) knee_raced = (x); knee_raced; })
/* What trace events of locks say. */
#define LCB_F_SPIN 1U
#define LCB_F_READ 2U
#define LCB_F_WRITE 4U
#define LCB_F_RT 8U
#define LCB_F_PERCPU 16U
#define LCB_F_MUTEX 32U

/* Bits of words. */
#define BITS_PER_LONG 64
#define BIT_MASK(n) (1UL << ((n) % BITS_PER_LONG))
#define BIT_WORD(n) ((n) / BITS_PER_LONG)
#define knee_bits(n, words) ((unsigned long *)(words) + BIT_WORD(n))
#define test_bit(n, words) (READ_ONCE(*knee_bits(n, words)) >> ((n) % BITS_PER_LONG) & 1)
#define test_bit_acquire(n, words) (smp_load_acquire(knee_bits(n, words)) >> ((n) % BITS_PER_LONG) & 1)
#define knee_set_bit(n, words, order) (!!(__atomic_fetch_or(knee_bits(n, words), BIT_MASK(n), order) & BIT_MASK(n)))
#define knee_clear_bit(n, words, order) (!!(__atomic_fetch_and(knee_bits(n, words), ~BIT_MASK(n), order) & BIT_MASK(n)))
#define set_bit(n, words) ((void)knee_set_bit(n, words, __ATOMIC_RELAXED))
#define clear_bit(n, words) ((void)knee_clear_bit(n, words, __ATOMIC_RELAXED))
#define clear_bit_unlock(n, words) ((void)knee_clear_bit(n, words, __ATOMIC_RELEASE))
#define test_and_set_bit(n, words) knee_full(knee_set_bit(n, words, __ATOMIC_SEQ_CST))
#define test_and_set_bit_lock(n, words) knee_set_bit(n, words, __ATOMIC_ACQUIRE)
#define test_and_clear_bit(n, words) knee_full(knee_clear_bit(n, words, __ATOMIC_SEQ_CST))
#define __set_bit(n, words) ((void)(*knee_bits(n, words) |= BIT_MASK(n)))
#define __clear_bit(n, words) ((void)(*knee_bits(n, words) &= ~BIT_MASK(n)))
/* Other bits of the word change only under the lock that this bit is. */
#define __clear_bit_unlock(n, words) \
	smp_store_release(knee_bits(n, words), READ_ONCE(*knee_bits(n, words)) & ~BIT_MASK(n))

/* Lists. */
struct hlist_node { struct hlist_node *next, **pprev; };
struct list_head { struct list_head *next, *prev; };
#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)
static inline void INIT_LIST_HEAD(struct list_head *list)
{
	WRITE_ONCE(list->next, list);
	WRITE_ONCE(list->prev, list);
}
static inline void knee_list_insert(struct list_head *entry, struct list_head *prev, struct list_head *next)
{
	next->prev = entry;
	entry->next = next;
	entry->prev = prev;
	WRITE_ONCE(prev->next, entry);
}
static inline void list_add(struct list_head *entry, struct list_head *head)
{
	knee_list_insert(entry, head, head->next);
}
static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	knee_list_insert(entry, head->prev, head);
}
static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	WRITE_ONCE(entry->prev->next, entry->next);
	entry->next = entry->prev = NULL;
}
static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}
static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}
static inline bool list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}
static inline bool list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}
#define list_entry(p, type, member) container_of(p, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_next_entry(p, member) list_entry((p)->member.next, __typeof__(*(p)), member)
#define list_for_each_entry(p, head, member) \
	for (p = list_first_entry(head, __typeof__(*p), member); &p->member != (head); p = list_next_entry(p, member))
#define list_for_each_entry_safe(p, n, head, member) \
	for (p = list_first_entry(head, __typeof__(*p), member), n = list_next_entry(p, member); \
	     &p->member != (head); p = n, n = list_next_entry(n, member))

#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_prev_entry(p, member) list_entry((p)->member.prev, __typeof__(*(p)), member)
#define list_entry_is_head(p, head, member) (&(p)->member == (head))
#define list_for_each_entry_reverse(p, head, member) \
	for (p = list_last_entry(head, __typeof__(*p), member); &p->member != (head); p = list_prev_entry(p, member))

/* Time. Nothing says how much has passed: whether a time is over may be either at any moment. */
#define HZ 250
#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_SEC 1000000000L
#define MAX_SCHEDULE_TIMEOUT LONG_MAX
#define LONG_MAX ((long)(~0UL >> 1))
static const unsigned long jiffies __maybe_unused;
#define msecs_to_jiffies(ms) ((unsigned long)(ms))
#define usecs_to_jiffies(us) ((unsigned long)(us))
#define knee_may(a, b) ((void)(a), (void)(b), knee_choose(2))
#define time_after(a, b) knee_may(a, b)
#define time_before(a, b) knee_may(a, b)
#define time_after_eq(a, b) knee_may(a, b)
#define time_before_eq(a, b) knee_may(a, b)
#define time_is_before_jiffies(a) knee_may(a, 0)
#define time_is_after_jiffies(a) knee_may(a, 0)
/* A clock that a task reads has always moved on a lot: what spins for some time does so until it looks at the clock. */
static _Thread_local u64 knee_clock __maybe_unused;
static inline u64 sched_clock(void)
{
	return knee_clock += 1ULL << 40;
}
#define local_clock() sched_clock()

/* Tasks that sleep: `current` is the task's own, and always on its CPU. */
struct task_struct {
	u32 __state;
	int on_cpu;
	int prio;
	unsigned int flags;
	void *blocked_on;
	/* The task behind it in a wake queue, or itself in that of the last. */
	struct task_struct *to_wake;
	int readers;
} __attribute__((aligned(64)));
static _Thread_local struct task_struct knee_current __maybe_unused = { .on_cpu = 1, .prio = 120 };
#define current (&knee_current)
#define get_current() current
#define TASK_RUNNING 0
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_WAKEKILL 0x100
#define TASK_KILLABLE (TASK_WAKEKILL | TASK_UNINTERRUPTIBLE)
#define TASK_NORMAL (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)
#define TASK_IDLE 0x402
#define TASK_RTLOCK_WAIT 0x1000
#define PF_EXITING 4
#define __set_current_state(state) WRITE_ONCE(current->__state, (state))
#define set_current_state(state) smp_store_mb(current->__state, (state))
#define get_current_state() READ_ONCE(current->__state)
#define get_task_struct(task) (task)
#define put_task_struct(task) ((void)(task))
#define owner_on_cpu(owner) (READ_ONCE((owner)->on_cpu) && !vcpu_is_preempted(0))
#define rt_task(task) ((void)(task), 0)
#define dl_task(task) ((void)(task), 0)
#define rt_or_dl_task(task) ((void)(task), 0)
#define rt_prio(prio) ((prio) < 100)
#define dl_prio(prio) ((prio) < 0)
#define rt_or_dl_prio(prio) ((prio) < 100)
/* A signal may be there whenever a task sleeps in a state that signals end. */
#define signal_pending_state(state, task) \
	((void)(task), ((state) & (TASK_INTERRUPTIBLE | TASK_WAKEKILL)) && knee_choose(2))
#define signal_pending(task) ((void)(task), knee_choose(2))
#ifdef CONFIG_KNEE_SLICE
/* Whether a task has to give its CPU away: after it has looked this many times, less one, at most. Then until it sleeps. */
static _Thread_local unsigned char knee_looks;
static inline bool knee_need_resched(void)
{
	if (!knee_looks)
		knee_looks = 1 + knee_choose(CONFIG_KNEE_SLICE);
	return knee_looks == 1 || !knee_looks--;
}
#undef need_resched
#define need_resched() knee_need_resched()
#endif
static inline void schedule(void)
{
	u32 state;

#ifdef CONFIG_KNEE_SLICE
	knee_looks = 0;
#endif
	while ((state = READ_ONCE(current->__state)) != TASK_RUNNING)
		knee_park(&current->__state, state);
}
#define schedule_preempt_disabled() schedule()
#define io_schedule() schedule()
#define io_schedule_prepare() 0
#define io_schedule_finish(token) ((void)(token))
#define schedule_rtlock() schedule()
long syscall(long number, ...);
/* The time that is left: none if the time-out ended the sleep. */
static inline long schedule_timeout(long timeout)
{
	static const long while_asleep[2] = { 1, 0 };
	u32 state;

	if (timeout == MAX_SCHEDULE_TIMEOUT) {
		schedule();
		return timeout;
	}
	while ((state = READ_ONCE(current->__state)) != TASK_RUNNING) {
		/* futex(FUTEX_WAIT) with a time-out. */
		if (syscall(202, &current->__state, 0, state, while_asleep) && errno == ETIMEDOUT) {
			__set_current_state(TASK_RUNNING);
			return 0;
		}
	}
	return 1;
}
#define schedule_timeout_uninterruptible(timeout) (set_current_state(TASK_UNINTERRUPTIBLE), schedule_timeout(timeout))
#define schedule_timeout_interruptible(timeout) (set_current_state(TASK_INTERRUPTIBLE), schedule_timeout(timeout))
/* Wakes a task that sleeps; and one that sleeps in one of these states. */
static inline int wake_up_process(struct task_struct *task)
{
	smp_mb();
	if (!xchg(&task->__state, TASK_RUNNING))
		return 0;
	knee_wake(&task->__state, 1);
	return 1;
}
static inline int wake_up_state(struct task_struct *task, unsigned int states)
{
	smp_mb();
	return (READ_ONCE(task->__state) & states) ? wake_up_process(task) : 0;
}

/* Tasks to wake once a lock is released. A task that is in another wake queue is left to whoever wakes that. */
struct wake_q_head { struct task_struct *first, **end; };
#define DEFINE_WAKE_Q(name) struct wake_q_head name = { NULL, &name.first }
#define wake_q_init(head) ((void)((head)->first = NULL, (head)->end = &(head)->first))
#define wake_q_empty(head) (!(head)->first)
static inline void wake_q_add(struct wake_q_head *head, struct task_struct *task)
{
	/* Pairs with the full barrier of the waker that takes the task out. */
	smp_mb();
	if (cmpxchg_relaxed(&task->to_wake, NULL, task))
		return;
	if (head->end == &head->first)
		head->first = task;
	else
		WRITE_ONCE(*head->end, task);
	head->end = &task->to_wake;
}
#define wake_q_add_safe(head, task) wake_q_add(head, task)
static inline void wake_up_q(struct wake_q_head *head)
{
	struct task_struct *task = head->first, *next;

	for (; task; task = next) {
		next = READ_ONCE(task->to_wake);
		next = next == task ? NULL : next;
		WRITE_ONCE(task->to_wake, NULL);
		/* A full barrier comes first. */
		wake_up_process(task);
	}
}

/* Wait queues. */
#define WQ_FLAG_EXCLUSIVE 1
#define WQ_FLAG_WOKEN 2
#define WQ_FLAG_CUSTOM 4
struct wait_queue_entry;
typedef int (*wait_queue_func_t)(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key);
struct wait_queue_entry {
	unsigned int flags;
	void *private;
	wait_queue_func_t func;
	struct list_head entry;
};
typedef struct wait_queue_entry wait_queue_entry_t;
struct wait_queue_head { spinlock_t lock; struct list_head head; };
typedef struct wait_queue_head wait_queue_head_t;
#define init_waitqueue_head(queue) (spin_lock_init(&(queue)->lock), INIT_LIST_HEAD(&(queue)->head))
#define DEFINE_WAIT_FUNC(name, function) \
	struct wait_queue_entry name = { .private = current, .func = function, .entry = LIST_HEAD_INIT((name).entry) }
#define DEFINE_WAIT(name) DEFINE_WAIT_FUNC(name, autoremove_wake_function)
#define waitqueue_active(queue) (!list_empty(&(queue)->head))
#define __add_wait_queue_entry_tail(queue, waiter) list_add_tail(&(waiter)->entry, &(queue)->head)
#define __add_wait_queue(queue, waiter) list_add(&(waiter)->entry, &(queue)->head)
#define __remove_wait_queue(queue, waiter) list_del(&(waiter)->entry)
static inline int autoremove_wake_function(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	int woken = wake_up_state(entry->private, mode);

	(void)flags, (void)key;
	if (woken)
		list_del_init(&entry->entry);
	return woken;
}
static inline void __wake_up_locked_key(struct wait_queue_head *queue, unsigned int mode, int exclusive, void *key)
{
	struct wait_queue_entry *waiter, *next;

	list_for_each_entry_safe(waiter, next, &queue->head, entry) {
		unsigned int flags = waiter->flags;
		int woken = waiter->func(waiter, mode, 0, key);

		if (woken < 0 || (woken && (flags & WQ_FLAG_EXCLUSIVE) && !--exclusive))
			break;
	}
}
static inline void __wake_up(struct wait_queue_head *queue, unsigned int mode, int exclusive, void *key)
{
	spin_lock(&queue->lock);
	__wake_up_locked_key(queue, mode, exclusive, key);
	spin_unlock(&queue->lock);
}
#define wake_up(queue) __wake_up(queue, TASK_NORMAL, 1, NULL)
#define wake_up_all(queue) __wake_up(queue, TASK_NORMAL, 0, NULL)
static inline void prepare_to_wait(struct wait_queue_head *queue, struct wait_queue_entry *entry, unsigned int state)
{
	spin_lock(&queue->lock);
	if (list_empty(&entry->entry))
		__add_wait_queue(queue, entry);
	set_current_state(state);
	spin_unlock(&queue->lock);
}
static inline void finish_wait(struct wait_queue_head *queue, struct wait_queue_entry *entry)
{
	__set_current_state(TASK_RUNNING);
	spin_lock(&queue->lock);
	if (!list_empty(&entry->entry))
		list_del_init(&entry->entry);
	spin_unlock(&queue->lock);
}
#define wait_event(queue, condition) do { \
	DEFINE_WAIT(knee_waiter); \
	for (;;) { \
		prepare_to_wait(&(queue), &knee_waiter, TASK_UNINTERRUPTIBLE); \
		if (condition) \
			break; \
		schedule(); \
	} \
	finish_wait(&(queue), &knee_waiter); \
} while (0)

/* One task that waits, and whoever wakes it reads its name under RCU. */
struct rcuwait { struct task_struct *task; };
#define __RCUWAIT_INITIALIZER(name) { NULL }
#define rcuwait_init(wait) WRITE_ONCE((wait)->task, NULL)
#define rcuwait_active(wait) (!!READ_ONCE((wait)->task))
static inline int rcuwait_wake_up(struct rcuwait *wait)
{
	struct task_struct *task;

	/* The waker's condition before the waiter's name. */
	smp_mb();
	task = READ_ONCE(wait->task);
	return task ? wake_up_process(task) : 0;
}
#define rcuwait_wait_event(wait, condition, state) ({ \
	rcu_assign_pointer((wait)->task, current); \
	for (;;) { \
		set_current_state(state); \
		if (condition) \
			break; \
		schedule(); \
	} \
	WRITE_ONCE((wait)->task, NULL); \
	__set_current_state(TASK_RUNNING); \
	0; })

/* Something that happens once, and that tasks wait for. */
struct completion { unsigned int done; wait_queue_head_t wait; };
static inline void init_completion(struct completion *x)
{
	x->done = 0;
	init_waitqueue_head(&x->wait);
}
static inline void complete(struct completion *x)
{
	spin_lock(&x->wait.lock);
	x->done++;
	__wake_up_locked_key(&x->wait, TASK_NORMAL, 1, NULL);
	spin_unlock(&x->wait.lock);
}
static inline void wait_for_completion(struct completion *x)
{
	DEFINE_WAIT(waiter);

	spin_lock(&x->wait.lock);
	while (!x->done) {
		if (list_empty(&waiter.entry)) {
			waiter.flags |= WQ_FLAG_EXCLUSIVE;
			__add_wait_queue_entry_tail(&x->wait, &waiter);
		}
		__set_current_state(TASK_UNINTERRUPTIBLE);
		spin_unlock(&x->wait.lock);
		schedule();
		spin_lock(&x->wait.lock);
	}
	if (!list_empty(&waiter.entry))
		list_del_init(&waiter.entry);
	x->done--;
	spin_unlock(&x->wait.lock);
}

/* Grace periods. A reader may still be in its section when a grace period begins: that then waits for it. */
#define rcu_dereference(p) READ_ONCE(p)
#define rcu_access_pointer(p) READ_ONCE(p)
#define rcu_assign_pointer(p, v) smp_store_release(&(p), (v))
#define RCU_INIT_POINTER(p, v) WRITE_ONCE(p, v)
static inline void synchronize_rcu(void)
{
#ifdef CONFIG_KNEE_RCU
	smp_mb();
	for (int cpu = 0; cpu < knee_cpus(); cpu++) {
		int *readers = &per_cpu_ptr(&knee_current, cpu)->readers;

		/* A section that begins after this sees all that came before the grace period. */
		if (__atomic_fetch_add(readers, 0, __ATOMIC_SEQ_CST) && cpu != knee_cpu())
			smp_cond_load_acquire(readers, !VAL);
	}
	smp_mb();
#endif
}
#ifdef CONFIG_KNEE_RCU
#undef preempt_disable
#undef preempt_enable
#undef rcu_read_lock
#undef rcu_read_unlock
/* Only the task itself counts; that others see it begin before what it reads is what a grace period gives. */
static inline void rcu_read_lock(void)
{
	xchg(&current->readers, READ_ONCE(current->readers) + 1);
}
static inline void rcu_read_unlock(void)
{
	smp_store_release(&current->readers, READ_ONCE(current->readers) - 1);
}
#define preempt_disable() rcu_read_lock()
#define preempt_enable() rcu_read_unlock()
#undef schedule_preempt_disabled
#define schedule_preempt_disabled() (preempt_enable(), schedule(), preempt_disable())
#endif

/* Readers that need no barrier while nobody writes. Four times the number of writers; and 0 while idle, 1 while the first writer's
 * grace period lasts, 2 after it. The grace period that ends an exit comes at once, or not before the next enter.
 */
struct rcu_sync { unsigned int state; };
#define __RCU_SYNC_INITIALIZER(name) { 0 }
#define rcu_sync_init(sync) ((void)(sync))
#define rcu_sync_dtor(sync) ((void)(sync))
#define rcu_sync_is_idle(sync) (!READ_ONCE((sync)->state))
static inline void rcu_sync_enter(struct rcu_sync *sync)
{
	unsigned int state = READ_ONCE(sync->state);

	while (!try_cmpxchg(&sync->state, &state, state ? state + 4 : 4 + 1))
		;
	if (state == 0) {
		synchronize_rcu();
		__atomic_fetch_add(&sync->state, 1, __ATOMIC_SEQ_CST);
	} else {
		smp_cond_load_acquire(&sync->state, (VAL & 3) == 2);
	}
}
static inline void rcu_sync_exit(struct rcu_sync *sync)
{
	unsigned int passed = 2;

	if (__atomic_sub_fetch(&sync->state, 4, __ATOMIC_SEQ_CST) != passed || !knee_choose(2))
		return;
	synchronize_rcu();
	/* Unless a writer has come. */
	try_cmpxchg(&sync->state, &passed, 0);
}

/* Per-CPU variables that are allocated while a lock gets its first state: a few words of each task. */
static _Thread_local unsigned int knee_percpu_ints[8] __maybe_unused;
static _Thread_local unsigned long knee_percpu_longs[8] __maybe_unused;
static int knee_percpu_used __maybe_unused;
#define alloc_percpu(type) ({ \
	BUILD_BUG_ON(sizeof(type) != sizeof(int) && sizeof(type) != sizeof(long)); \
	int knee_number = knee_percpu_used++; \
	void *knee_word = sizeof(type) == sizeof(int) ? (void *)&knee_percpu_ints[knee_number & 7] \
						      : (void *)&knee_percpu_longs[knee_number & 7]; \
	(type *)(knee_number < 8 ? knee_word : NULL); })
#define free_percpu(p) ((void)(p))
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < knee_cpus(); (cpu)++)
#define for_each_online_cpu(cpu) for_each_possible_cpu(cpu)
#define num_online_cpus() knee_cpus()
#define num_possible_cpus() knee_cpus()

#endif
