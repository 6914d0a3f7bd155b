/* Two tasks write, wait for each other, and read what the other wrote. */
struct shared { word arrived, phase; };
static struct element written[2];
static _Thread_local unsigned round;

static void meet(struct shared *barrier)
{
	unsigned phase = load(&barrier->phase);

#if FAULT == NOT_EXCHANGED
	unsigned before = load_acquire(&barrier->arrived);
	store_release(&barrier->arrived, before + 1);
#elif FAULT == NOT_RELEASED
	unsigned before = add(&barrier->arrived, 1);
#else
	unsigned before = add_full(&barrier->arrived, 1);
#endif
#if FAULT == ONE_TOO_FEW
	if (before == 0) {
#else
	if (before == 1) {
#endif
		store(&barrier->arrived, 0);
		store_release(&barrier->phase, phase + 1);
	} else {
#if FAULT == NOT_ACQUIRED
		while (load(&barrier->phase) == phase)
#else
		while (load_acquire(&barrier->phase) == phase)
#endif
			;
	}
}

static void operate(struct shared *barrier)
{
	unsigned mine = knee_cpu();
	struct element element;

	fill(&element, ++round + mine);
	put(&written[mine], &element);
	meet(barrier);
	get(&element, &written[1 - mine]);
	assert(is(&element, round + 1 - mine));
	meet(barrier);
}

KNEE_OPERATION(struct shared, operate(shared))
