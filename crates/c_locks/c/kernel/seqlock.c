/* write_seqlock and write_sequnlock around two words that readers, by read_seqbegin and read_seqretry, must find equal. */
#include <knee_kernel.h>
#include KNEE_FILE

struct knee_pair { seqlock_t lock; int first, second; };

static void knee_write(struct knee_pair *pair)
{
	write_seqlock(&pair->lock);
	WRITE_ONCE(pair->first, pair->first + 1);
	WRITE_ONCE(pair->second, pair->second + 1);
	write_sequnlock(&pair->lock);
}

static void knee_read(struct knee_pair *pair)
{
	int first, second;
	unsigned int sequence;

	do {
		sequence = read_seqbegin(&pair->lock);
		first = READ_ONCE(pair->first);
		second = READ_ONCE(pair->second);
	} while (read_seqretry(&pair->lock, sequence));
	assert(first == second && "a reader of a seqlock sees all that a writer writes, or nothing");
}

KNEE_OPERATION(struct knee_pair, knee_choose(2) ? knee_read(shared) : knee_write(shared))
KNEE_PREPARE(struct knee_pair, seqlock_init(&shared->lock))
KNEE_CHECK(struct knee_pair, shared->first == shared->second)
KNEE_ONCE(lock.seqcount.seqcount.sequence)
