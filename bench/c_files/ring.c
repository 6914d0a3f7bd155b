/* A ring of one producer and one consumer. */
struct shared { word head, tail; };
static struct element slots[CAPACITY];
static _Thread_local unsigned count;

static void push(struct shared *ring)
{
	unsigned head = load(&ring->head);
	struct element element;
#if FAULT == TAIL_NOT_ACQUIRED
	unsigned tail = load(&ring->tail);
#else
	unsigned tail = load_acquire(&ring->tail);
#endif
#if FAULT == ONE_TOO_MANY
	if (head - tail == CAPACITY + 1)
#else
	if (head - tail == CAPACITY)
#endif
		return;
	fill(&element, ++count);
#if FAULT == RAISED_EARLY
	store_release(&ring->head, head + 1);
	put(&slots[head % CAPACITY], &element);
#else
	put(&slots[head % CAPACITY], &element);
#if FAULT == HEAD_NOT_RELEASED
	store(&ring->head, head + 1);
#else
	store_release(&ring->head, head + 1);
#endif
#endif
}

static void pop(struct shared *ring)
{
	unsigned tail = load(&ring->tail);
	struct element element;
#if FAULT == HEAD_NOT_ACQUIRED
	unsigned head = load(&ring->head);
#else
	unsigned head = load_acquire(&ring->head);
#endif
	if (tail == head)
		return;
#if FAULT == FREED_EARLY
	store_release(&ring->tail, tail + 1);
	get(&element, &slots[tail % CAPACITY]);
#else
	get(&element, &slots[tail % CAPACITY]);
#if FAULT == TAIL_NOT_RELEASED
	store(&ring->tail, tail + 1);
#else
	store_release(&ring->tail, tail + 1);
#endif
#endif
	assert(is(&element, ++count));
}

KNEE_OPERATION(struct shared, knee_cpu() ? pop(shared) : push(shared))
