/* A ring of several producers and consumers: each cell has the number of the turn that may use it. */
struct cell { word turn; struct element element; };
static struct cell cells[CAPACITY];
struct shared { word head, tail; };

static int push(struct shared *ring, const struct element *element)
{
	for (;;) {
		unsigned head = load(&ring->head);
		struct cell *cell = &cells[head % CAPACITY];
#if FAULT == TURN_NOT_ACQUIRED
		unsigned turn = load(&cell->turn);
#else
		unsigned turn = load_acquire(&cell->turn);
#endif
		if (turn != head)
			return 0;
#if FAULT == HEAD_NOT_EXCHANGED
		store(&ring->head, head + 1);
#else
		if (!replace(&ring->head, &head, head + 1))
			continue;
#endif
#if FAULT == RAISED_EARLY
		store_release(&cell->turn, head + 1);
		put(&cell->element, element);
#else
		put(&cell->element, element);
#if FAULT == TURN_NOT_RELEASED
		store(&cell->turn, head + 1);
#else
		store_release(&cell->turn, head + 1);
#endif
#endif
		return 1;
	}
}

static int pop(struct shared *ring, struct element *element)
{
	for (;;) {
		unsigned tail = load(&ring->tail);
		struct cell *cell = &cells[tail % CAPACITY];

		if (load_acquire(&cell->turn) != tail + 1)
			return 0;
#if FAULT == TAIL_NOT_EXCHANGED
		store(&ring->tail, tail + 1);
#else
		if (!replace(&ring->tail, &tail, tail + 1))
			continue;
#endif
#if FAULT == FREED_EARLY
		store_release(&cell->turn, tail + CAPACITY);
		get(element, &cell->element);
#else
		get(element, &cell->element);
		store_release(&cell->turn, tail + CAPACITY);
#endif
		return 1;
	}
}

static void operate(struct shared *ring)
{
	struct element element;

	fill(&element, 1 + knee_cpu());
	push(ring, &element);
	if (pop(ring, &element))
		assert(is(&element, 1) || is(&element, 2));
}

static void prepare(struct shared *ring)
{
	(void)ring;
	for (unsigned i = 0; i < CAPACITY; i++)
		store(&cells[i].turn, i);
}

KNEE_PREPARE(struct shared, prepare(shared))
KNEE_OPERATION(struct shared, operate(shared))
