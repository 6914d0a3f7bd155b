/* A stack whose nodes are taken and given back. Without the counter beside the pointer, a node that comes back in between
 * (ABA) goes unnoticed. */
#include <assert.h>
#include <knee_lock.h>
#include <stdatomic.h>

#define NODES 2

struct node { _Atomic unsigned short next; atomic_int owners; };
struct stack { _Atomic unsigned head; struct node nodes[NODES + 1]; };

/* The head: the number of a node, 0 for none, and how often it changed. */
static unsigned head(unsigned before, unsigned short node)
{
#ifdef ABA
	return node;
#else
	return (before & 0xFFFF0000) + 0x10000 + node;
#endif
}

static unsigned short pop(struct stack *stack)
{
	unsigned before = stack->head;
	unsigned short node, next;

	do {
		node = before;
		if (!node)
			return 0;
		next = stack->nodes[node].next;
	} while (!atomic_compare_exchange_strong(&stack->head, &before, head(before, next)));
	return node;
}

static void push(struct stack *stack, unsigned short node)
{
	unsigned before = stack->head;

	do {
		stack->nodes[node].next = before;
	} while (!atomic_compare_exchange_strong(&stack->head, &before, head(before, node)));
}

/* Takes two nodes, if they are there, and gives back the first and then the second. */
static void use(struct stack *stack)
{
	unsigned short taken[2];

	for (int i = 0; i < 2; i++) {
		taken[i] = pop(stack);
		assert(!taken[i] || stack->nodes[taken[i]].owners++ == 0);
	}
	for (int i = 0; i < 2; i++)
		if (taken[i]) {
			stack->nodes[taken[i]].owners--;
			push(stack, taken[i]);
		}
}

static int is_whole(struct stack *stack)
{
	int nodes = 0;

	while (pop(stack))
		nodes++;
	return nodes == NODES && knee_operations() > 0;
}

KNEE_PREPARE(struct stack, (push(shared, 1), push(shared, 2)))
KNEE_OPERATION(struct stack, use(shared))
KNEE_CHECK(struct stack, is_whole(shared))
