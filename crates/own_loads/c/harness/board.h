/* The worker's board: words that the worker and all tasks share, and how a task arrives at them.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

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
	int is_traced;
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
/* Whether knee has asked the program to end before its time. */
static volatile sig_atomic_t must_end;

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
