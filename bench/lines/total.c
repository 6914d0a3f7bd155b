/* A sum of all threads, added to at each step or at the end. */
#if SHARED
_Atomic long planted APART;
#else
_Atomic long sum APART;
#endif

static void set_up(void)
{
}

static long step(long me, long x)
{
#if SHARED
	planted += x & 1;
#else
	static __thread long own, steps;

	own += x & 1;
	if (++steps == ITERATIONS)
		sum += own;
#endif
	(void)me;
	return step_alone(x);
}
