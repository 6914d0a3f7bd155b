/* knee_lock.h: a lock in C for `knee check`, `knee check --mutants` and `knee simulate`.
 *
 * The lock needs no change: knee sees every access. One line at the end of the file says what to call:
 *
 *     #include <knee_lock.h>
 *     static _Thread_local struct mcs_node node;
 *     KNEE_LOCK(struct mcs_lock, mcs_lock(lock, &node), mcs_unlock(lock, &node))
 *
 * A lock begins with all its bytes 0, unless KNEE_PREPARE says otherwise. Its type, static variables and _Thread_local
 * variables are what tasks share; nothing is allocated. Waiting is a loop over loads, as everywhere.
 */
#ifndef KNEE_LOCK_H
#define KNEE_LOCK_H

/* The lock's type, and how to take and release it: expressions with `lock`, a pointer to it. */
#define KNEE_LOCK(type, take, release) \
	void knee_lock(type *lock) { (void)lock; take; } \
	void knee_unlock(type *lock) { (void)lock; release; }

/* Brings a lock into its first state, before any task runs: an expression with `lock`. May be left out. */
#define KNEE_PREPARE(type, prepare) \
	void knee_prepare(type *lock) { (void)lock; prepare; }

/* Whether the lock is free again, when no task holds or wants it: an expression with `lock`. May be left out. */
#define KNEE_AT_REST(type, free) \
	int knee_at_rest(type *lock) { (void)lock; return !!(free); }

/* The number of the task, from 0, which has a CPU of its own; and that CPU's memory node. */
int knee_cpu(void);
int knee_node(void);

/* The same _Thread_local variable in the task with this number. */
void *knee_of_cpu(const void *variable, int cpu);

/* The task has its place in the queue: the check then finds a task that overtakes another. */
void knee_arrive(void);

/* Sleeps until a wake-up, but only if the word holds `expected`, as a futex does; wakes one task, or all. */
void knee_park(const void *word, unsigned int expected);
void knee_wake(const void *word, int tasks);

#endif
