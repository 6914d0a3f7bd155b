/* Each task writes its own element and its own bits. ONE_WORD: the bits share a word, so that the tasks race before their first step, on
 * words that the search does not know yet. */
#include <knee_kernel.h>

static struct { long parts[2]; } sides[2];
static struct {
	unsigned first : 5;
#ifndef ONE_WORD
	unsigned : 0;
#endif
	unsigned second : 7;
} bits;
static _Thread_local unsigned count;

static void operate(void)
{
	sides[knee_cpu()].parts[1] = ++count;
	if (knee_cpu())
		bits.second++;
	else
		bits.first++;
}

struct shared { int unused; };
KNEE_OPERATION(struct shared, operate())
