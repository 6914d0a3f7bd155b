/* A load for knee: `knee run NAME.c --cpus 1..all --set size=4k,64k`.
 * Change it as you like; `knee show knee.h` prints the interface. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "knee.h"

const char *const knee_description = "Each task writes a block at the start of a file of its own.";
const char *const knee_operation = "one pwrite of a block";
const unsigned knee_semantics = 1;

const struct knee_parameter knee_parameters[] = {
	{ "size", "4k", "1..16M", "bytes of a block" },
	{ NULL, NULL, NULL, NULL },
};

struct task {
	int file;
	size_t size;
	unsigned long long bytes; /* written so far */
	char *block;
};

int knee_task(const struct knee_run *run, unsigned index, void **task)
{
	struct task *mine = calloc(1, sizeof(struct task));
	char path[4096];

	snprintf(path, sizeof(path), "%s/file-%u", run->directory, index);
	mine->size = knee_number("size");
	mine->block = calloc(1, mine->size);
	mine->file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (mine->file < 0)
		return knee_fail("creating %s", path);
	*task = mine;
	return 0;
}

int knee_operate(void *task)
{
	struct task *mine = task;
	ssize_t written = pwrite(mine->file, mine->block, mine->size, 0);

	if (written < 0)
		return -1;
	mine->bytes += (size_t)written;
	return 0;
}

/* Each operation wrote a whole block, and the file has exactly one. */
int knee_verify(void *task, unsigned long long operations)
{
	struct task *mine = task;
	struct stat found;

	if (fstat(mine->file, &found))
		return knee_fail("fstat");
	errno = 0;
	if (mine->bytes != operations * mine->size)
		return knee_fail("%llu operations wrote %llu bytes", operations, mine->bytes);
	if (operations > 0 && (size_t)found.st_size != mine->size)
		return knee_fail("the file has %lld bytes", (long long)found.st_size);
	return 0;
}
