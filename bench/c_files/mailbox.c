/* A box with one element: one task waits until it is empty, the other until it is full. */
struct shared { word full; };
static struct element box;
static _Thread_local unsigned count;

static void send(struct shared *shared)
{
#if FAULT == EMPTY_NOT_ACQUIRED
	while (load(&shared->full))
#elif FAULT == NOT_AWAITED
	while (0)
#else
	while (load_acquire(&shared->full))
#endif
		;
#if FAULT == RAISED_EARLY
	store_release(&shared->full, 1);
#endif
	fill(&box, ++count);
#if FAULT == FULL_NOT_RELEASED
	store(&shared->full, 1);
#elif FAULT != RAISED_EARLY
	store_release(&shared->full, 1);
#endif
}

static void receive(struct shared *shared)
{
	struct element element;

#if FAULT == FULL_NOT_ACQUIRED
	while (!load(&shared->full))
#else
	while (!load_acquire(&shared->full))
#endif
		;
#if FAULT == FREED_EARLY
	store_release(&shared->full, 0);
#endif
	get(&element, &box);
#if FAULT == EMPTY_NOT_RELEASED
	store(&shared->full, 0);
#elif FAULT != FREED_EARLY
	store_release(&shared->full, 0);
#endif
	assert(is(&element, ++count));
}

KNEE_OPERATION(struct shared, knee_cpu() ? receive(shared) : send(shared))
