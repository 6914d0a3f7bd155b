/* A test in will-it-scale's interface, with no more than it needs. */
#include <sys/syscall.h>
#include <unistd.h>

char *testcase_description = "Ask for the parent's id";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		syscall(SYS_getppid);
		(*iterations)++;
	}
}
