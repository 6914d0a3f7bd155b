/* Eight bytes from the kernel's random number generator. */
#include <stddef.h>
#include <sys/random.h>

#include "knee.h"

const char *const knee_description = "Each task asks the kernel for eight random bytes.";
const char *const knee_operation = "one getrandom of 8 bytes";
const unsigned knee_semantics = 1;
const struct knee_parameter knee_parameters[] = { { NULL, NULL, NULL, NULL } };

int knee_task(const struct knee_run *run, unsigned index, void **task)
{
	(void)run;
	(void)index;
	*task = NULL;
	return 0;
}

int knee_operate(void *task)
{
	unsigned long long bytes;

	(void)task;
	return getrandom(&bytes, sizeof(bytes), 0) == sizeof(bytes) ? 0 : -1;
}
