// A thousand threads in a ring that pass tokens on through pipes: each hop is a wait and a wake-up. Prints `done HOPS SECONDS`
// four times a second.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS 1000
#define TOKENS 8

static int pipes[THREADS][2];
static _Atomic unsigned long hops;

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

static void *pass(void *mine)
{
	long me = (long)mine, next = (me + 1) % THREADS;
	char token;

	while (read(pipes[me][0], &token, 1) == 1) {
		hops++;
		if (write(pipes[next][1], &token, 1) != 1)
			break;
	}
	return NULL;
}

int main(void)
{
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (long i = 0; i < THREADS; i++)
		if (pipe(pipes[i]))
			return perror("pipe"), 1;
	for (long i = 0; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &small, pass, (void *)i))
			return fprintf(stderr, "no more threads than %ld\n", i), 1;
	}
	for (int i = 0; i < TOKENS; i++)
		if (write(pipes[i * (THREADS / TOKENS)][1], "t", 1) != 1)
			return perror("write"), 1;
	for (double begin = now();;) {
		usleep(250000);
		printf("done %lu %f\n", atomic_load(&hops), now() - begin);
		fflush(stdout);
	}
}
