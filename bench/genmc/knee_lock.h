/* Makes a program of a lock's file: what knee_lock.h of `knee check` means, as a `main` that starts TASKS threads, ACQUIRES times
 * each. */
#ifndef KNEE_LOCK_H
#define KNEE_LOCK_H
#include <assert.h>
#include <pthread.h>

static __thread int knee_me;
static inline int knee_cpu(void) { return knee_me; }
static inline int knee_node(void) { return 0; }
static inline int knee_cpus(void) { return TASKS; }
static inline void knee_arrive(void) {}
#define __builtin_ia32_pause() ((void)0)

#ifdef PREPARES
void knee_prepare(void *it);
#else
#define knee_prepare(it) ((void)0)
#endif

#define KNEE_MAIN(type, body) \
	static type knee_shared; \
	static int knee_guarded; \
	static void *knee_task(void *index) \
	{ \
		type *lock = &knee_shared, *shared = lock; \
		(void)shared; \
		knee_me = (int)(long)index; \
		for (int i = 0; i < ACQUIRES; i++) { \
			body; \
		} \
		return 0; \
	} \
	int main(void) \
	{ \
		pthread_t tasks[TASKS]; \
		knee_prepare(&knee_shared); \
		for (long i = 0; i < TASKS; i++) \
			pthread_create(&tasks[i], 0, knee_task, (void *)i); \
		for (int i = 0; i < TASKS; i++) \
			pthread_join(tasks[i], 0); \
		return 0; \
	}

#define KNEE_LOCK(type, take, release) KNEE_MAIN(type, take; knee_guarded++; release)
#define KNEE_OPERATION(type, operation) KNEE_MAIN(type, operation)
#define KNEE_PREPARE(type, prepare) \
	void knee_prepare(void *it) \
	{ \
		type *lock = it, *shared = lock; \
		(void)shared; \
		prepare; \
	}
#define KNEE_READ_LOCK(type, take, release)
#define KNEE_AT_REST(type, condition)
#define KNEE_CHECK(type, condition)
#endif
