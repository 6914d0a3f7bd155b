/* A pointer that a writer publishes, and what readers find behind it by their dependencies alone. Task 0 writes. CONTROL: a reader
 * looks at a flag, and then at the value, which no branch orders. STORES: a reader that has seen the flag writes, which a branch
 * orders; EARLY: nothing orders the flag after the look at what the reader writes. NO_BARRIER: the writer has none. */
#include <knee_kernel.h>

struct box { int value; struct box *next; };
struct shared { struct box *first; struct box box; int flag; int back; };

static void writes(struct shared *shared)
{
#ifdef STORES
	int back = READ_ONCE(shared->back);

#ifndef EARLY
	smp_mb();
#endif
	WRITE_ONCE(shared->flag, 1);
	BUG_ON(back);
#else
	WRITE_ONCE(shared->box.value, 7);
#ifndef NO_BARRIER
	smp_wmb();
#endif
	WRITE_ONCE(shared->first, &shared->box);
	WRITE_ONCE(shared->flag, 1);
#endif
}

static noinline int value_of(struct box *box)
{
	return READ_ONCE(box->value);
}

static void reads(struct shared *shared)
{
#ifdef CONTROL
	if (READ_ONCE(shared->flag))
		BUG_ON(value_of(&shared->box) != 7);
#elif defined(STORES)
	if (READ_ONCE(shared->flag))
		WRITE_ONCE(shared->back, 1);
#else
	struct box *box = READ_ONCE(shared->first);

	if (box)
		BUG_ON(value_of(box) != 7);
#endif
}

KNEE_OPERATION(struct shared, knee_cpu() ? reads(shared) : writes(shared))
