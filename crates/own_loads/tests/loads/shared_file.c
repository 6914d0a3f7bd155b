/* A test in will-it-scale's interface that prepares what its tasks share, and cleans up after them. */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "Write one byte of a shared file each";

static char path[] = "/tmp/knee-own-load.XXXXXX";
static int file;

void testcase_prepare(unsigned long tasks)
{
	file = mkstemp(path);
	assert(file >= 0);
	assert(ftruncate(file, (off_t)tasks) == 0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	while (1) {
		assert(pwrite(file, "x", 1, (off_t)nr) == 1);
		*iterations += 1;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
