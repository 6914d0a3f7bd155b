/* All tasks: started, waited for, and cleaned up after.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

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
		errno = start_thread(&thread, run_task, task);
	} else {
		pid_t process = fork();

		if (process == 0) {
			signal(SIGTERM, SIG_DFL);
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

/* Waits for the processes of all tasks. Others that the load has forked, as a server for its tasks, may go on. */
static void wait_for_processes(struct task *tasks)
{
	unsigned left = args.run.tasks;
	int status;
	pid_t process;

	while (left) {
		for (unsigned index = 0; must_end && index < args.run.tasks; index++)
			kill(tasks[index].helpers[0], SIGKILL);
		process = waitpid(-1, &status, WCONTINUED);
		if (process < 0 && errno != EINTR)
			return;
		for (unsigned index = 0; process > 0 && index < args.run.tasks; index++) {
			if (tasks[index].helpers[0] != process)
				continue;
			left -= !WIFCONTINUED(status);
			if (!must_end && !ended_well[index])
				report_death(&tasks[index], status);
		}
	}
}

/* Lets the threads of tasks leave in their signal handlers. One in a long system call keeps it from that. */
static void stop_threads(void)
{
	enum { PATIENCE_MS = 100 };
	unsigned left;

	__atomic_store_n(word(HEAD_PHASE), PHASE_ABORT, __ATOMIC_RELEASE);
	for (unsigned index = 0; index < args.run.tasks; index++)
		syscall(SYS_tgkill, getpid(), board_tids[index], KICK);
	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		left = 0;
		for (unsigned index = 0; index < args.run.tasks; index++)
			left += !ended_well[index];
		if (!left)
			return;
		usleep(1000);
	}
}

/* Waits until all threads have reported. No timeout: nothing may run between release and stop. */
static void wait_for_threads(void)
{
	for (;;) {
		uint32_t gate = __atomic_load_n(word(HEAD_GATE), __ATOMIC_ACQUIRE);

		if (must_end) {
			stop_threads();
			return;
		}
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

	if (testcase && testcase_cleanup) {
		/* A thread that was ended may hold a lock of the C library: then the cleanup cannot end. */
		signal(SIGALRM, give_up_cleanup);
		alarm(args.run.threads || must_end ? 1 : 60);
		testcase_cleanup();
		return 0;
	}
	if (__atomic_load_n(word(HEAD_FAILED), __ATOMIC_RELAXED))
		return 0;
	for (unsigned index = 0; index < args.run.tasks; index++)
		operations += *(unsigned long long *)(board_counts + (size_t)LINE_BYTES * index + COUNT_BYTE);
	errno = 0;
	if (!testcase && knee_verify_all && knee_verify_all(&args.run, operations)) {
		fprintf(stderr, "knee_verify_all failed\n");
		return 1;
	}
	return 0;
}
