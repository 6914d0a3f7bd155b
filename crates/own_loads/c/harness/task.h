/* What a task is pinned to, marked by, and has used; and how it leaves.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

/* Without malloc(): its first call in a thread would map an arena, and the number of mappings decides how the kernel lays
 * out their tree: brk() between two of its nodes takes half as long again. */
static __attribute__((noinline)) void pin(struct task *task)
{
	enum { WORD_BITS = 8 * sizeof(unsigned long) };
	unsigned long cpus[65536 / WORD_BITS] = { 0 };

	if (task->cpu < 65536)
		cpus[task->cpu / WORD_BITS] = 1ul << task->cpu % WORD_BITS;
	if (syscall(SYS_sched_setaffinity, 0, sizeof(cpus), cpus))
		knee_fail("pinning to CPU %u", task->cpu);
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

/* Starts a thread that is not interrupted when knee asks the program to end. */
static int start_thread(pthread_t *thread, void *(*function)(void *), void *argument)
{
	sigset_t terminate, before;
	int error;

	sigemptyset(&terminate);
	sigaddset(&terminate, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &terminate, &before);
	error = pthread_create(thread, NULL, function, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
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
