#include "bare.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		err(1, "%s", path);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct flock unlock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	volatile int *stop = start();
	long n = 0;
	for (; !*stop; n++)
		if (fcntl(fd, F_SETLKW, &lock) || fcntl(fd, F_SETLKW, &unlock))
			err(1, "fcntl");
	finish(n);
}
