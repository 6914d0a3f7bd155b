#include "bare.h"

#ifndef SIZE
#define SIZE (128L << 20)
#endif

static char *map(int fd)
{
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	return memory;
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0 || unlink(path) || ftruncate(fd, SIZE))
		err(1, "%s", path);
	long page = sysconf(_SC_PAGESIZE);
	char *memory = map(fd), *next = memory, *end = memory + SIZE;
	volatile int *stop = start();
	long n = 0;
	for (; !*stop; n++, next += page) {
		if (next == end) {
			munmap(memory, SIZE);
			memory = next = map(fd);
			end = memory + SIZE;
		}
		*(volatile char *)next = 1;
	}
	finish(n);
}
