/* A program of THREADS threads, each of which does ITERATIONS steps. Where SHARED is 1, a step needs a line of memory that
 * other threads write; where it is 0, the same work needs none. SIZE is that of the threads' own data. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((aligned(128)))

static pthread_barrier_t begin;
static long results[THREADS]; /* each written once, at the end */
static const unsigned char table[4096] = { 1, 2, 3 }; /* read by all */

static long step_alone(long x)
{
	unsigned char own[SIZE];

	memset(own, (int)x, sizeof(own));
	return x * 6364136223846793005l + own[x & (SIZE - 1)] + table[(x >> 7) & 4095];
}

static void set_up(void);
static long step(long me, long x);

static void *work(void *argument)
{
	long me = (long)argument, x = me;

	pthread_barrier_wait(&begin);
	for (long i = 0; i < ITERATIONS; i++)
		x = step(me, x);
	results[me] = x;
	return 0;
}

int main(void)
{
	pthread_t threads[THREADS];
	long sum = 0;

	set_up();
	pthread_barrier_init(&begin, 0, THREADS);
	for (long me = 1; me < THREADS; me++)
		pthread_create(&threads[me], 0, work, (void *)me);
	work(0);
	for (long me = 1; me < THREADS; me++)
		pthread_join(threads[me], 0);
	for (long me = 0; me < THREADS; me++)
		sum += results[me];
	return sum == 42;
}
