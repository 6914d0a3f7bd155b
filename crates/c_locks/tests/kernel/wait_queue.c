/* A flag that tasks wait for in a wait queue. -DNO_WAKE: nobody is woken; -DCOMPLETION: a completion instead. */
#include <linux/wait.h>
#include <linux/completion.h>

struct event {
	wait_queue_head_t queue;
	struct completion done;
	int is_set, seen, data;
};

static void operate(struct event *event)
{
	if (knee_cpu() == 0) {
		event->data = 1;
#ifdef COMPLETION
		for (int cpu = 1; cpu < num_online_cpus(); cpu++)
			complete(&event->done);
#else
		smp_store_release(&event->is_set, 1);
#ifndef NO_WAKE
		wake_up_all(&event->queue);
#endif
#endif
		return;
	}
#ifdef COMPLETION
	wait_for_completion(&event->done);
#else
	wait_event(event->queue, smp_load_acquire(&event->is_set));
#endif
	BUG_ON(event->data != 1);
	__atomic_fetch_add(&event->seen, 1, __ATOMIC_RELAXED);
}

KNEE_OPERATION(struct event, operate(shared))
KNEE_PREPARE(struct event, (init_waitqueue_head(&shared->queue), init_completion(&shared->done)))
KNEE_CHECK(struct event, shared->seen == knee_cpus() - 1 && list_empty(&shared->queue.head))
