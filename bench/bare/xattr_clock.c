/* Preloaded into a program, counts and times its calls about extended attributes, by kind and
 * by what came of them, in the file that KNEE_BENCH_XATTR names. All times hold one reading of
 * the clock; the row "clock" tells what that takes.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define READINGS 1000000

enum result { DONE, CREATED, REPLACED, FAILED, RESULTS };
static const char *const results[RESULTS] = { "", " create", " replace", " failed" };

enum call {
	SET, LSET, FSET, GET, LGET, FGET, LIST, LLIST, FLIST, REMOVE, LREMOVE, FREMOVE, CLOCK, CALLS
};
static const char *const calls[CALLS] = {
	"setxattr", "lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "fgetxattr", "listxattr",
	"llistxattr", "flistxattr", "removexattr", "lremovexattr", "fremovexattr", "clock",
};

/* The file is one array of these. */
static struct row { char name[48]; long calls, ns; } *table;

static long now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void note(enum call call, enum result result, long ns)
{
	struct row *row = &table[call * RESULTS + result];
	row->calls++;
	row->ns += ns;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("KNEE_BENCH_XATTR");
	size_t size = CALLS * RESULTS * sizeof *table;
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (fd < 0 || ftruncate(fd, size))
		err(1, "opening the file that KNEE_BENCH_XATTR names");
	table = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (table == MAP_FAILED)
		err(1, "mmap");
	close(fd);
	for (int call = 0; call < CALLS; call++)
		for (int result = 0; result < RESULTS; result++) {
			char *name = table[call * RESULTS + result].name;
			strcpy(name, calls[call]);
			strcat(name, results[result]);
		}
	for (int i = 0; i < READINGS; i++) {
		long start_ns = now_ns();
		note(CLOCK, DONE, now_ns() - start_ns);
	}
}

#define TIMED(call, success, ...) do {						\
	long start_ns = now_ns();						\
	long returned = syscall(__VA_ARGS__);					\
	note(call, returned < 0 ? FAILED : success, now_ns() - start_ns);	\
	return returned;							\
} while (0)

static enum result kind_of(int flags)
{
	return flags == XATTR_CREATE ? CREATED : flags == XATTR_REPLACE ? REPLACED : DONE;
}

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
	TIMED(SET, kind_of(flags), SYS_setxattr, path, name, value, size, flags);
}

int lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
	TIMED(LSET, kind_of(flags), SYS_lsetxattr, path, name, value, size, flags);
}

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
	TIMED(FSET, kind_of(flags), SYS_fsetxattr, fd, name, value, size, flags);
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	TIMED(GET, DONE, SYS_getxattr, path, name, value, size);
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	TIMED(LGET, DONE, SYS_lgetxattr, path, name, value, size);
}

ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
{
	TIMED(FGET, DONE, SYS_fgetxattr, fd, name, value, size);
}

ssize_t listxattr(const char *path, char *list, size_t size)
{
	TIMED(LIST, DONE, SYS_listxattr, path, list, size);
}

ssize_t llistxattr(const char *path, char *list, size_t size)
{
	TIMED(LLIST, DONE, SYS_llistxattr, path, list, size);
}

ssize_t flistxattr(int fd, char *list, size_t size)
{
	TIMED(FLIST, DONE, SYS_flistxattr, fd, list, size);
}

int removexattr(const char *path, const char *name)
{
	TIMED(REMOVE, DONE, SYS_removexattr, path, name);
}

int lremovexattr(const char *path, const char *name)
{
	TIMED(LREMOVE, DONE, SYS_lremovexattr, path, name);
}

int fremovexattr(int fd, const char *name)
{
	TIMED(FREMOVE, DONE, SYS_fremovexattr, fd, name);
}
