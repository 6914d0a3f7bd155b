/* Neighbours: each task writes its own bits and its own element. */
struct shared { word unused; };
static struct element sides[2];
static struct {
	unsigned first : 5;
#if FAULT != IN_ONE_WORD
	unsigned : 0;
#endif
	unsigned second : 7;
} bits;
static _Thread_local unsigned count;

static void operate(struct shared *shared)
{
	unsigned mine = knee_cpu();
	struct element element;

	(void)shared;
	fill(&element, ++count);
	put(&sides[mine], &element);
	get(&element, &sides[mine]);
	assert(is(&element, count));
	if (mine)
		bits.second++;
	else
		bits.first++;
#if FAULT == ONE_BYTE_MORE
	if (!mine)
		for (unsigned i = 0; i < sizeof element + 1; i++)
			((volatile char *)sides)[i] = 0;
#endif
}

KNEE_OPERATION(struct shared, operate(shared))
