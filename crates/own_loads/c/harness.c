/* The program around a load of the user's own: the task's side of the worker's board.
 *
 *     worker:  phase  Wait ────────> [WarmUp ─────> (counts)] Run ───> (stop = 1) ───> Report ──> reap
 *     task:           arrive(1)       testcase() ... signal: start ... signal: stop, arrive(2), report, arrive(3)
 *                     arrive(1)                      drive ...         returns,       arrive(2), verify, arrive(3)
 *
 * The first line of a task is that of will-it-scale's interface: testcase() never returns and counts by itself. So a
 * signal marks the start and the end, and what it interrupts is never resumed after the end. The second is knee.h's.
 *
 * crates/worker/src/board.rs has the other side of the board, crates/worker/src/own.rs starts this program.
 * Only system calls and stores happen in the signal handler: the task may hold any lock of the C library.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "knee.h"

/* will-it-scale's interface. */
extern char *testcase_description KNEE_OPTIONAL;
extern void testcase_prepare(unsigned long tasks) KNEE_OPTIONAL;
extern void testcase_cleanup(void) KNEE_OPTIONAL;
extern void testcase(unsigned long long *iterations, unsigned long index) KNEE_OPTIONAL;

/* What of knee.h every load has, but not a test of will-it-scale. */
extern int knee_operate(void *task) KNEE_OPTIONAL;
extern const char *const knee_description KNEE_OPTIONAL;
extern const char *const knee_operation KNEE_OPTIONAL;
extern const unsigned knee_semantics KNEE_OPTIONAL;

#include "harness/board.h"
#include "harness/report.h"
#include "harness/task.h"
#include "harness/marks.h"
#include "harness/drive.h"
#include "harness/interface.h"
#include "harness/tasks.h"

static void *map_at(unsigned long address, const char *descriptor, size_t bytes)
{
	void *memory = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (address ? MAP_FIXED : 0),
			    descriptor ? atoi(descriptor) : -1, 0);

	if (memory == MAP_FAILED) {
		perror("mapping the board");
		exit(1);
	}
	return memory;
}

static void *map(const char *descriptor, size_t bytes)
{
	return map_at(0, descriptor, bytes);
}

/* PROGRAM run FORM TASKS LIMIT PASS HEAD COUNTS TIDS REPORTS MARK CPU,CPU,... DIRECTORY [NAME=VALUE]... */
static void read_arguments(int n, char **words)
{
	char *cpu;

	if (n < 13) {
		fprintf(stderr, "knee starts this program: knee run FILE.c\n");
		exit(2);
	}
	args.run.threads = !strcmp(words[2], "threads");
	args.run.tasks = (unsigned)atoi(words[3]);
	args.limit = strtoull(words[4], NULL, 10);
	args.times_operations = !strcmp(words[5], "latency");
	args.is_traced = !strcmp(words[5], "traced");
	if (args.is_traced)
		map_marks();
	board_head = map(words[6], LINE_BYTES * HEAD_WORDS);
	board_counts = map_at(args.is_traced ? MARKS + MARKS_BYTES : 0, words[7], (size_t)LINE_BYTES * args.run.tasks);
	board_tids = map(words[8], sizeof(int32_t) * args.run.tasks);
	args.reports = atoi(words[9]);
	args.mark = atoi(words[10]);
	for (cpu = strtok(words[11], ","); cpu; cpu = strtok(NULL, ","))
		args.cpus[args.n_cpus++ % 65536] = (unsigned)atoi(cpu);
	args.run.directory = words[12];
	args.values = words + 13;
	ended_well = mmap(NULL, args.run.tasks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ended_well == MAP_FAILED) {
		perror("mapping memory");
		exit(1);
	}
}

static void print_quoted(const char *name, const char *words)
{
	char buffer[4096];
	struct text text = { buffer, buffer + sizeof(buffer) - 1 };

	put_quoted(&text, words);
	*text.at = 0;
	printf("\"%s\":%s", name, buffer);
}

/* What the load says about itself, as JSON. */
static int describe(void)
{
	const struct knee_parameter *parameter = knee_parameters;
	const char *comma = "";

	if (testcase) {
		printf("{");
		print_quoted("description", &testcase_description ? testcase_description : "");
		printf("}\n");
		return 0;
	}
	printf("{");
	print_quoted("description", knee_description);
	printf(",");
	print_quoted("operation", knee_operation);
	printf(",\"semantics\":%u,\"header\":%d,\"verifies\":%s,\"parameters\":[", knee_semantics, KNEE_VERSION,
	       knee_verify || knee_verify_all ? "true" : "false");
	for (; parameter && parameter->name; parameter++) {
		printf("%s{", comma);
		print_quoted("name", parameter->name);
		printf(",");
		print_quoted("default", parameter->value);
		printf(",");
		print_quoted("choices", parameter->choices ? parameter->choices : "");
		printf(",");
		print_quoted("about", parameter->about ? parameter->about : "");
		printf("}");
		comma = ",";
	}
	printf("]}\n");
	return 0;
}

int main(int n, char **words)
{
	struct task *tasks;
	pid_t worker = getppid();

	if (n == 2 && !strcmp(words[1], "describe"))
		return describe();
	read_arguments(n, words);
	parent = getpid();
	/* What it prints is read after its end, however that comes. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	errno = 0;
	if (testcase ? 0 : knee_prepare && knee_prepare(&args.run)) {
		fprintf(stderr, "knee_prepare failed\n");
		return 1;
	}
	if (testcase && testcase_cleanup)
		end_by_cleanup(worker);
	if (testcase && testcase_prepare)
		testcase_prepare(args.run.tasks);
	install_kick_handler();
	tasks = new_tasks();
	for (unsigned index = 0; index < args.run.tasks; index++)
		start(&tasks[index]);
	if (args.run.threads)
		wait_for_threads();
	else
		wait_for_processes(tasks);
	_exit(finish());
}
