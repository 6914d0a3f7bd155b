/* A sequence counter: one task writes words, others read them again until nothing changed meanwhile. */
#define WORDS_READ 3
struct shared { word sequence; };
static word words[WORDS_READ];

static void change(struct shared *shared)
{
	unsigned sequence = load(&shared->sequence), number = load(&words[0]) + 1;

#if FAULT != NOT_MARKED
	store(&shared->sequence, sequence + 1);
	fence();
#endif
	for (int i = 0; i < WORDS_READ; i++)
		store(&words[i], number);
	store_release(&shared->sequence, sequence + 2);
}

static void look(struct shared *shared)
{
	unsigned sequence, seen[WORDS_READ];

#if FAULT == NOT_REPEATED
	while ((sequence = load_acquire(&shared->sequence)) & 1)
		;
	for (int i = 0; i < WORDS_READ; i++)
		seen[i] = load_acquire(&words[i]);
#else
	do {
#if FAULT == ODD_IS_FINE
		sequence = load_acquire(&shared->sequence);
#else
		while ((sequence = load_acquire(&shared->sequence)) & 1)
			;
#endif
		for (int i = 0; i < WORDS_READ; i++)
			seen[i] = load_acquire(&words[i]);
	} while (load(&shared->sequence) != sequence);
#endif
	for (int i = 1; i < WORDS_READ; i++)
		assert(seen[i] == seen[0]);
}

KNEE_OPERATION(struct shared, knee_cpu() ? look(shared) : change(shared))
