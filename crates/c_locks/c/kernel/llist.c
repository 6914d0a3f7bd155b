/* All tasks but the first add an entry, and the first takes entries: one, or all. Each entry comes out once, with its value. */
#include <knee_kernel.h>
#include KNEE_FILE

struct knee_entry { struct llist_node node; int value; };
struct knee_list { struct llist_head head; int added, taken; };

/* The entries of a task, and how many it has added. */
static _Thread_local struct knee_entry knee_entries[8];
static _Thread_local int knee_added;

static void knee_taken(struct knee_list *list, struct llist_node *node)
{
	struct knee_entry *entry = llist_entry(node, struct knee_entry, node);

	assert(entry->value == 1 && "an entry comes out of the list once, with its value");
	entry->value = 2;
	list->taken++;
}

static void knee_take_first(struct knee_list *list)
{
	struct llist_node *node = llist_del_first(&list->head);

	if (node)
		knee_taken(list, node);
}

static void knee_take_all(struct knee_list *list)
{
	struct llist_node *node = llist_reverse_order(llist_del_all(&list->head)), *next;

	for (; node; node = next) {
		next = node->next;
		knee_taken(list, node);
	}
}

static void knee_add(struct knee_list *list)
{
	struct knee_entry *entry = &knee_entries[knee_added % 8];

	BUG_ON(knee_added++ >= 8);
	__atomic_fetch_add(&list->added, 1, __ATOMIC_RELAXED);
	entry->value = 1;
	llist_add(&entry->node, &list->head);
}

static void knee_work(struct knee_list *list)
{
	if (knee_cpu() != 0)
		knee_add(list);
	else if (knee_choose(2))
		knee_take_all(list);
	else
		knee_take_first(list);
}

static int knee_is_right(struct knee_list *list)
{
	knee_take_all(list);
	return list->taken == list->added;
}

KNEE_OPERATION(struct knee_list, knee_work(shared))
KNEE_CHECK(struct knee_list, knee_is_right(shared))
