/* Work items of an unbound queue of the kernel: the task puts an item on the list of its CPU's pool, under the pool's lock; a
 * worker takes that lock to fetch the item, and again when it has run it. The task stands for its worker, too. A file that includes
 * it says what POOLS there are and which is POOL(cpu)'s.
 */
#include "operation.h"
#include "queued.h"

#define LINES 3

struct line {
	u64 value;
} ____cacheline_aligned;

struct pool {
	struct queued lock;
	struct line lines[LINES];
} ____cacheline_aligned;

struct queue {
	u64 flags;
} ____cacheline_aligned;

static struct pool pools[POOLS];

static void change_pool(void)
{
	struct pool *pool = &pools[POOL(knee_cpu())];

	queued_take(&pool->lock);
	for (int line = 0; line < LINES; line++)
		WRITE_ONCE(pool->lines[line].value, READ_ONCE(pool->lines[line].value) + 1);
	queued_release(&pool->lock);
}

static void run_item(void)
{
	change_pool();
	change_pool();
}

AS_OPERATION(struct queue, change_pool(), run_item())
