/* A word that its holder sets. */
struct shared { word taken; };

static void take(struct shared *lock)
{
#if FAULT == NOT_ACQUIRED
	while (swap(&lock->taken, 1))
#elif FAULT == NOT_EXCHANGED
	while (load_acquire(&lock->taken))
		;
	store(&lock->taken, 1);
	while (0)
#else
	while (swap_full(&lock->taken, 1))
#endif
		while (load(&lock->taken))
			;
}

static void give(struct shared *lock)
{
#if FAULT == NOT_RELEASED
	store(&lock->taken, 0);
#else
	store_release(&lock->taken, 0);
#endif
}

