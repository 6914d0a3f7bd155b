/* knee_lock.h: a lock or a data structure in C for `knee check`, `knee check --mutants` and `knee simulate`.
 *
 * The lock needs no change: knee sees every access. One line at the end of the file says what to call:
 *
 *     #include <knee_lock.h>
 *     static _Thread_local struct mcs_node node;
 *     KNEE_LOCK(struct mcs_lock, mcs_lock(lock, &node), mcs_unlock(lock, &node))
 *
 * A lock begins with all its bytes 0, unless KNEE_PREPARE says otherwise. Its type, static variables and _Thread_local
 * variables are what tasks share, and what they allocate. Waiting is a loop over loads, as everywhere, or a futex.
 * Functions of the file that the lock does not call may call anything.
 */
#ifndef KNEE_LOCK_H
#define KNEE_LOCK_H

/* In C++, too: a file queue.cc with std::atomic. */
#ifdef __cplusplus
#define KNEE_EXTERN extern "C"
extern "C" {
#else
#define KNEE_EXTERN
#endif

/* The lock's type, and how to take and release it: expressions with `lock`, a pointer to it. */
#define KNEE_LOCK(type, take, release) \
	KNEE_EXTERN void knee_lock(type *lock) { (void)lock; take; } \
	KNEE_EXTERN void knee_unlock(type *lock) { (void)lock; release; }

/* Of a read-write lock, in addition: how to take and release it to read. KNEE_LOCK is then for writing. */
#define KNEE_READ_LOCK(type, take, release) \
	KNEE_EXTERN void knee_read_lock(type *lock) { (void)lock; take; } \
	KNEE_EXTERN void knee_read_unlock(type *lock) { (void)lock; release; }

/* Instead of a lock, any data structure: what a task does again and again, an expression with `shared`, a pointer to what all
 * tasks share. assert() says what must hold then, knee_cpu() which task it is. */
#define KNEE_OPERATION(type, ...) \
	KNEE_EXTERN void knee_operate(type *shared) { (void)shared; __VA_ARGS__; }

/* Whether all is right when every task has ended: an expression with `shared`, and knee_operations(), the number of
 * operations of all tasks. May be left out. */
#define KNEE_CHECK(type, ...) \
	KNEE_EXTERN int knee_check(type *shared) { (void)shared; return !!(__VA_ARGS__); }
unsigned long knee_operations(void);

/* Brings a lock, or what is shared, into its first state, before any task runs: an expression with `lock` or `shared`. May be
 * left out. */
#define KNEE_PREPARE(type, ...) \
	KNEE_EXTERN void knee_prepare(type *lock) { type *shared = lock; (void)shared; __VA_ARGS__; }

/* Whether the lock is free again, when no task holds or wants it: an expression with `lock`. May be left out. */
#define KNEE_AT_REST(type, ...) \
	KNEE_EXTERN int knee_at_rest(type *lock) { (void)lock; return !!(__VA_ARGS__); }

/* A line for code that is made for x86 alone: volatile reads acquire and volatile writes release, as loads and stores of x86 do.
 * Without it they order nothing. */
#define KNEE_X86_ORDER KNEE_EXTERN const char knee_x86_order; const char knee_x86_order = 1;

/* Members of the lock, of what is shared, or of a local variable (`waiter.done`) that the code reads or writes plainly while other
 * tasks access them, with commas between: races that its author accepts. Each such access is then one load or one store, relaxed,
 * as by READ_ONCE or WRITE_ONCE.
 */
#define KNEE_ONCE(...) KNEE_EXTERN const char knee_once[]; const char knee_once[] = #__VA_ARGS__;

/* The number of the task, from 0, which has a CPU of its own; and that CPU's memory node. */
int knee_cpu(void);
int knee_node(void);

/* How many tasks there are: their numbers are below. */
int knee_cpus(void);

/* The same _Thread_local variable in the task with this number. */
void *knee_of_cpu(const void *variable, int cpu);

/* A number below this one. A check tries all of them: whether a time is over, whether an allocation fails. */
unsigned int knee_choose(unsigned int below);

/* The task has its place in the queue: the check then finds a task that overtakes another. */
void knee_arrive(void);

/* Sleeps until a wake-up, but only if the word holds `expected`, as a futex does; wakes this many tasks. syscall(SYS_futex, …)
 * does the same, also with a bitset or a time-out. */
void knee_park(const void *word, unsigned int expected);
void knee_wake(const void *word, int tasks);

#ifdef __cplusplus
}
#endif

#endif
