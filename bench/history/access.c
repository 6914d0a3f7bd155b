/* access(2) of a file of the task's own. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "knee.h"

const char *const knee_description = "Each task asks whether it may read a file of its own.";
const char *const knee_operation = "one access(2)";
const unsigned knee_semantics = 1;
const struct knee_parameter knee_parameters[] = { { NULL, NULL, NULL, NULL } };

int knee_task(const struct knee_run *run, unsigned index, void **task)
{
	char *path = malloc(4096);

	snprintf(path, 4096, "%s/file-%u", run->directory, index);
	if (close(open(path, O_RDWR | O_CREAT | O_EXCL, 0600)))
		return knee_fail("creating %s", path);
	*task = path;
	return 0;
}

int knee_operate(void *task)
{
	return access(task, R_OK);
}
