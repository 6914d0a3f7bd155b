/* OpenImageIO's way to wait: pauses of 1, 2, 4, 8 and 16, and then the CPU is given away each time. */
#include <sched.h>

static inline void back_off(int *pauses)
{
	if (*pauses > 16) {
		sched_yield();
		return;
	}
	for (int i = 0; i < *pauses; i++)
		__builtin_ia32_pause();
	*pauses *= 2;
}
