/* A sequence counter: a reader tries again if a writer came in between. Task 0 writes, the others read. */
#include <knee_kernel.h>

struct pair { unsigned int sequence; int first, second; };

static void write_pair(struct pair *pair)
{
	WRITE_ONCE(pair->sequence, pair->sequence + 1);
	smp_wmb();
	WRITE_ONCE(pair->first, pair->first + 1);
	WRITE_ONCE(pair->second, pair->second + 1);
#ifndef NO_BARRIER
	smp_wmb();
#endif
	WRITE_ONCE(pair->sequence, pair->sequence + 1);
}

static void read_pair(struct pair *pair)
{
	unsigned int sequence;
	int first, second;

	do {
		while ((sequence = READ_ONCE(pair->sequence)) & 1)
			cpu_relax();
		smp_rmb();
		first = READ_ONCE(pair->first);
		second = READ_ONCE(pair->second);
		smp_rmb();
#ifdef NO_RETRY
	} while (0);
#else
	} while (READ_ONCE(pair->sequence) != sequence);
#endif
	BUG_ON(first != second);
}

KNEE_OPERATION(struct pair, knee_cpu() ? read_pair(shared) : write_pair(shared))
KNEE_CHECK(struct pair, shared->first == shared->second && shared->sequence % 2 == 0)
