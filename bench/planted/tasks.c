/* Tasks that meet: in a cache line, on a lock, on a CPU, in a queue of sleepers.
 *
 *     tasks lines   apart|together OPERATIONS     two threads, each counts: on lines of its own or on one
 *     tasks held    LOCKS OPERATIONS FILE         one byte locked and unlocked beside so many held locks
 *     tasks partner same|other OPERATIONS         a byte there and back, the partner on the same CPU or not
 *     tasks herd    1|16 OPERATIONS               each round wakes so many of 16 sleepers
 *     tasks yield   1|2 OPERATIONS                so many tasks on one CPU that give it away in turn
 */
#include "planted.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>

static long operations;
static _Alignas(128) _Atomic long counters[64];

static void *count_up(void *which)
{
	long index = (long)which;
	pin(index ? 1 : 0);
	_Atomic long *counter = index ? &counters[index] : &counters[0];
	for (long left = operations; left; left--)
		atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
	return NULL;
}

static void lines(const char *how)
{
	pthread_t other;
	/* 8 bytes or 256 bytes from the first. */
	long second = strcmp(how, "together") ? 32 : 1;
	if (pthread_create(&other, NULL, count_up, (void *)second))
		errx(1, "no thread");
	count_up(0);
	pthread_join(other, NULL);
}

static void lock_byte(int file, short kind, long at)
{
	struct flock what = { .l_type = kind, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
	if (fcntl(file, F_SETLKW, &what))
		err(1, "locking byte %ld", at);
}

/* The child's locks stay, since POSIX locks belong to processes, until it is killed. */
static void held(long locks, const char *path)
{
	char byte;
	int ready[2], file = open(path, O_CREAT | O_RDWR, 0600);
	if (file < 0 || pipe(ready))
		err(1, "making %s", path);
	pid_t holder = child();
	if (!holder) {
		for (long i = 0; i < locks; i++)
			lock_byte(file, F_WRLCK, 2 * i);
		if (write(ready[1], "", 1) != 1)
			err(1, "write");
		for (;;)
			pause();
	}
	if (read(ready[0], &byte, 1) != 1)
		err(1, "read");
	for (long left = operations; left; left--) {
		lock_byte(file, F_WRLCK, 1L << 40);
		lock_byte(file, F_UNLCK, 1L << 40);
	}
	kill(holder, SIGKILL);
	wait(NULL);
}

static void partner(const char *how)
{
	int there[2], back[2];
	char byte = 0;
	if (pipe(there) || pipe(back))
		err(1, "pipe");
	int first = !child();
	pin(first && !strcmp(how, "other") ? 1 : 0);
	int from = first ? there[0] : back[0], to = first ? back[1] : there[1];
	for (long left = operations; left; left--)
		if (first ? read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1
			  : write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
			err(1, "passing a byte");
	if (first)
		_exit(0);
	reap(1);
}

static long futex(_Atomic int *word, int call, int value)
{
	return syscall(SYS_futex, word, call, value, NULL, NULL, 0);
}

/* All on one CPU: each round wakes so many, and is over when all of them have run. On two CPUs waking
 * many made rounds shorter, since the first of them came sooner. */
static void herd(int sleepers, int woken)
{
	struct { _Alignas(128) _Atomic int round; _Alignas(128) _Atomic int ran; } *at;
	at = shared_memory(sizeof *at);
	pin(0);
	for (int i = 0; i < sleepers; i++) {
		if (child())
			continue;
		for (int round = 0;;) {
			futex(&at->round, FUTEX_WAIT, round);
			/* Nobody is woken for nothing but by a signal. */
			if (at->round == round)
				continue;
			round = at->round;
			if (round < 0)
				_exit(0);
			if (atomic_fetch_add(&at->ran, 1) + 1 >= woken)
				futex(&at->ran, FUTEX_WAKE, 1);
		}
	}
	for (long i = 1; i <= operations; i++) {
		at->ran = 0;
		at->round = i;
		futex(&at->round, FUTEX_WAKE, woken);
		for (int ran; (ran = at->ran) < woken;)
			futex(&at->ran, FUTEX_WAIT, ran);
	}
	at->round = -1;
	for (int left = sleepers, status; left; usleep(10)) {
		futex(&at->round, FUTEX_WAKE, sleepers);
		while (waitpid(-1, &status, WNOHANG) > 0)
			left--;
	}
}

static void yield(int tasks)
{
	for (int i = 0; i < tasks; i++) {
		if (child())
			continue;
		pin(0);
		for (long left = operations / tasks; left; left--)
			sched_yield();
		_exit(0);
	}
	reap(tasks);
}

int main(int count, char **words)
{
	if (count < 4)
		errx(1, "WHAT HOW OPERATIONS expected");
	const char *what = words[1], *how = words[2];
	operations = atol(words[3]);
	if (!strcmp(what, "lines"))
		lines(how);
	else if (!strcmp(what, "held") && count == 5)
		held(atol(how), words[4]);
	else if (!strcmp(what, "partner"))
		partner(how);
	else if (!strcmp(what, "herd"))
		herd(16, atoi(how));
	else if (!strcmp(what, "yield"))
		yield(atoi(how));
	else
		errx(1, "no case '%s'", what);
	return 0;
}
