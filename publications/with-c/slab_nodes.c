/* Mapping and unmapping: objects come from the CPU and go back to it; one of 32 operations fills or empties its stock at the list of
 * its memory node, under that list's lock. Four memory nodes; knee's nodes are core complexes, in turn of both sockets. */
#include "operation.h"
#include "queued.h"

struct list {
	struct queued lock;
	u64 partial, count;
} ____cacheline_aligned;

struct stock {
	u32 operations;
} ____cacheline_aligned;

struct cache {
	u64 flags;
} ____cacheline_aligned;

static struct list lists[4];
static _Thread_local struct stock stock;

static void map(void)
{
	struct list *list = &lists[knee_node() % 2 * 2 + knee_node() / 2 / 6 % 2];
	u32 operations = READ_ONCE(stock.operations) + 1;

	WRITE_ONCE(stock.operations, operations % 32);
	if (operations < 32)
		return;
	queued_take(&list->lock);
	WRITE_ONCE(list->partial, READ_ONCE(list->partial) + 1);
	WRITE_ONCE(list->count, READ_ONCE(list->count) + 1);
	queued_release(&list->lock);
}

AS_OPERATION(struct cache, map(), (void)lock)
