/* A word that counts readers, which a writer takes whole. */
#define WRITING 0x80000000U
struct shared { word state; };
static struct element guarded;
static unsigned turns;

static void change(struct shared *lock)
{
	unsigned state = 0;

#if FAULT == WRITER_NOT_ACQUIRED
	while (state = 0, !replace(&lock->state, &state, WRITING))
#else
	while (state = 0, !replace_full(&lock->state, &state, WRITING))
#endif
		while (load(&lock->state))
			;
	turns++;
	fill(&guarded, turns);
#if FAULT == WRITER_NOT_RELEASED
	store(&lock->state, 0);
#else
	store_release(&lock->state, 0);
#endif
}

static void look(struct shared *lock)
{
	struct element element;
	unsigned mine;

#if FAULT == WRITER_NOT_SEEN
	add_full(&lock->state, 1);
#else
	for (;;) {
		unsigned state = load(&lock->state);
#if FAULT == READER_NOT_ACQUIRED
		if (!(state & WRITING) && replace(&lock->state, &state, state + 1))
#else
		if (!(state & WRITING) && replace_full(&lock->state, &state, state + 1))
#endif
			break;
	}
#endif
	mine = turns;
	get(&element, &guarded);
	assert(is(&element, mine));
#if FAULT == READER_NOT_RELEASED
	add(&lock->state, -1);
#elif FAULT == READ_AFTER
	add_full(&lock->state, -1);
	assert(is(&guarded, mine));
#else
	add_full(&lock->state, -1);
#endif
}

KNEE_OPERATION(struct shared, knee_cpu() ? look(shared) : change(shared))
