/* A stack of nodes that are taken and given back; its head is the number of a node and how often it changed. */
#define NODES 2
struct node { word next; struct element element; };
static struct node nodes[NODES + 1];
struct shared { word head; };

static unsigned changed(unsigned before, unsigned node)
{
#if FAULT == COMES_BACK_UNNOTICED
	(void)before;
	return node;
#else
	return (before & 0xFFFF0000) + 0x10000 + node;
#endif
}

static unsigned pop(struct shared *stack)
{
#if FAULT == HEAD_NOT_ACQUIRED
	unsigned before = load(&stack->head), next;

	do {
		if (!(before & 0xFFFF))
			return 0;
		next = load(&nodes[before & 0xFFFF].next);
	} while (!replace(&stack->head, &before, changed(before, next)));
#else
	unsigned before = load_acquire(&stack->head), next;

	do {
		if (!(before & 0xFFFF))
			return 0;
		next = load(&nodes[before & 0xFFFF].next);
	} while (!replace_full(&stack->head, &before, changed(before, next)));
#endif
	return before & 0xFFFF;
}

static void push(struct shared *stack, unsigned node)
{
	unsigned before = load(&stack->head);

	do {
		store(&nodes[node].next, before & 0xFFFF);
#if FAULT == HEAD_NOT_RELEASED
	} while (!replace(&stack->head, &before, changed(before, node)));
#else
	} while (!replace_full(&stack->head, &before, changed(before, node)));
#endif
}

static void use(unsigned node)
{
	struct element element;

	fill(&element, node + knee_cpu() * 8);
	put(&nodes[node].element, &element);
	get(&element, &nodes[node].element);
	assert(is(&element, node + knee_cpu() * 8));
}

static void operate(struct shared *stack)
{
	unsigned first = pop(stack), second = pop(stack);

	if (first)
		use(first);
#if FAULT == USED_AFTER
	if (first) {
		push(stack, first);
		use(first);
	}
#else
	if (first)
		push(stack, first);
#endif
	if (second) {
		use(second);
		push(stack, second);
	}
}

KNEE_PREPARE(struct shared, (push(shared, 1), push(shared, 2)))
KNEE_OPERATION(struct shared, operate(shared))
