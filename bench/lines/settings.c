/* Settings that all threads read, with a count of one thread beside them or apart. */
struct {
	long scale, offset;
#if SHARED
	volatile long count;
} APART planted = { 3, 5, 0 };
#define COUNT planted.count
#else
} APART planted = { 3, 5 };
struct { volatile long count; } APART own;
#define COUNT own.count
#endif

static void set_up(void)
{
}

static long step(long me, long x)
{
	if (me == 0)
		COUNT++;
	return step_alone(x * *(volatile long *)&planted.scale + *(volatile long *)&planted.offset);
}
