/* Each version is an element of its own, which readers find by the number of the last one. */
struct shared { word last; };
static struct element versions[5];

static void change(struct shared *shared)
{
	unsigned next = load(&shared->last) + 1;
	struct element element;

	fill(&element, next);
#if FAULT == WRITTEN_AGAIN
	put(&versions[next % 2], &element);
	store_release(&shared->last, next);
#elif FAULT == RAISED_EARLY
	store_release(&shared->last, next);
	put(&versions[next], &element);
#else
	put(&versions[next], &element);
#if FAULT == NOT_RELEASED
	store(&shared->last, next);
#else
	store_release(&shared->last, next);
#endif
#endif
}

static void look(struct shared *shared)
{
#if FAULT == NOT_ACQUIRED
	unsigned last = load(&shared->last);
#else
	unsigned last = load_acquire(&shared->last);
#endif
	struct element element;

#if FAULT == WRITTEN_AGAIN
	get(&element, &versions[last % 2]);
#else
	get(&element, &versions[last]);
#endif
	assert(is(&element, last));
}

KNEE_OPERATION(struct shared, knee_cpu() ? look(shared) : change(shared))
