/* What the bare loops share: tasks that start together, a flag that stops them, one line of
 * result. A bare loop repeats the operation as fast as a careful C programmer would, with the
 * count in a register and nothing measured in between.
 *
 *     PROGRAM DIRECTORY TASKS SECONDS        prints: operations wall_ns
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Each on a cache line of its own. */
struct shared {
	_Alignas(64) volatile int stop;
	struct { _Alignas(64) long operations, stop_ns; } task[];
};

static struct shared *shared;
static int task, ready[2], release[2];
static char path[4096];

static long now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		err(1, "pinning to CPU %d", cpu);
}

/* The parent: releases the tasks, stops them, prints. */
static void conduct(int tasks, double seconds)
{
	char byte;
	for (int i = 0; i < tasks; i++)
		if (read(ready[0], &byte, 1) != 1)
			errx(1, "a task died");
	long start_ns = now_ns(), stop_ns = start_ns, operations = 0;
	close(release[1]);
	struct timespec run = { seconds, (seconds - (long)seconds) * 1e9 };
	nanosleep(&run, NULL);
	shared->stop = 1;
	for (int i = 0, status; i < tasks; i++)
		if (wait(&status) < 0 || status)
			errx(1, "a task failed");
	for (int i = 0; i < tasks; i++) {
		operations += shared->task[i].operations;
		if (shared->task[i].stop_ns > stop_ns)
			stop_ns = shared->task[i].stop_ns;
	}
	printf("%ld %ld\n", operations, stop_ns - start_ns);
	exit(0);
}

/* Returns in each task, pinned to CPU `task`, with `path` naming what may become its own. */
static void begin(int argc, char **argv)
{
	if (argc != 4)
		errx(2, "usage: %s DIRECTORY TASKS SECONDS", argv[0]);
	int tasks = atoi(argv[2]);
	shared = mmap(NULL, sizeof *shared + tasks * sizeof shared->task[0],
		      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || pipe(ready) || pipe(release))
		err(1, "preparing");
	for (task = 0; task < tasks; task++) {
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			close(ready[0]);
			close(release[1]);
			pin(task);
			snprintf(path, sizeof path, "%s/task-%04d", argv[1], task);
			return;
		}
	}
	close(ready[1]);
	conduct(tasks, atof(argv[3]));
}

/* Waits for the release. What is set up before is not timed. */
static volatile int *start(void)
{
	char byte;
	if (write(ready[1], "", 1) != 1 || read(release[0], &byte, 1) != 0)
		err(1, "waiting for the release");
	return &shared->stop;
}

/* Ends the task. */
static void finish(long operations)
{
	shared->task[task].stop_ns = now_ns();
	shared->task[task].operations = operations;
	_exit(0);
}
