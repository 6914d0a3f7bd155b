/* knee_given.h: objects of the C library for a check. Compiled behind a file that calls them; a call of NAME there leads to
 * knee_given_NAME. Each waits by a loop over one word, or by a futex, and orders what POSIX says that it does.
 *
 *     mutex       __lock: 0, or 1 while a task holds it; __owner: its number plus 1
 *     condition   how many signals there were, a futex
 *     semaphore   its value
 *     rwlock      __readers: how many read, or -1 while a task writes
 *     once        0, then 1 while it runs, then 2
 */
#include <errno.h>
#include <knee_lock.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KNEE_LOAD(word) __atomic_load_n(word, __ATOMIC_RELAXED)
#define KNEE_TAKE(word, expected, value) \
	__atomic_compare_exchange_n(word, expected, value, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)

static inline void knee_require(int condition, const char *what)
{
	extern void __assert_fail(const char *, const char *, unsigned int, const char *)
#ifdef __cplusplus
		noexcept __attribute__((noreturn))
#endif
		;
	if (!condition)
		__assert_fail(what, "", 0, "");
}

/* Mutexes. */

int knee_given_pthread_mutexattr_init(int *attr) { *attr = 0; return 0; }
int knee_given_pthread_mutexattr_destroy(int *attr) { (void)attr; return 0; }
int knee_given_pthread_mutexattr_settype(int *attr, int type) { *attr = type; return 0; }
int knee_given_pthread_mutexattr_setpshared(int *attr, int shared) { (void)attr; (void)shared; return 0; }
int knee_given_pthread_mutexattr_setrobust(int *attr, int robust) { (void)attr; (void)robust; return 0; }
int knee_given_pthread_mutexattr_setprotocol(int *attr, int protocol) { (void)attr; (void)protocol; return 0; }

int knee_given_pthread_mutex_init(pthread_mutex_t *mutex, const int *attr)
{
	mutex->__data.__lock = 0;
	mutex->__data.__owner = 0;
	mutex->__data.__count = 0;
	mutex->__data.__kind = attr ? *attr & 3 : 0;
	return 0;
}

int knee_given_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	return KNEE_LOAD(&mutex->__data.__lock) ? EBUSY : 0;
}

/* Whether a task already holds a mutex that asks for it: 1 if it takes it once more, -1 if that is an error. */
static inline int knee_again(pthread_mutex_t *mutex)
{
	int kind = mutex->__data.__kind & 3;

	if (!kind || KNEE_LOAD(&mutex->__data.__owner) != knee_cpu() + 1)
		return 0;
	if (kind != PTHREAD_MUTEX_RECURSIVE)
		return -1;
	mutex->__data.__count++;
	return 1;
}

static inline void knee_holds(pthread_mutex_t *mutex)
{
	__atomic_store_n(&mutex->__data.__owner, knee_cpu() + 1, __ATOMIC_RELAXED);
}

int knee_given_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int unlocked = 0, again = knee_again(mutex);

	if (again)
		return again < 0 ? EDEADLK : 0;
	while (!KNEE_TAKE(&mutex->__data.__lock, &unlocked, 1)) {
		while (KNEE_LOAD(&mutex->__data.__lock))
			;
		unlocked = 0;
	}
	knee_holds(mutex);
	return 0;
}

int knee_given_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	int unlocked = 0, again = knee_again(mutex);

	if (again)
		return again < 0 ? EBUSY : 0;
	if (!KNEE_TAKE(&mutex->__data.__lock, &unlocked, 1))
		return EBUSY;
	knee_holds(mutex);
	return 0;
}

int knee_given_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
	int failed = knee_given_pthread_mutex_trylock(mutex);

	(void)until;
	if (!failed)
		return 0;
	return knee_choose(2) ? ETIMEDOUT : knee_given_pthread_mutex_lock(mutex);
}

int knee_given_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	if (KNEE_LOAD(&mutex->__data.__owner) != knee_cpu() + 1) {
		knee_require((mutex->__data.__kind & 3) != 0, "a task unlocks a mutex that it does not hold");
		return EPERM;
	}
	if (mutex->__data.__count) {
		mutex->__data.__count--;
		return 0;
	}
	__atomic_store_n(&mutex->__data.__owner, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&mutex->__data.__lock, 0, __ATOMIC_RELEASE);
	return 0;
}

/* Condition variables. A wait ends by a signal that came after its mutex was free. EINTR is none of its ends. One may be destroyed
 * and its memory freed as soon as its waiters are signalled: what they then find there is the number of no other one. */
#define KNEE_OF_A_CONDITION (1 << 20)

int knee_given_pthread_condattr_init(int *attr) { *attr = 0; return 0; }
int knee_given_pthread_condattr_destroy(int *attr) { (void)attr; return 0; }
int knee_given_pthread_condattr_setclock(int *attr, int clock) { (void)attr; (void)clock; return 0; }
int knee_given_pthread_condattr_setpshared(int *attr, int shared) { (void)attr; (void)shared; return 0; }
static unsigned int knee_conditions;
int knee_given_pthread_cond_init(unsigned int *cond, const int *attr)
{
	(void)attr;
	__atomic_store_n(cond, __atomic_fetch_add(&knee_conditions, 1 << 8, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	return 0;
}
int knee_given_pthread_cond_destroy(unsigned int *cond) { (void)cond; return 0; }

static inline int knee_cond_wait(unsigned int *cond, pthread_mutex_t *mutex, int timed)
{
	unsigned int seen = KNEE_LOAD(cond);
	long end;

	knee_given_pthread_mutex_unlock(mutex);
	end = syscall(SYS_futex, cond, KNEE_OF_A_CONDITION, seen, timed ? mutex : 0, 0, 0);
	timed = end < 0 && errno == ETIMEDOUT;
	knee_given_pthread_mutex_lock(mutex);
	return timed ? ETIMEDOUT : 0;
}

int knee_given_pthread_cond_wait(unsigned int *cond, pthread_mutex_t *mutex)
{
	return knee_cond_wait(cond, mutex, 0);
}

int knee_given_pthread_cond_timedwait(unsigned int *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	(void)until;
	return knee_cond_wait(cond, mutex, 1);
}

int knee_given_pthread_cond_clockwait(unsigned int *cond, pthread_mutex_t *mutex, int clock, const struct timespec *until)
{
	(void)clock;
	(void)until;
	return knee_cond_wait(cond, mutex, 1);
}

static inline void knee_signal(unsigned int *cond, int tasks)
{
	__atomic_fetch_add(cond, 1, __ATOMIC_RELAXED);
	knee_wake(cond, tasks);
}

int knee_given_pthread_cond_signal(unsigned int *cond) { knee_signal(cond, 1); return 0; }
int knee_given_pthread_cond_broadcast(unsigned int *cond) { knee_signal(cond, 1 << 30); return 0; }

/* Semaphores. */

int knee_given_sem_init(unsigned int *sem, int shared, unsigned int value) { (void)shared; *sem = value; return 0; }
int knee_given_sem_destroy(unsigned int *sem) { (void)sem; return 0; }
int knee_given_sem_getvalue(unsigned int *sem, int *value) { *value = (int)KNEE_LOAD(sem); return 0; }

int knee_given_sem_trywait(unsigned int *sem)
{
	unsigned int value = KNEE_LOAD(sem);

	while (value)
		if (KNEE_TAKE(sem, &value, value - 1))
			return 0;
	errno = EAGAIN;
	return -1;
}

int knee_given_sem_wait(unsigned int *sem)
{
	unsigned int value;

	for (;;) {
		while (!(value = KNEE_LOAD(sem)))
			;
		if (KNEE_TAKE(sem, &value, value - 1))
			return 0;
	}
}

int knee_given_sem_timedwait(unsigned int *sem, const struct timespec *until)
{
	(void)until;
	if (!knee_given_sem_trywait(sem))
		return 0;
	if (!knee_choose(2))
		return knee_given_sem_wait(sem);
	errno = ETIMEDOUT;
	return -1;
}

int knee_given_sem_clockwait(unsigned int *sem, int clock, const struct timespec *until)
{
	(void)clock;
	return knee_given_sem_timedwait(sem, until);
}

int knee_given_sem_post(unsigned int *sem) { __atomic_fetch_add(sem, 1, __ATOMIC_RELEASE); return 0; }

/* Read-write locks. */

int knee_given_pthread_rwlock_init(unsigned int *lock, const void *attr) { (void)attr; *lock = 0; return 0; }
int knee_given_pthread_rwlock_destroy(unsigned int *lock) { return KNEE_LOAD(lock) ? EBUSY : 0; }

int knee_given_pthread_rwlock_tryrdlock(unsigned int *lock)
{
	unsigned int readers = KNEE_LOAD(lock);

	while (readers != -1u)
		if (KNEE_TAKE(lock, &readers, readers + 1))
			return 0;
	return EBUSY;
}

int knee_given_pthread_rwlock_rdlock(unsigned int *lock)
{
	while (knee_given_pthread_rwlock_tryrdlock(lock))
		;
	return 0;
}

int knee_given_pthread_rwlock_trywrlock(unsigned int *lock)
{
	unsigned int readers = 0;

	return KNEE_TAKE(lock, &readers, -1u) ? 0 : EBUSY;
}

int knee_given_pthread_rwlock_wrlock(unsigned int *lock)
{
	while (knee_given_pthread_rwlock_trywrlock(lock))
		while (KNEE_LOAD(lock))
			;
	return 0;
}

int knee_given_pthread_rwlock_unlock(unsigned int *lock)
{
	if (KNEE_LOAD(lock) == -1u)
		__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	else
		knee_require(__atomic_fetch_sub(lock, 1, __ATOMIC_RELEASE) != 0, "a task unlocks a rwlock that nobody holds");
	return 0;
}

/* Spin locks, barriers, and what is done once. */

int knee_given_pthread_spin_init(volatile int *lock, int shared) { (void)shared; *lock = 0; return 0; }
int knee_given_pthread_spin_destroy(volatile int *lock) { (void)lock; return 0; }

int knee_given_pthread_spin_trylock(volatile int *lock)
{
	int unlocked = 0;

	return KNEE_TAKE(lock, &unlocked, 1) ? 0 : EBUSY;
}

int knee_given_pthread_spin_lock(volatile int *lock)
{
	while (knee_given_pthread_spin_trylock(lock))
		while (KNEE_LOAD(lock))
			;
	return 0;
}

int knee_given_pthread_spin_unlock(volatile int *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); return 0; }

struct knee_barrier { unsigned int tasks, arrived, round; };

int knee_given_pthread_barrier_destroy(struct knee_barrier *barrier) { (void)barrier; return 0; }

int knee_given_pthread_barrier_init(struct knee_barrier *barrier, const void *attr, unsigned int tasks)
{
	(void)attr;
	barrier->tasks = tasks;
	barrier->arrived = barrier->round = 0;
	return 0;
}

int knee_given_pthread_barrier_wait(struct knee_barrier *barrier)
{
	unsigned int round = KNEE_LOAD(&barrier->round);

	if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == barrier->tasks) {
		__atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
		__atomic_fetch_add(&barrier->round, 1, __ATOMIC_RELEASE);
		return PTHREAD_BARRIER_SERIAL_THREAD;
	}
	while (__atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE) == round)
		;
	return 0;
}

int knee_given_pthread_once(int *once, void (*run)(void))
{
	int first = 0;

	if (__atomic_load_n(once, __ATOMIC_ACQUIRE) == 2)
		return 0;
	if (KNEE_TAKE(once, &first, 1)) {
		run();
		__atomic_store_n(once, 2, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(once, __ATOMIC_ACQUIRE) != 2)
		;
	return 0;
}

/* Values of each task. */

#define KNEE_KEYS 16
static unsigned int knee_keys;
static __thread void *knee_values[KNEE_KEYS];

int knee_given_pthread_key_create(unsigned int *key, void (*destroy)(void *))
{
	(void)destroy;
	*key = __atomic_fetch_add(&knee_keys, 1, __ATOMIC_RELAXED);
	return *key < KNEE_KEYS ? 0 : EAGAIN;
}

int knee_given_pthread_key_delete(unsigned int key) { (void)key; return 0; }
void *knee_given_pthread_getspecific(unsigned int key) { return knee_values[key % KNEE_KEYS]; }
int knee_given_pthread_setspecific(unsigned int key, const void *value) { knee_values[key % KNEE_KEYS] = (void *)value; return 0; }

int knee_given_pthread_equal(unsigned long one, unsigned long other) { return one == other; }

/* std::condition_variable, whose functions are in the library: a condition variable; a unique_lock begins with its mutex. */

void knee_given__ZNSt18condition_variableC1Ev(unsigned int *cond) { knee_given_pthread_cond_init(cond, 0); }
void knee_given__ZNSt18condition_variableD1Ev(unsigned int *cond) { (void)cond; }
void knee_given__ZNSt18condition_variable10notify_oneEv(unsigned int *cond) { knee_signal(cond, 1); }
void knee_given__ZNSt18condition_variable10notify_allEv(unsigned int *cond) { knee_signal(cond, 1 << 30); }
void knee_given__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(unsigned int *cond, pthread_mutex_t **lock)
{
	knee_cond_wait(cond, *lock, 0);
}

/* A std::shared_ptr counts by atomics, unless the library says that there is one thread. */
char knee_given___libc_single_threaded = 0;

/* Without type information, std::make_shared asks the library whether its own type is asked for. */
int knee_given__ZNSt19_Sp_make_shared_tag5_S_eqERKSt9type_info(const void *type) { (void)type; return 0; }

/* Atomic accesses of 16 bytes: plain ones, while no other of 16 bytes is under way. */

typedef unsigned __int128 knee_wide_t;
void knee_wide_begin(const volatile void *word);
void knee_wide_end(void);

static inline knee_wide_t knee_wide_change(volatile knee_wide_t *word, knee_wide_t *expected, knee_wide_t value)
{
	knee_wide_t old;

	knee_wide_begin(word);
	old = *(knee_wide_t *)word;
	if (!expected || old == *expected)
		*(knee_wide_t *)word = value;
	knee_wide_end();
	return old;
}

static inline int knee_wide_exchange(volatile knee_wide_t *word, knee_wide_t *expected, knee_wide_t value)
{
	knee_wide_t old = knee_wide_change(word, expected, value);
	int same = old == *expected;

	*expected = old;
	return same;
}

knee_wide_t knee_given___tsan_atomic128_load(volatile knee_wide_t *word, int order)
{
	knee_wide_t value;

	(void)order;
	knee_wide_begin(word);
	value = *(knee_wide_t *)word;
	knee_wide_end();
	return value;
}

void knee_given___tsan_atomic128_store(volatile knee_wide_t *word, knee_wide_t value, int order)
{
	(void)order;
	knee_wide_change(word, 0, value);
}

knee_wide_t knee_given___tsan_atomic128_exchange(volatile knee_wide_t *word, knee_wide_t value, int order)
{
	(void)order;
	return knee_wide_change(word, 0, value);
}

knee_wide_t knee_given___tsan_atomic128_compare_exchange_val(volatile knee_wide_t *word, knee_wide_t expected, knee_wide_t value)
{
	return knee_wide_change(word, &expected, value);
}

int knee_given___tsan_atomic128_compare_exchange_strong(volatile knee_wide_t *word, knee_wide_t *expected, knee_wide_t value)
{
	return knee_wide_exchange(word, expected, value);
}

int knee_given___tsan_atomic128_compare_exchange_weak(volatile knee_wide_t *word, knee_wide_t *expected, knee_wide_t value)
{
	return knee_wide_exchange(word, expected, value);
}

knee_wide_t knee_given___atomic_load_16(volatile knee_wide_t *word, int order) { return knee_given___tsan_atomic128_load(word, order); }
void knee_given___atomic_store_16(volatile knee_wide_t *word, knee_wide_t value, int order) { (void)order; knee_wide_change(word, 0, value); }
knee_wide_t knee_given___atomic_exchange_16(volatile knee_wide_t *word, knee_wide_t value, int order) { (void)order; return knee_wide_change(word, 0, value); }
int knee_given___atomic_compare_exchange_16(volatile knee_wide_t *word, knee_wide_t *expected, knee_wide_t value) { return knee_wide_exchange(word, expected, value); }
knee_wide_t knee_given___sync_val_compare_and_swap_16(volatile knee_wide_t *word, knee_wide_t expected, knee_wide_t value) { return knee_wide_change(word, &expected, value); }
int knee_given___sync_bool_compare_and_swap_16(volatile knee_wide_t *word, knee_wide_t expected, knee_wide_t value) { return knee_wide_exchange(word, &expected, value); }

#ifdef __cplusplus
}
#endif
