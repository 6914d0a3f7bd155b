#include "bare.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		err(1, "%s", path);
	volatile int *stop = start();
	long n = 0;
	for (; !*stop; n++)
		if (flock(fd, LOCK_EX) || flock(fd, LOCK_UN))
			err(1, "flock");
	finish(n);
}
