/* Data of the threads on the heap: what one allocation gives to all, or a page for each. */
static volatile long *data[THREADS];

static void set_up(void)
{
#if SHARED
	volatile long *all = aligned_alloc(128, 128);

	for (long me = 0; me < THREADS; me++)
		data[me] = all + me;
#else
	for (long me = 0; me < THREADS; me++)
		data[me] = aligned_alloc(4096, 4096);
#endif
	for (long me = 0; me < THREADS; me++)
		*data[me] = 0;
}

static long step(long me, long x)
{
	(*data[me])++;
	return step_alone(x);
}
