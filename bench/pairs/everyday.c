// SPDX-License-Identifier: MIT OR Apache-2.0
// Everyday programs for `bench --only pairs`: everyday WHAT SIZE FORM. FORM is what differs within a pair.
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;

static void compute(long turns)
{
	uint64_t x = 1;

	for (long i = 0; i < turns; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	sink = x;
}

static int ascending(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

// Form 0: quicksort; 1: insertion.
static void sort(long size, long form)
{
	int *numbers = malloc(size * sizeof(int));

	srand(7);
	for (long i = 0; i < size; i++)
		numbers[i] = rand();
	if (!form) {
		for (int again = 0; again < 40; again++)
			qsort(numbers, size, sizeof(int), ascending);
		return;
	}
	for (long i = 1; i < size; i++)
		for (long j = i; j && numbers[j - 1] > numbers[j]; j--) {
			int other = numbers[j];

			numbers[j] = numbers[j - 1];
			numbers[j - 1] = other;
		}
}

// Form: how many turns there are beside each 1000.
static void more_work(long size, long form)
{
	for (long i = 0; i < size; i++)
		compute(1000 + form);
}

// Form 0: one buffer; 1: a new one each time.
static void allocate(long size, long form)
{
	char *buffer;

	// Otherwise a block that was once freed is kept for the next one.
	mallopt(M_MMAP_THRESHOLD, 1 << 17);
	buffer = malloc(1 << 20);
	memset(buffer, 1, 1 << 20);
	for (long i = 0; i < size; i++) {
		if (form) {
			free(buffer);
			buffer = malloc(1 << 20);
		}
		for (long j = 0; j < 1 << 20; j += 4096)
			buffer[j]++;
		compute(20000);
	}
}

// Form: calls beside the work.
static void call(long size, long form)
{
	struct stat status;

	for (long i = 0; i < size; i++) {
		compute(2000);
		for (long j = 0; j < form; j++)
			stat("/", &status);
	}
}

// Form: bytes of a read.
static void read_by(long size, long form)
{
	char *buffer = malloc(form);
	int file = memfd_create("file", 0);

	if (ftruncate(file, size) || !buffer)
		exit(1);
	for (long at = 0; at < size; at += form)
		if (pread(file, buffer, form, at) < 0)
			exit(1);
	compute(20000000);
}

// Form: bytes of a write.
static void write_by(long size, long form)
{
	char *buffer = calloc(form, 1);
	int file = memfd_create("file", 0);

	for (long at = 0; at < size; at += form)
		if (pwrite(file, buffer, form, at % (1 << 20)) < 0)
			exit(1);
	compute(20000000);
}

// Form: us of sleep each time.
static void pause_for(long size, long form)
{
	for (long i = 0; i < size; i++) {
		compute(500000);
		if (form)
			usleep(form);
	}
}

// Form 1: the pages of the mapping are fresh each time.
static void touch(long size, long form)
{
	const long bytes = 1 << 20;
	char *pages = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(pages, bytes, MADV_NOHUGEPAGE);
	for (long i = 0; i < size; i++) {
		if (form)
			madvise(pages, bytes, MADV_DONTNEED);
		for (long j = 0; j < bytes; j += 4096)
			pages[j]++;
		compute(20000);
	}
}

static long turns, held;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *task(void *unused)
{
	(void)unused;
	compute(turns);
	return NULL;
}

static void *locked(void *unused)
{
	(void)unused;
	for (long i = 0; i < turns; i++) {
		pthread_mutex_lock(&lock);
		compute(held);
		pthread_mutex_unlock(&lock);
		compute(40000 - held);
	}
	return NULL;
}

static void two(void *(*run)(void *), int in_turn)
{
	pthread_t threads[2];

	pthread_create(&threads[0], NULL, run, NULL);
	if (in_turn)
		pthread_join(threads[0], NULL);
	pthread_create(&threads[1], NULL, run, NULL);
	if (!in_turn)
		pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

// Form 1: both threads on one CPU.
static void threads_on(long size, long form)
{
	turns = size;
	if (form)
		pin(0);
	two(task, 0);
}

// Form 1: the second thread starts when the first has ended.
static void in_turn(long size, long form)
{
	turns = size;
	two(task, form);
}

// Form: turns of 40000 in which the lock is held.
static void locks(long size, long form)
{
	turns = size;
	held = form;
	two(locked, 0);
}

// A child writes as many messages as `size`, of 4096 bytes; form: turns of work for each of them in the child.
static void pipes(long size, long form)
{
	static char message[4096];
	int ends[2];

	if (pipe(ends))
		exit(1);
	if (!fork()) {
		close(ends[0]);
		for (long i = 0; i < size; i++) {
			compute(5000 + form);
			if (write(ends[1], message, sizeof(message)) < 0)
				_exit(1);
		}
		_exit(0);
	}
	close(ends[1]);
	while (read(ends[0], message, sizeof(message)) > 0)
		compute(2000);
	wait(NULL);
}

// Two processes; form: turns that both do beside theirs.
static void processes(long size, long form)
{
	if (!fork()) {
		compute(size + form);
		_exit(0);
	}
	compute(size + form);
	wait(NULL);
}

// Form: how many short processes there are.
static void forks(long size, long form)
{
	for (long i = 0; i < form; i++) {
		if (!fork()) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		wait(NULL);
	}
	compute(size);
}

static const struct {
	const char *name;
	void (*run)(long size, long form);
} kinds[] = {
	{ "sort", sort }, { "work", more_work }, { "allocate", allocate }, { "call", call },
	{ "read", read_by }, { "write", write_by }, { "sleep", pause_for }, { "touch", touch },
	{ "affinity", threads_on }, { "in-turn", in_turn }, { "lock", locks }, { "pipe", pipes },
	{ "processes", processes }, { "forks", forks },
};

int main(int count, char **words)
{
	for (size_t i = 0; count == 4 && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(words[1], kinds[i].name)) {
			kinds[i].run(atol(words[2]), atol(words[3]));
			return 0;
		}
	return 2;
}
