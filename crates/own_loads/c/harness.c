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
#include <sched.h>
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

enum phase { PHASE_WAIT, PHASE_RUN, PHASE_REPORT, PHASE_ABORT, PHASE_WARM_UP };

/* Each word has a line of its own. */
enum head { HEAD_PHASE, HEAD_STOP, HEAD_ARRIVED, HEAD_GATE, HEAD_FAILED, HEAD_RELEASED_NS, HEAD_WORDS };
enum { LINE_BYTES = 128, COUNT_BYTE = 64, HELPERS_MAX = 64, MESSAGE_BYTES = 512 };

/* The worker's Board::kick_all sends it. */
#define KICK (SIGRTMAX - 1)

static char *board_head, *board_counts;
static int32_t *board_tids;

/* The command line, see read_arguments(). */
static struct {
	struct knee_run run;
	unsigned long long limit;
	int times_operations;
	int reports; /* file descriptor */
	int mark;    /* file descriptor of the BPF program that marks a task; -1 without */
	unsigned cpus[65536];
	unsigned n_cpus;
	char **values; /* NAME=VALUE */
} args;

/* A duration d is counted in a bucket of three digits: exactly below 1024, else by its upper 10 bits. */
enum { DIGIT_BITS = 10, BUCKETS = (64 - DIGIT_BITS + 1) << DIGIT_BITS };

struct task {
	unsigned index;
	unsigned cpu;
	unsigned long long *count;
	int in_test, started;
	uint64_t start_ns, stop_ns, count_at_start, operations;
	struct rusage usage_at_start, usage;
	pid_t helpers[HELPERS_MAX];
	uint64_t helper_ns_at_start[HELPERS_MAX];
	unsigned n_helpers;
	uint64_t *buckets;
	char failure[MESSAGE_BYTES];
};

static __thread struct task *self;
/* Shared by the processes: whether task i has ended as it should. */
static volatile char *ended_well;
static pid_t parent;

static uint32_t *word(enum head which)
{
	return (uint32_t *)(board_head + LINE_BYTES * which);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t since_release_ns(void)
{
	uint64_t *released = (uint64_t *)word(HEAD_RELEASED_NS);

	return now_ns() - __atomic_load_n(released, __ATOMIC_RELAXED);
}

static void futex_wait(uint32_t *address, uint32_t expected)
{
	syscall(SYS_futex, address, FUTEX_WAIT, expected, NULL, NULL, 0);
}

static void open_gate(void)
{
	__atomic_fetch_add(word(HEAD_GATE), 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, word(HEAD_GATE), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Release: what the task wrote before is visible to the worker, which acquires in `all_arrived`. */
static void arrive(unsigned stage)
{
	uint32_t arrived = __atomic_fetch_add(word(HEAD_ARRIVED), 1, __ATOMIC_RELEASE) + 1;

	if (arrived == args.run.tasks * stage)
		open_gate();
}

/* Marks the run as failed, and stops all tasks. */
static void fail_run(void)
{
	__atomic_store_n(word(HEAD_FAILED), 1, __ATOMIC_RELAXED);
	__atomic_store_n(word(HEAD_STOP), 1, __ATOMIC_RELAXED);
	open_gate();
}

/* Acquire: pairs with the release in `set_phase`. */
static enum phase next_phase(enum phase phase)
{
	for (;;) {
		uint32_t now = __atomic_load_n(word(HEAD_PHASE), __ATOMIC_ACQUIRE);

		if (now != phase)
			return now;
		futex_wait(word(HEAD_PHASE), now);
	}
}

/* The report: one line of JSON, made without the C library, which may be in any state. */

struct text {
	char *at, *end;
};

static void put(struct text *text, const char *words)
{
	while (*words && text->at < text->end)
		*text->at++ = *words++;
}

static void put_number(struct text *text, uint64_t number)
{
	char digits[24], *digit = digits + sizeof(digits) - 1;

	*digit = 0;
	do
		*--digit = (char)('0' + number % 10);
	while (number /= 10);
	put(text, digit);
}

static void put_field(struct text *text, const char *name, uint64_t number)
{
	put(text, ",\"");
	put(text, name);
	put(text, "\":");
	put_number(text, number);
}

/* What is no printable ASCII becomes a question mark. */
static void put_quoted(struct text *text, const char *words)
{
	put(text, "\"");
	for (; *words && text->at + 2 < text->end; words++) {
		if (*words == '"' || *words == '\\')
			*text->at++ = '\\';
		*text->at++ = *words >= ' ' && *words < 127 ? *words : '?';
	}
	put(text, "\"");
}

static uint64_t us(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void put_usage(struct text *text, const struct rusage *before, const struct rusage *after)
{
	put(text, ",\"usage\":{\"user_us\":");
	put_number(text, us(after->ru_utime) - us(before->ru_utime));
	put_field(text, "system_us", us(after->ru_stime) - us(before->ru_stime));
	put_field(text, "voluntary_switches", (uint64_t)(after->ru_nvcsw - before->ru_nvcsw));
	put_field(text, "involuntary_switches", (uint64_t)(after->ru_nivcsw - before->ru_nivcsw));
	put_field(text, "minor_faults", (uint64_t)(after->ru_minflt - before->ru_minflt));
	put_field(text, "major_faults", (uint64_t)(after->ru_majflt - before->ru_majflt));
	put_field(text, "max_rss_kib", (uint64_t)after->ru_maxrss);
	put_field(text, "block_inputs", (uint64_t)(after->ru_inblock - before->ru_inblock));
	put_field(text, "block_outputs", (uint64_t)(after->ru_oublock - before->ru_oublock));
	put(text, "}");
}

/* The largest duration in a bucket. */
static uint64_t bucket_ns(unsigned bucket)
{
	unsigned shift = bucket >> DIGIT_BITS;
	uint64_t digits = bucket & ((1u << DIGIT_BITS) - 1);

	if (shift == 0)
		return digits;
	return (((1ull << DIGIT_BITS) + digits + 1) << (shift - 1)) - 1;
}

static void count_duration(struct task *task, uint64_t ns)
{
	unsigned shift = ns < 1u << DIGIT_BITS ? 0 : 64 - DIGIT_BITS - (unsigned)__builtin_clzll(ns);
	uint64_t digits = shift == 0 ? ns : (ns >> (shift - 1)) & ((1u << DIGIT_BITS) - 1);

	task->buckets[(shift << DIGIT_BITS) + digits]++;
}

static void put_durations(struct text *text, const struct task *task)
{
	const char *comma = ",\"durations\":[[";

	for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
		if (!task->buckets[bucket])
			continue;
		put(text, comma);
		put_number(text, bucket_ns(bucket));
		put(text, ",");
		put_number(text, task->buckets[bucket]);
		put(text, "]");
		comma = ",[";
	}
	put(text, comma[1] == '[' ? "]" : "");
}

/* One write: appends of several processes do not mix. */
static void write_report(struct task *task, char *buffer, size_t bytes)
{
	struct text text = { buffer, buffer + bytes - 1 };
	ssize_t written;

	put(&text, "{\"task\":");
	put_number(&text, task->index);
	put_field(&text, "cpu", task->cpu);
	put_field(&text, "operations", task->operations);
	put_field(&text, "start_ns", task->start_ns);
	put_field(&text, "stop_ns", task->stop_ns);
	put_usage(&text, &task->usage_at_start, &task->usage);
	if (task->buckets)
		put_durations(&text, task);
	if (task->failure[0]) {
		put(&text, ",\"failure\":");
		put_quoted(&text, task->failure);
	}
	put(&text, "}");
	*text.at++ = '\n';
	written = write(args.reports, buffer, (size_t)(text.at - buffer));
	if (task->failure[0] || written != text.at - buffer)
		fail_run();
}

/* Reports that a task could not be or stay one. */
static void report_failure(struct task *task)
{
	char buffer[2 * MESSAGE_BYTES + 1024];

	write_report(task, buffer, sizeof(buffer));
}

int knee_fail(const char *format, ...)
{
	static __thread char unowned[MESSAGE_BYTES];
	char *message = self ? self->failure : unowned;
	int error = errno;
	va_list more;

	va_start(more, format);
	vsnprintf(message, MESSAGE_BYTES, format, more);
	va_end(more);
	if (error) {
		size_t length = strlen(message);

		snprintf(message + length, MESSAGE_BYTES - length, ": %s", strerror(error));
	}
	if (!self)
		fprintf(stderr, "%s\n", message);
	/* So that the loop does not take it for an interrupted call. */
	errno = 0;
	return -1;
}

/* Keeps what knee_fail said, or says which function failed. */
static void name_failure(struct task *task, const char *function)
{
	int error = errno;

	if (task->failure[0])
		return;
	snprintf(task->failure, MESSAGE_BYTES, "%s failed%s%s", function, error ? ": " : "",
		 error ? strerror(error) : "; knee_fail() can say why");
}

static void pin(struct task *task)
{
	cpu_set_t *cpus = CPU_ALLOC(65536);
	size_t bytes = CPU_ALLOC_SIZE(65536);

	CPU_ZERO_S(bytes, cpus);
	CPU_SET_S(task->cpu, bytes, cpus);
	if (sched_setaffinity(0, bytes, cpus))
		knee_fail("pinning to CPU %u", task->cpu);
	CPU_FREE(cpus);
}

/* Marks the calling task for the probes of a profile, as crates/probes/src/ledger/mark.rs does. */
static void mark(void)
{
	struct {
		uint32_t program, return_value;
		uint64_t rest[9];
	} run = { .program = (uint32_t)args.mark };
	enum { BPF_PROG_TEST_RUN_COMMAND = 10 };

	if (args.mark < 0)
		return;
	if (syscall(SYS_bpf, BPF_PROG_TEST_RUN_COMMAND, &run, sizeof(run)))
		knee_fail("marking the task for the ledger");
	else if (run.return_value != 1) {
		errno = ENOMEM;
		knee_fail("marking the task for the ledger");
	}
}

/* When a CPU goes offline, the kernel lets its tasks run anywhere from then on. */
static void check_pinned(struct task *task)
{
	unsigned long cpus[1024];
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus);
	unsigned count = 0;

	for (long at = 0; at < bytes / (long)sizeof(long); at++)
		count += (unsigned)__builtin_popcountl(cpus[at]);
	if (bytes > 0 && count != 1 && !task->failure[0]) {
		struct text text = { task->failure, task->failure + MESSAGE_BYTES - 1 };

		put(&text, "no longer pinned to its CPU: it was offline for a while, or the load, or "
			   "somebody else, changed the task's affinity");
		*text.at = 0;
	}
}

static void own_usage(struct rusage *usage)
{
	getrusage(args.run.threads ? RUSAGE_THREAD : RUSAGE_SELF, usage);
}

/* The CPU time that a process has used, in ns; include/linux/posix-timers_types.h: the id inverted, CPUCLOCK_SCHED. */
static uint64_t cpu_ns(pid_t process)
{
	struct timespec time = { 0, 0 };

	clock_gettime((clockid_t)(~(unsigned)process << 3 | 2), &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void add_us(struct timeval *time, uint64_t more_us)
{
	uint64_t sum = us(*time) + more_us;

	time->tv_sec = (time_t)(sum / 1000000);
	time->tv_usec = (suseconds_t)(sum % 1000000);
}

/* Ends the helper processes that new_task() made, and adds the CPU time that they used since the release. Their whole
 * life says how much of it was in the kernel. */
static void end_helpers(struct task *task)
{
	for (unsigned helper = 0; helper < task->n_helpers; helper++) {
		pid_t process = task->helpers[helper];
		uint64_t used_us = (cpu_ns(process) - task->helper_ns_at_start[helper]) / 1000;
		uint64_t in_kernel_us, all_us;
		struct rusage whole;

		kill(process, SIGKILL);
		if (wait4(process, NULL, 0, &whole) < 0)
			continue;
		all_us = us(whole.ru_utime) + us(whole.ru_stime);
		in_kernel_us = all_us ? used_us * us(whole.ru_stime) / all_us : 0;
		add_us(&task->usage.ru_stime, in_kernel_us);
		add_us(&task->usage.ru_utime, used_us - in_kernel_us);
	}
}

/* Ends the calling task: a process exits, a thread sleeps until its process does. */
static void leave(struct task *task)
{
	ended_well[task->index] = 1;
	if (!args.run.threads)
		_exit(0);
	for (;;)
		syscall(SYS_pause);
}

/* The end of a task of will-it-scale's interface, in the signal handler. */
static void end_test(struct task *task)
{
	uint64_t count = __atomic_load_n(task->count, __ATOMIC_RELAXED);

	task->stop_ns = since_release_ns();
	own_usage(&task->usage);
	task->operations = count - task->count_at_start;
	if (count < task->count_at_start) {
		struct text text = { task->failure, task->failure + MESSAGE_BYTES - 1 };

		put(&text, "its counter ran backwards, from ");
		put_number(&text, task->count_at_start);
		put(&text, " to ");
		put_number(&text, count);
		put(&text, ": testcase() must only add to *iterations");
		*text.at = 0;
	}
	check_pinned(task);
	arrive(2);
	if (next_phase(PHASE_RUN) == PHASE_REPORT) {
		if (!args.run.threads)
			end_helpers(task);
		report_failure(task);
	}
	arrive(3);
	leave(task);
}

static void on_kick(int signal)
{
	struct task *task = self;
	int error = errno;

	(void)signal;
	/* A load of knee.h is only to see that its call was interrupted. */
	if (task && task->in_test) {
		if (!task->started && __atomic_load_n(word(HEAD_PHASE), __ATOMIC_ACQUIRE) == PHASE_RUN) {
			task->start_ns = since_release_ns();
			for (unsigned helper = 0; helper < task->n_helpers; helper++)
				task->helper_ns_at_start[helper] = cpu_ns(task->helpers[helper]);
			own_usage(&task->usage_at_start);
			task->count_at_start = __atomic_load_n(task->count, __ATOMIC_RELAXED);
			task->started = 1;
		}
		if (task->started && __atomic_load_n(word(HEAD_STOP), __ATOMIC_RELAXED))
			end_test(task);
	}
	errno = error;
}

/* A test restarts interrupted calls: theirs has a timer signal each second that does. */
static void install_kick_handler(void)
{
	struct sigaction action = { .sa_handler = on_kick, .sa_flags = testcase ? SA_RESTART : 0 };

	sigaction(KICK, &action, NULL);
}

/* Like knee_drive(), but times each operation. */
static int drive_timed(struct task *task, void *load, const struct knee_control *control)
{
	unsigned long long done = 0;

	while (done < control->limit && !__atomic_load_n(control->stop, __ATOMIC_RELAXED)) {
		uint64_t start = now_ns();
		int result = knee_operate(load);
		uint64_t end = now_ns();

		if (result == 0) {
			count_duration(task, end - start);
			__atomic_store_n(control->count, ++done, __ATOMIC_RELAXED);
		} else if (errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

static void drive(struct task *task, void *load)
{
	const struct knee_control control = { word(HEAD_STOP), task->count, args.limit };
	int result;

	task->start_ns = since_release_ns();
	own_usage(&task->usage_at_start);
	result = task->buckets ? drive_timed(task, load, &control) : knee_drive(load, &control);
	if (result)
		name_failure(task, "knee_operate");
	task->stop_ns = since_release_ns();
	own_usage(&task->usage);
	task->operations = *task->count;
}

/* A task of knee.h's interface, from its set-up to its report. */
static void run_load(struct task *task)
{
	char small[2 * MESSAGE_BYTES + 1024], *buffer = small;
	size_t bytes = sizeof(small);
	void *load = NULL;

	if (args.times_operations) {
		task->buckets = calloc(BUCKETS, sizeof(uint64_t));
		bytes = BUCKETS * 44;
		buffer = malloc(bytes);
		if (!task->buckets || !buffer)
			knee_fail("allocating memory for durations");
	}
	if (!task->failure[0] && knee_task && knee_task(&args.run, task->index, &load))
		name_failure(task, "knee_task");
	if (!task->failure[0]) {
		arrive(1);
		if (next_phase(PHASE_WAIT) == PHASE_ABORT)
			leave(task);
		drive(task, load);
		check_pinned(task);
		if (task->failure[0])
			fail_run();
		arrive(2);
		if (!task->failure[0] && next_phase(PHASE_RUN) == PHASE_ABORT)
			leave(task);
		errno = 0;
		if (!task->failure[0] && knee_verify && knee_verify(load, task->operations))
			name_failure(task, "knee_verify");
	}
	write_report(task, buffer ? buffer : small, bytes);
	arrive(3);
	leave(task);
}

/* A task of will-it-scale's interface. It leaves in the signal handler. */
static void run_test(struct task *task)
{
	arrive(1);
	if (next_phase(PHASE_WAIT) == PHASE_ABORT)
		leave(task);
	task->in_test = 1;
	testcase(task->count, task->index);
	task->in_test = 0;
	snprintf(task->failure, MESSAGE_BYTES,
		 "testcase() returned after it had counted to %llu: it must repeat its operation until it is ended",
		 *task->count);
	report_failure(task);
	leave(task);
}

static void *run_task(void *argument)
{
	struct task *task = (struct task *)argument;

	self = task;
	board_tids[task->index] = (int32_t)syscall(SYS_gettid);
	errno = 0;
	pin(task);
	mark();
	if (task->failure[0]) {
		report_failure(task);
		leave(task);
	}
	if (testcase)
		run_test(task);
	else
		run_load(task);
	return NULL;
}

static void die_with(pid_t process)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != process)
		_exit(1);
}

/* will-it-scale's: starts a helper of the calling task, as a process or a thread like the task. */
void new_task(void *(*function)(void *), void *argument)
{
	pid_t caller = getpid(), helper;
	pthread_t thread;

	if (args.run.threads) {
		errno = pthread_create(&thread, NULL, function, argument);
		if (errno) {
			perror("new_task: pthread_create");
			exit(1);
		}
		return;
	}
	helper = fork();
	if (helper < 0) {
		perror("new_task: fork");
		exit(1);
	}
	if (helper == 0) {
		self = NULL;
		die_with(caller);
		function(argument);
		_exit(0);
	}
	if (self && self->n_helpers < HELPERS_MAX)
		self->helpers[self->n_helpers++] = helper;
}

/* will-it-scale's own main program calls it with a struct of its own; no test of the suite does. */
void new_task_affinity(void *arguments)
{
	(void)arguments;
	fprintf(stderr, "new_task_affinity() starts the tasks themselves, which knee does: call new_task()\n");
	exit(1);
}

const char *knee_value(const char *name)
{
	size_t length = strlen(name);
	const struct knee_parameter *parameter = knee_parameters;

	for (char **value = args.values; *value; value++)
		if (!strncmp(*value, name, length) && (*value)[length] == '=')
			return *value + length + 1;
	for (; parameter && parameter->name; parameter++)
		if (!strcmp(parameter->name, name))
			return parameter->value;
	fprintf(stderr, "knee_parameters has no '%s'\n", name);
	exit(1);
}

unsigned long long knee_number(const char *name)
{
	const char *value = knee_value(name), *suffix = "kMG", *found;
	char *end;
	unsigned long long number = strtoull(value, &end, 10);

	if (end != value && *end && (found = strchr(suffix, *end == 'K' ? 'k' : *end))) {
		number <<= 10 * (found - suffix + 1);
		end++;
	}
	if (end == value || *end) {
		fprintf(stderr, "%s=%s is no number\n", name, value);
		exit(1);
	}
	return number;
}

static struct task *new_tasks(void)
{
	struct task *tasks = calloc(args.run.tasks, sizeof(struct task));

	if (!tasks) {
		perror("allocating the tasks");
		exit(1);
	}
	for (unsigned index = 0; index < args.run.tasks; index++) {
		tasks[index].index = index;
		tasks[index].cpu = args.cpus[index % args.n_cpus];
		tasks[index].count =
			(unsigned long long *)(board_counts + (size_t)LINE_BYTES * index + COUNT_BYTE);
	}
	return tasks;
}

static void start(struct task *task)
{
	const char *form = args.run.threads ? "threads" : "processes";
	pthread_t thread;

	if (args.run.threads) {
		errno = pthread_create(&thread, NULL, run_task, task);
	} else {
		pid_t process = fork();

		if (process == 0) {
			die_with(parent);
			run_task(task);
			_exit(0);
		}
		task->helpers[0] = process;
		errno = process < 0 ? errno : 0;
	}
	if (errno) {
		fprintf(stderr,
			"starting task %u of %u as %s: %s; check ulimit -u, the cgroup's pids.max and "
			"kernel.threads-max, or use fewer tasks\n",
			task->index, args.run.tasks, form, strerror(errno));
		exit(1);
	}
}

/* Says why a task's process ended before its end. */
static void report_death(struct task *task, int status)
{
	if (WIFSIGNALED(status))
		snprintf(task->failure, MESSAGE_BYTES, "was killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (WIFCONTINUED(status))
		snprintf(task->failure, MESSAGE_BYTES,
			 "was stopped and continued by signals (SIGSTOP, SIGCONT): the time between them would "
			 "count as its own");
	else
		snprintf(task->failure, MESSAGE_BYTES, "called exit(%d) before its end", WEXITSTATUS(status));
	report_failure(task);
}

/* Waits for the processes of all tasks. */
static void wait_for_processes(struct task *tasks)
{
	int status;
	pid_t process;

	while ((process = waitpid(-1, &status, WCONTINUED)) > 0 || errno == EINTR) {
		for (unsigned index = 0; process > 0 && index < args.run.tasks; index++)
			if (tasks[index].helpers[0] == process && !ended_well[index])
				report_death(&tasks[index], status);
	}
}

/* Waits until all threads have reported. No timeout: nothing may run between release and stop. */
static void wait_for_threads(void)
{
	for (;;) {
		uint32_t gate = __atomic_load_n(word(HEAD_GATE), __ATOMIC_ACQUIRE);

		if (__atomic_load_n(word(HEAD_ARRIVED), __ATOMIC_ACQUIRE) >= 3 * args.run.tasks)
			return;
		futex_wait(word(HEAD_GATE), gate);
	}
}

static void give_up_cleanup(int signal)
{
	(void)signal;
	_exit(0);
}

/* What comes after the last report. */
static int finish(void)
{
	unsigned long long operations = 0;

	if (__atomic_load_n(word(HEAD_FAILED), __ATOMIC_RELAXED))
		return 0;
	if (testcase && testcase_cleanup) {
		/* A thread that was ended may hold a lock of the C library: then the cleanup cannot end. */
		signal(SIGALRM, give_up_cleanup);
		alarm(args.run.threads ? 1 : 60);
		testcase_cleanup();
		return 0;
	}
	for (unsigned index = 0; index < args.run.tasks; index++)
		operations += *(unsigned long long *)(board_counts + (size_t)LINE_BYTES * index + COUNT_BYTE);
	errno = 0;
	if (!testcase && knee_verify_all && knee_verify_all(&args.run, operations)) {
		fprintf(stderr, "knee_verify_all failed\n");
		return 1;
	}
	return 0;
}

static void *map(const char *descriptor, size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor ? atoi(descriptor) : -1, 0);

	if (memory == MAP_FAILED) {
		perror("mapping the board");
		exit(1);
	}
	return memory;
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
	board_head = map(words[6], LINE_BYTES * HEAD_WORDS);
	board_counts = map(words[7], (size_t)LINE_BYTES * args.run.tasks);
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
