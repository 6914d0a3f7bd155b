/* What the planted programs share: work of a known length, tasks that start together, pinning. */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline long now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* Turns of a loop that lives in a register: the same work however busy the host is. */
static inline void turns(long n)
{
	while (n--)
		__asm__ volatile("");
}

static inline void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		err(1, "pinning to CPU %d", cpu);
}

static inline void *shared_memory(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		err(1, "mapping %zu bytes", bytes);
	return at;
}

/* A child that runs the rest of the caller's block; it dies with its parent. */
static inline pid_t child(void)
{
	pid_t pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static inline void reap(int children)
{
	for (int i = 0, status; i < children; i++)
		if (wait(&status) < 0 || status)
			errx(1, "a task failed");
}
