/* Each task raises its flag and looks at the other's: at most one of two does what it guards. */
struct shared { word flags[2]; };
static struct element guarded;
static unsigned turns;

static void operate(struct shared *shared)
{
	word *mine = &shared->flags[knee_cpu()], *other = &shared->flags[1 - knee_cpu()];
	struct element element;

	store(mine, 1);
#if FAULT != NOT_FENCED
	fence();
#endif
#if FAULT == NOT_ACQUIRED
	if (!load(other)) {
#else
	if (!load_acquire(other)) {
#endif
		turns++;
		fill(&element, turns);
		put(&guarded, &element);
		get(&element, &guarded);
		assert(is(&element, turns));
	}
#if FAULT == NOT_RELEASED
	store(mine, 0);
#else
	store_release(mine, 0);
#endif
}

KNEE_OPERATION(struct shared, operate(shared))
