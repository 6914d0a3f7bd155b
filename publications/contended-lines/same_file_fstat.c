/* fstat as glibc 2.33 to 2.38 calls it: newfstatat of an empty path, which took a reference of the file's dentry until
 * Linux 6.6. Each task has a descriptor of its own of one file. SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "knee.h"

const char *const knee_description = "All tasks ask for the attributes of one open file.";
const char *const knee_operation = "one newfstatat of an open file, by an empty path";
const unsigned knee_semantics = 1;

struct task {
	int file;
	unsigned long long bytes; /* sizes seen so far */
};

int knee_task(const struct knee_run *run, unsigned index, void **task)
{
	struct task *mine = calloc(1, sizeof(struct task));
	char path[4096];

	(void)index;
	snprintf(path, sizeof(path), "%s/file", run->directory);
	mine->file = open(path, O_RDWR | O_CREAT, 0600);
	if (mine->file < 0 || ftruncate(mine->file, 1))
		return knee_fail("creating %s", path);
	*task = mine;
	return 0;
}

int knee_operate(void *task)
{
	struct task *mine = task;
	struct stat found;

	if (syscall(SYS_newfstatat, mine->file, "", &found, AT_EMPTY_PATH))
		return -1;
	mine->bytes += (unsigned long long)found.st_size;
	return 0;
}

int knee_verify(void *task, unsigned long long operations)
{
	struct task *mine = task;

	errno = 0;
	if (mine->bytes != operations)
		return knee_fail("%llu operations saw %llu bytes", operations, mine->bytes);
	return 0;
}
