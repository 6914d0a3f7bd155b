/* A queue of nodes, one of each task: numbers from 1. */
struct node { word next, waits; };
static struct node nodes[8];
struct shared { word tail; };

static void take(struct shared *lock)
{
	unsigned mine = knee_cpu() + 1, before;

	store(&nodes[mine].next, 0);
	store(&nodes[mine].waits, 1);
#if FAULT == TAIL_NOT_ACQUIRED
	before = swap(&lock->tail, mine);
#else
	before = swap_full(&lock->tail, mine);
#endif
	if (!before)
		return;
	store_release(&nodes[before].next, mine);
#if FAULT == NOT_ACQUIRED
	while (load(&nodes[mine].waits))
#else
	while (load_acquire(&nodes[mine].waits))
#endif
		;
}

static void give(struct shared *lock)
{
	unsigned mine = knee_cpu() + 1, next = load_acquire(&nodes[mine].next);

	if (!next) {
		unsigned expected = mine;
#if FAULT == NO_RECHECK
		(void)expected;
		store_release(&lock->tail, 0);
		return;
#else
		if (replace_full(&lock->tail, &expected, 0))
			return;
#endif
		while (!(next = load_acquire(&nodes[mine].next)))
			;
	}
#if FAULT == NOT_RELEASED
	store(&nodes[next].waits, 0);
#else
	store_release(&nodes[next].waits, 0);
#endif
}

