/* A task's operations, from its set-up to its report, in both interfaces.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

static void on_kick(int signal)
{
	struct task *task = self;
	int error = errno;

	(void)signal;
	/* A load of knee.h is only to see that its call was interrupted. */
	if (task && task->in_test) {
		if (__atomic_load_n(word(HEAD_PHASE), __ATOMIC_ACQUIRE) == PHASE_ABORT)
			leave(task);
		if (!task->started && __atomic_load_n(word(HEAD_PHASE), __ATOMIC_ACQUIRE) == PHASE_RUN) {
			task->start_ns = since_release_ns();
			for (unsigned helper = 0; helper < task->n_helpers; helper++)
				task->helper_ns_at_start[helper] = cpu_ns(task->helpers[helper]);
			own_usage(&task->usage_at_start);
			task->count_at_start = __atomic_load_n(task->count, __ATOMIC_RELAXED);
			task->started = 1;
			if (args.is_traced)
				set_mark(MARK_COUNTS);
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

/* Once the program must end, a tick each 10 ms interrupts whatever the main thread waits for: also a wait that began just
 * after it had looked at must_end. */
static void on_tick(int signal)
{
	enum { PATIENCE_TICKS = 200 };
	static int ticks;

	(void)signal;
	if (++ticks == PATIENCE_TICKS)
		_exit(1);
}

static void on_terminate(int signal)
{
	const struct timeval tick = { .tv_usec = 10000 };
	const struct itimerval ticks = { .it_interval = tick, .it_value = tick };
	struct sigaction action = { .sa_handler = on_tick };

	(void)signal;
	must_end = 1;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &ticks, NULL);
}

/* A test that is ended early puts away its files by testcase_cleanup(), those that testcase_prepare() has made among them:
 * so the program ends by itself when its worker ends, or knee asks it to. */
static void end_by_cleanup(pid_t worker)
{
	struct sigaction action = { .sa_handler = on_terminate };
	sigset_t terminate;

	sigaction(SIGTERM, &action, NULL);
	sigemptyset(&terminate);
	sigaddset(&terminate, SIGTERM);
	pthread_sigmask(SIG_UNBLOCK, &terminate, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != worker)
		must_end = 1;
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
	result = task->buckets	? drive_timed(task, load, &control) :
		 args.is_traced ? drive_windows(load, &control) :
				  knee_drive(load, &control);
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

/* As will-it-scale's program does, though nobody cancels a task. Else glibc has two atomic operations around each call at
 * which a thread can be cancelled, such as read(). */
static void spare_cancellation(void)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
}

static void *run_task(void *argument)
{
	struct task *task = (struct task *)argument;

	self = task;
	board_tids[task->index] = (int32_t)syscall(SYS_gettid);
	errno = 0;
	pin(task);
	mark();
	if (args.is_traced)
		arm_marks();
	if (testcase && args.run.threads)
		spare_cancellation();
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
