/* What is made once, by the task that needs it first: 0 not yet, 1 being made, 2 made. */
struct shared { word state; };
static struct element made;
static unsigned times;

static void operate(struct shared *shared)
{
	struct element element;
	unsigned expected = 0;

#if FAULT == NOT_ACQUIRED
	if (load(&shared->state) != 2) {
#else
	if (load_acquire(&shared->state) != 2) {
#endif
#if FAULT == NOT_EXCHANGED
		if (load_acquire(&shared->state) == expected) {
			store(&shared->state, 1);
#else
		if (replace_full(&shared->state, &expected, 1)) {
#endif
			times++;
			fill(&element, 3);
#if FAULT == RAISED_EARLY
			store_release(&shared->state, 2);
			put(&made, &element);
#else
			put(&made, &element);
#if FAULT == NOT_RELEASED
			store(&shared->state, 2);
#else
			store_release(&shared->state, 2);
#endif
#endif
		} else {
#if FAULT != NOT_AWAITED
			while (load_acquire(&shared->state) != 2)
				;
#endif
		}
	}
	get(&element, &made);
	assert(is(&element, 3));
}

KNEE_OPERATION(struct shared, operate(shared))
KNEE_CHECK(struct shared, times == 1)
