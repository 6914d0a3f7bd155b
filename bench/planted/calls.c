/* Operations that are a sequence of letters, each a system call or a piece of work:
 *
 *     calls FILE LETTERS OPERATIONS
 *
 *     g getppid       s newfstatat of FILE     f fstat of FILE        y sched_yield
 *     u 2000 turns of an empty loop            w 4096 lines of 64 bytes read in a walk of 256 KiB
 *     W the same number read in a walk of 64 MiB
 *     r pread64 of 64 bytes                    R pread64 of 64 KiB
 *     t 8 pages mapped, touched, unmapped      m 8 pages mapped, unmapped
 *     M the same 8 pages unmapped as two halves
 *     k POSIX lock and unlock of one byte of FILE
 */
#include "planted.h"

static int file;
static const char *path;
static char buffer[64 << 10], *memory;
static volatile unsigned long sink;

enum { PAGES = 8 * 4096, LINES = 4096, LARGE = 64 << 20, SMALL = 256 << 10 };

static void walk(long size)
{
	static long at;
	unsigned long sum = 0;
	for (int i = 0; i < LINES; i++) {
		at = (at * 1103515245 + 12345) & (size / 64 - 1);
		sum += memory[at * 64];
	}
	sink += sum;
}

static void map(int touch, int pieces)
{
	char *at = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		err(1, "mmap");
	for (int i = 0; touch && i < PAGES; i += 4096)
		at[i] = 1;
	for (int i = 0; i < pieces; i++)
		if (munmap(at + i * (PAGES / pieces), PAGES / pieces))
			err(1, "munmap");
}

static void lock(short kind)
{
	struct flock what = { .l_type = kind, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	if (fcntl(file, F_SETLKW, &what))
		err(1, "locking %s", path);
}

static void operate(char letter)
{
	struct stat status;
	switch (letter) {
	case 'g': syscall(SYS_getppid); return;
	case 's': syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0); return;
	case 'f': syscall(SYS_fstat, file, &status); return;
	case 'y': syscall(SYS_sched_yield); return;
	case 'u': turns(2000); return;
	case 'w': walk(SMALL); return;
	case 'W': walk(LARGE); return;
	case 'r': if (pread(file, buffer, 64, 0) < 0) err(1, "reading"); return;
	case 'R': if (pread(file, buffer, sizeof buffer, 0) < 0) err(1, "reading"); return;
	case 't': map(1, 1); return;
	case 'm': map(0, 1); return;
	case 'M': map(0, 2); return;
	case 'k': lock(F_WRLCK); lock(F_UNLCK); return;
	default: errx(1, "no letter '%c'", letter);
	}
}

int main(int count, char **words)
{
	if (count != 4)
		errx(1, "FILE LETTERS OPERATIONS expected");
	path = words[1];
	file = open(path, O_CREAT | O_RDWR, 0600);
	if (file < 0 || write(file, buffer, sizeof buffer) < 0)
		err(1, "making %s", path);
	if (strpbrk(words[2], "wW")) {
		memory = shared_memory(LARGE);
		madvise(memory, LARGE, MADV_NOHUGEPAGE);
		memset(memory, 1, LARGE);
	}
	for (long left = atol(words[3]); left; left--)
		for (const char *letter = words[2]; *letter; letter++)
			operate(*letter);
	return 0;
}
