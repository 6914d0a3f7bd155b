/* An object that all tasks own: who gives it up last clears it. */
struct shared { word owners; };
static struct element object;

static void operate(struct shared *shared)
{
	struct element element;
	unsigned before;

	get(&element, &object);
	assert(is(&element, 5));
#if FAULT == NOT_RELEASED
	before = __atomic_fetch_sub((unsigned *)&shared->owners, 1, __ATOMIC_ACQUIRE);
#elif FAULT == NOT_ACQUIRED
	before = __atomic_fetch_sub((unsigned *)&shared->owners, 1, __ATOMIC_RELEASE);
#elif FAULT == NOT_EXCHANGED
	before = load_acquire(&shared->owners);
	store_release(&shared->owners, before - 1);
#else
	before = add_full(&shared->owners, -1);
#endif
#if FAULT == READ_AFTER
	get(&element, &object);
	assert(before != 2 || is(&element, 5));
#endif
	if (before == 1)
		memset(&object, 0, sizeof object);
}

KNEE_PREPARE(struct shared, (shared->owners = 2, fill(&object, 5)))
KNEE_OPERATION(struct shared, operate(shared))
KNEE_CHECK(struct shared, is(&object, 0))
