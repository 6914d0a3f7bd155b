/* A test in will-it-scale's interface whose tasks have a helper each. */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "Send a byte to a helper and back";

extern void new_task(void *(*function)(void *), void *argument);

static void *answer(void *argument)
{
	int *pipes = argument;
	char byte;

	while (read(pipes[0], &byte, 1) == 1)
		assert(write(pipes[3], &byte, 1) == 1);
	return NULL;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int *pipes = calloc(4, sizeof(int));
	char byte = 0;

	(void)nr;
	assert(pipes && pipe(pipes) == 0 && pipe(pipes + 2) == 0);
	new_task(answer, pipes);
	while (1) {
		assert(write(pipes[1], &byte, 1) == 1);
		assert(read(pipes[2], &byte, 1) == 1);
		*iterations += 2;
	}
}
