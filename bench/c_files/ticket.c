/* Tickets and the number that is served. */
struct shared { word next, serving; };

static void take(struct shared *lock)
{
#if FAULT == NOT_EXCHANGED
	unsigned mine = load(&lock->next);
	store(&lock->next, mine + 1);
#else
	unsigned mine = add(&lock->next, 1);
#endif
#if FAULT == NOT_ACQUIRED
	while (load(&lock->serving) != mine)
#else
	while (load_acquire(&lock->serving) != mine)
#endif
		;
}

static void give(struct shared *lock)
{
	unsigned serving = load(&lock->serving);
#if FAULT == NOT_RELEASED
	store(&lock->serving, serving + 1);
#elif FAULT == SKIPS_ONE
	store_release(&lock->serving, serving + 2);
#else
	store_release(&lock->serving, serving + 1);
#endif
}

