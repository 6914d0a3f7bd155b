/* A stack of free nodes for all threads, or for each. */
struct node {
	struct node *next;
} APART;

struct APART first {
	_Atomic(struct node *) node;
};
#if SHARED
struct first planted;
#define MINE(me) planted
#else
struct first own[THREADS];
#define MINE(me) own[me]
#endif
static struct node nodes[THREADS];

static void set_up(void)
{
}

static long step(long me, long x)
{
	struct node *node = &nodes[me], *expected = atomic_load(&MINE(me).node);

	do
		node->next = expected;
	while (!atomic_compare_exchange_weak(&MINE(me).node, &expected, node));
	expected = node;
	atomic_compare_exchange_strong(&MINE(me).node, &expected, node->next);
	return step_alone(x);
}
