/* knee.h: a load of your own. Tasks repeat one operation; knee releases, pins, counts, verifies and
 * compares them as it does its own loads. Define the functions below that are not marked "optional";
 * `knee new load FILE` writes an example. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef KNEE_H
#define KNEE_H
#include <errno.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
#define KNEE_VERSION 1 /* of this header */
#define KNEE_OPTIONAL __attribute__((weak))

/* One run, as all of its tasks see it. */
struct knee_run {
	unsigned tasks;        /* how many there are */
	int threads;           /* 1: threads of one process; 0: a process each */
	const char *directory; /* for files of this run, on the measured file system; removed after it */
};

/* A parameter: `knee run FILE --set NAME=VALUE`. The list ends with a name of NULL. */
struct knee_parameter {
	const char *name;    /* with its unit at the end, where it has one: hold_ns */
	const char *value;   /* the default */
	const char *choices; /* "a,b,c": one of these words; "1..64": a number; NULL: any text */
	const char *about;   /* what it changes */
};

/* What the load is: one sentence. */
extern const char *const knee_description;
/* What exactly one counted operation is, in a few words. */
extern const char *const knee_operation;
/* Version of the operation. Raise it whenever results from before and after must not be compared. */
extern const unsigned knee_semantics;
/* Optional. */
extern const struct knee_parameter knee_parameters[] KNEE_OPTIONAL;

/* Optional: sets up what all tasks share, once, before they exist. Processes inherit it: map with
 * MAP_SHARED what they shall share. Like all functions here, it returns 0, or -1 after a failure. */
int knee_prepare(const struct knee_run *run) KNEE_OPTIONAL;
/* Optional: sets up task `index`, in the task itself, already pinned. What it stores in *task goes to
 * the functions below. */
int knee_task(const struct knee_run *run, unsigned index, void **task) KNEE_OPTIONAL;
/* Does one operation, and nothing else. At the end of a run a signal interrupts calls that wait: return
 * -1 and leave errno at EINTR, and the operation does not count. */
int knee_operate(void *task);
/* Optional, but then nothing tells that the operations happened: compares the count with their effect,
 * in each task, after all have stopped. */
int knee_verify(void *task, unsigned long long operations) KNEE_OPTIONAL;
/* Optional: checks the effect of all tasks together, once, where knee_prepare ran. */
int knee_verify_all(const struct knee_run *run, unsigned long long operations) KNEE_OPTIONAL;

/* Says what failed, as printf; with errno, unless that is 0. Returns -1. */
int knee_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The value of a parameter: as text, and as a number, in which 4k, 2M and 1G are powers of 1024. */
const char *knee_value(const char *name);
unsigned long long knee_number(const char *name);

/* What a running task shares with knee. */
struct knee_control {
	const unsigned *stop;      /* not 0 once the task should stop */
	unsigned long long *count; /* operations so far, on a cache line of the task's own */
	unsigned long long limit;  /* operations after which the task is done */
};

/* Repeats the operation. It stands here so that the compiler can inline knee_operate. */
KNEE_OPTIONAL int knee_drive(void *task, const struct knee_control *control)
{
	unsigned long long done = 0;

	while (done < control->limit && !__atomic_load_n(control->stop, __ATOMIC_RELAXED)) {
		if (knee_operate(task) == 0)
			__atomic_store_n(control->count, ++done, __ATOMIC_RELAXED);
		else if (errno != EINTR)
			return -1;
	}
	return 0;
}
#ifdef __cplusplus
}
#endif
#endif
