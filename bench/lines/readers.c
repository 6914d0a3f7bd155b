/* A read-write lock that all threads take to read, or one of each. */
#if SHARED
pthread_rwlock_t planted APART = PTHREAD_RWLOCK_INITIALIZER;
#define MINE(me) planted
#else
struct { pthread_rwlock_t lock; } APART own[THREADS];
#define MINE(me) own[me].lock
#endif

static void set_up(void)
{
#if !SHARED
	for (long me = 0; me < THREADS; me++)
		pthread_rwlock_init(&own[me].lock, 0);
#endif
}

static long step(long me, long x)
{
	pthread_rwlock_rdlock(&MINE(me));
	x += table[x & 4095];
	pthread_rwlock_unlock(&MINE(me));
	return step_alone(x);
}
