/* What a lock guards: an element that its holder copies, changes and copies back. */
static struct element guarded;
static unsigned turns;

static void operate(struct shared *lock)
{
	struct element element;
	unsigned mine;

	take(lock);
	mine = turns;
	get(&element, &guarded);
	assert(is(&element, mine));
	turns = mine + 1;
	fill(&element, mine + 1);
	put(&guarded, &element);
	give(lock);
}

KNEE_OPERATION(struct shared, operate(shared))
KNEE_CHECK(struct shared, turns == knee_operations())
