/* A mutex of all threads, or one of each. */
#if SHARED
pthread_mutex_t planted APART = PTHREAD_MUTEX_INITIALIZER;
#define MINE(me) planted
#else
struct { pthread_mutex_t lock; } APART own[THREADS];
#define MINE(me) own[me].lock
#endif

static void set_up(void)
{
#if !SHARED
	for (long me = 0; me < THREADS; me++)
		pthread_mutex_init(&own[me].lock, 0);
#endif
}

static long step(long me, long x)
{
	pthread_mutex_lock(&MINE(me));
	x ^= 1;
	pthread_mutex_unlock(&MINE(me));
	return step_alone(x);
}
