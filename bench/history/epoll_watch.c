/* A file of the task's own, put on an epoll instance of the task's own and taken off again. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "knee.h"

const char *const knee_description = "Each task puts a file of its own on its epoll instance, and takes it off.";
const char *const knee_operation = "one EPOLL_CTL_ADD and one EPOLL_CTL_DEL";
const unsigned knee_semantics = 1;
const struct knee_parameter knee_parameters[] = { { NULL, NULL, NULL, NULL } };

struct task {
	int instance, file;
};

int knee_task(const struct knee_run *run, unsigned index, void **task)
{
	struct task *mine = calloc(1, sizeof(struct task));

	(void)run;
	(void)index;
	mine->instance = epoll_create1(0);
	mine->file = eventfd(0, 0);
	if (mine->instance < 0 || mine->file < 0)
		return knee_fail("creating an epoll instance and an eventfd");
	*task = mine;
	return 0;
}

int knee_operate(void *task)
{
	struct task *mine = task;
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(mine->instance, EPOLL_CTL_ADD, mine->file, &event))
		return -1;
	return epoll_ctl(mine->instance, EPOLL_CTL_DEL, mine->file, NULL);
}
