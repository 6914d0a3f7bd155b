/*
 * Takes each CPU away from all normal tasks, periodically: one SCHED_FIFO thread per CPU.
 * Arguments: busy and period in milliseconds, after how many seconds it ends at the latest.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double busy_s, period_s;

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *hog(void *cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((int)(intptr_t)cpu, &set);
	struct sched_param parameters = { .sched_priority = 10 };
	if (sched_setaffinity(0, sizeof(set), &set) || sched_setscheduler(0, SCHED_FIFO, &parameters)) {
		perror("becoming SCHED_FIFO");
		exit(1);
	}
	/* Bursts of all CPUs begin together: a task that is preempted finds no free CPU. */
	for (;;) {
		double now = now_s(), start = (double)(uint64_t)(now / period_s) * period_s + period_s;
		struct timespec until = { (time_t)start, (long)((start - (double)(time_t)start) * 1e9) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		while (now_s() < start + busy_s)
			;
	}
	return NULL;
}

int main(int count, char **arguments)
{
	if (count != 4)
		return 1;
	busy_s = atof(arguments[1]) / 1e3;
	period_s = atof(arguments[2]) / 1e3;
	alarm((unsigned)atoi(arguments[3]));
	for (intptr_t cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		pthread_t thread;
		pthread_create(&thread, NULL, hog, (void *)cpu);
	}
	pause();
}
