/* A lock of one word for all threads, or one of each. */
struct APART word {
	atomic_flag taken;
	long guarded;
};
#if SHARED
struct word planted;
#define MINE(me) planted
#else
struct word own[THREADS];
#define MINE(me) own[me]
#endif

static void set_up(void)
{
}

static long step(long me, long x)
{
	while (atomic_flag_test_and_set_explicit(&MINE(me).taken, memory_order_acquire))
		__asm__ volatile("pause" ::: "memory");
	MINE(me).guarded += x;
	atomic_flag_clear_explicit(&MINE(me).taken, memory_order_release);
	return step_alone(x);
}
