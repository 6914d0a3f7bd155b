#include <knee_kernel.h>
/* The store to `ready` may run ahead of the load of `late`. Task 1 sees it then, and does not let task 0 go: task 0 goes round and
 * never comes to its store. No machine has made that store visible: it is behind the branch on `go`. */
struct shared { int late, go, stop, ready; };
static void goes_round(struct shared *shared)
{
	int late = READ_ONCE(shared->late);

	while (!READ_ONCE(shared->go) && !READ_ONCE(shared->stop))
		;
	WRITE_ONCE(shared->ready, 1);
	BUG_ON(late > 1);
}
static void lets_go(struct shared *shared)
{
	if (!READ_ONCE(shared->ready))
		WRITE_ONCE(shared->go, 1);
	WRITE_ONCE(shared->late, 1);
}
KNEE_OPERATION(struct shared, knee_cpu() ? lets_go(shared) : goes_round(shared))
