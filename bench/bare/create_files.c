#include "bare.h"

/* Counted up in place: printf would cost more. */
static char name[] = "0000000000";

static void advance(void)
{
	char *digit = name + sizeof name - 2;
	for (; *digit == '9'; digit--)
		*digit = '0';
	++*digit;
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	int directory = mkdir(path, 0777) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (directory < 0)
		err(1, "%s", path);
	volatile int *stop = start();
	long n = 0;
	for (; !*stop; n++) {
		int fd = openat(directory, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			err(1, "%s", name);
		close(fd);
		advance();
	}
	finish(n);
}
