/* A word that all threads look at and one of them writes at each eighth step, or only at the end. */
volatile long planted APART;

static void set_up(void)
{
}

static long step(long me, long x)
{
	static __thread long steps;

	steps++;
#if SHARED
	if (me == 0 && steps % 8 == 0)
		planted = steps;
#else
	if (me == 0 && steps == ITERATIONS)
		planted = steps;
#endif
	return step_alone(x + planted);
}
