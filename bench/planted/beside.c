/* Something beside a program, or taken from it, as `under` of a variant:
 *
 *     beside nothing PROGRAM …        runs it
 *     beside busy PROGRAM …           beside a task that keeps CPU 0 busy
 *     beside timers PROGRAM …         beside 8000 timer interrupts a second on CPU 0
 *     beside small PROGRAM …          without huge pages (PR_SET_THP_DISABLE)
 */
#include "planted.h"
#include <linux/perf_event.h>

static void busy(void)
{
	/* A grandchild, so that nobody waits for it; it ends with what the caller becomes. */
	pid_t program = getpid(), between = fork();
	if (between) {
		waitpid(between, NULL, 0);
		return;
	}
	if (fork())
		_exit(0);
	/* The program's end is seen by its pipes closing. */
	close_range(0, ~0U, 0);
	prctl(PR_SET_NAME, "neighbour");
	pin(0);
	while (!kill(program, 0))
		turns(1000000);
	_exit(0);
}

static void timers(void)
{
	struct perf_event_attr wanted = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof wanted, .config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000000 / 8000,
	};
	/* Stays open in the program, which knows nothing of it. */
	if (syscall(SYS_perf_event_open, &wanted, -1, 0, -1, 0) < 0)
		err(1, "perf_event_open");
}

int main(int count, char **words)
{
	if (count < 3)
		errx(1, "WHAT PROGRAM … expected");
	if (!strcmp(words[1], "busy"))
		busy();
	else if (!strcmp(words[1], "timers"))
		timers();
	else if (!strcmp(words[1], "small") && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		err(1, "PR_SET_THP_DISABLE");
	execvp(words[2], words + 2);
	err(1, "starting %s", words[2]);
}
