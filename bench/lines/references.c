/* References to one object, counted in it, or to an object of each thread. */
struct object {
	_Atomic int references;
	int value;
};
#if SHARED
struct object planted APART = { 1, 7 };
#define MINE(me) planted
#else
struct { struct object object; } APART own[THREADS];
#define MINE(me) own[me].object
#endif

static void set_up(void)
{
}

static long step(long me, long x)
{
	MINE(me).references++;
	x += MINE(me).value;
	if (--MINE(me).references < 0)
		abort();
	return step_alone(x);
}
