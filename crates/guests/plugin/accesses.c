/* A plugin of QEMU's translator: which instructions access which cache lines, on which vCPU, inside windows that the
 * guest's tasks open and close. Counts go straight into memory that knee shares (traced.rs has the other side).
 *
 *     not armed: only moves of user code to memory are looked at, so a guest boots as fast as without the plugin
 *     armed:     every instruction and access; outside windows a callback returns at once
 *
 * A task marks its windows by stores to a page at MARKS, which no program maps by chance (crates/host/src/marks.rs):
 *     store to MARKS + 8 * ARM       everything is translated anew, with all callbacks
 *     store to MARKS + 8 * WINDOW    this task's window WINDOW (1, 2, ...) is open
 *     store to MARKS                 it is closed
 *     store to MARKS + 8 * COUNTS    this task counts its operations on the page behind: each store there ends one. Windows
 *                                    follow from their number: warm-up head->each, window 1 head->each, window 2 twice that
 *     store to MARKS + 8 * PROGRAM   window 1 is open for each task that executes user code, until this task closes its own
 *     store to MARKS + 8 * ASIDE     but not for this one
 *
 * A task is known by its kernel stack: __switch_to_asm pops the next task's registers from it (arch/x86/entry/
 * entry_64.S). What a stack is in:
 *     operation ── asm_exc_* ──> operation (the page fault is the operation's) ── iretq ──> operation
 *               ── asm_sysvec_*, asm_common_interrupt ──> interrupt ── iretq ──> operation
 *               ── preempt_schedule*, or schedule called on the way to user mode ──> preemption ── return ──> operation
 *
 * In QEMU's user mode there is one window, from the first instruction of a second thread to the end, and threads are
 * vCPUs.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "interface.h"

/* The clock that QEMU's timers go by. QEMU is started with this file preloaded, so that this definition is the one that
 * it calls. While a window is open, time goes more slowly: watched code takes many times as long, and each of the ticks
 * that would come meanwhile may preempt the operation. The time stamp counter goes on as it was, so the guest's own
 * clock is right, and its ticks are late. */
#define SLOWER 64
struct timespec { long s, ns; };
/* The clock showed shown_ns at real_ns, and goes on from there at one in `slower`. */
static long shown_ns, real_ns, slower = 1;
static char clock_lock;

static long system_call(long number, long first, void *second)
{
#if defined(__x86_64__)
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second) : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x0 __asm__("x0") = first;
	register void *x1 __asm__("x1") = second;
	register long x8 __asm__("x8") = number;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x8) : "memory");
	return x0;
#endif
}

static long system_clock(int clock, struct timespec *time)
{
#if defined(__x86_64__)
	return system_call(228, clock, time);
#elif defined(__aarch64__)
	return system_call(113, clock, time);
#endif
}

static void lock_clock(void)
{
	while (__atomic_test_and_set(&clock_lock, __ATOMIC_ACQUIRE))
		;
}

static long shown(long now)
{
	return shown_ns + (now - real_ns) / slower;
}

EXPORT int clock_gettime(int clock, struct timespec *time)
{
	long ns;

	if (system_clock(clock, time))
		return -1;
	if (clock != 1 /* CLOCK_MONOTONIC */)
		return 0;
	lock_clock();
	ns = shown(time->s * 1000000000 + time->ns);
	__atomic_clear(&clock_lock, __ATOMIC_RELEASE);
	time->s = ns / 1000000000;
	time->ns = ns % 1000000000;
	return 0;
}

/* From now on, the clock goes at one in this many. */
static void slow_down(long factor)
{
	struct timespec time;
	long now;

	lock_clock();
	system_clock(1, &time);
	now = time.s * 1000000000 + time.ns;
	shown_ns = shown(now);
	real_ns = now;
	slower = factor;
	__atomic_clear(&clock_lock, __ATOMIC_RELEASE);
}

/* The C library's, which QEMU has loaded. */
int open(const char *, int, ...);
int close(int);
long read(int, void *, size_t);
/* What pthread_atfork calls, which is in no shared library. */
int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
void *mmap(void *, size_t, int, int, int, long);

/* QEMU 7.2 confuses the two kinds where a callback asks for one (plugin-gen.c, op_rw). */
enum { BOTH = 3 };
#define MARKS 0x133700000000ull
#define ARM 255
#define COUNTS 254
#define PROGRAM 253
#define ASIDE 252
/* As in crates/own_loads/c/harness/board.h, for 64 tasks. */
enum { COUNT_LINE = 128, COUNT_BYTE = 64, COUNTS_BYTES = 64 * COUNT_LINE };
#define CPUS 1024
#define RECENT 64
#define WINDOWS 8
#define OPERATION_CPUS 64
#define OPERATION_WINDOWS 4
#define OPERATIONS 1024 /* the first of a window */
#define MAP_BYTES (1 << 18)
#define STACKS 4096
#define STACK_BYTES 0x4000ull

/* What a CPU does. Rust: Actor. */
enum actor { KERNEL, USER, IPI, INTERRUPT, OTHER, ACTORS };
/* How an entry is entered. Rust: Entry. */
enum entry_kind { EXCEPTION = 1, IPI_ENTRY, INTERRUPT_ENTRY, SWITCH, PREEMPTION, SCHEDULE, EXIT };

/* An access, folded: all of one instruction to one line in one context. Rust: RawAccess. */
struct access {
	uint64_t line;     /* its first byte: virtual for kernel addresses, physical for user ones (in user mode virtual) */
	uint64_t pc;
	uint64_t bytes;    /* which of the line, as a mask */
	uint32_t count;
	uint16_t cpu;
	uint8_t where;     /* window << 4 | actor */
	uint8_t how;       /* 1 load, 2 store, 3 atomic; bit 2: a user address; bit 3: of a kernel's instruction */
	uint32_t state;    /* 0 free, 1 being filled, 2 filled */
	uint32_t gaps;     /* of writes: what since_atomic says, added up */
};

/* What happened to a line while measured tasks accessed it. Rust: RawLine. */
struct line {
	uint64_t line;
	uint64_t began;            /* how many instructions its CPU had executed when the last burst began */
	uint64_t sharers;          /* CPUs whose copy is valid, as a mask of their numbers modulo 64 */
	uint64_t user_address;     /* at which a program accessed it last, where `line` is another; else 0 */
	uint32_t writer;           /* 1 + the CPU that wrote it last, and has the only copy; else 0 */
	uint32_t last_cpu;         /* 1 + the CPU that accessed it last */
	uint32_t state;            /* 0 free, 1 locked, 2 filled */
	uint32_t written;          /* whether the burst of accesses that goes on has written it */
	struct {
		uint32_t owned;    /* times that a CPU got the only copy from another */
		uint32_t copied;   /* times that a CPU got a copy to read that another had written */
		uint32_t bursts;   /* bursts of accesses with a write */
		uint32_t unused;
	} window[4];
	uint64_t taken_at;         /* instructions of its window that the CPU taken_by had executed at the last atomic */
	uint32_t taken_by;         /* 1 + that CPU */
	uint32_t taken_in;         /* the window */
};

/* Accesses of a CPU to a line within this many instructions are one burst: no other CPU gets the line in between, as a
 * transfer takes longer. */
#define BURST 64
#define LINES (1ull << 18)

/* How often tasks in a window executed an instruction of the kernel, all CPUs together. Rust: RawExecution. */
struct execution {
	uint64_t pc;               /* 0: free */
	uint64_t count;
};
#define EXECUTIONS (1ull << 17)

/* One access of an operation of the first window, in its order. Rust: RawStep. */
struct step {
	uint64_t address;          /* of its first byte, as the line of struct access */
	uint64_t pc;
	uint32_t at;               /* instructions that the operation had executed before, in the kernel and its own */
	uint16_t operation;        /* how many of its CPU had ended */
	uint8_t how;               /* as of struct access; 0: the operation ends here; 16: it waits for something */
	uint8_t bytes;
};
#define STEPS (1ull << 17) /* of a CPU */

/* The memory shared with knee. Rust: Head. */
struct head {
	uint64_t bytes;            /* of the whole mapping */
	uint64_t entries;          /* in use, of entry */
	struct { uint64_t pc, end; uint64_t kind; } entry[512];
	uint64_t slots;            /* of the table, a power of two */
	uint64_t lost;             /* accesses for which the table had no room */
	uint64_t confused;         /* stacks that were not kept apart */
	uint64_t armed;
	uint64_t each;             /* operations in the first window of a task that counts them */
	uint64_t moved;            /* operations before which their task had moved to another CPU */
	uint64_t warming;          /* operations before the first window of a task that counts them */
	uint64_t map_bytes;        /* of maps, /proc/self/maps at the end of a program in user mode */
	char maps[MAP_BYTES];
	uint64_t instructions[CPUS][WINDOWS][ACTORS];
	/* Kernel instructions of single operations, of which each opens its window anew. */
	uint32_t operations[OPERATION_CPUS][OPERATION_WINDOWS];
	uint32_t operation[OPERATION_CPUS][OPERATION_WINDOWS][OPERATIONS];
	uint32_t steps[OPERATION_CPUS]; /* in use, of struct step */
};

/* A kernel stack that a task runs on. */
struct stack {
	uint64_t base;             /* 0: free */
	uint8_t window;            /* open on it, or 0 */
	uint8_t depth;             /* of entries that have not returned */
	uint8_t kinds[14];
	uint64_t preempted;        /* where the return address of the call that preempted it lies, or 0 */
	uint64_t done;             /* operations since it began to count them */
	uint16_t cpu;              /* that its last window opened on, and 1; or 0 */
	uint8_t counts;            /* whether it counts them */
	uint8_t aside;             /* whether it is in no window of PROGRAM */
	uint8_t is_user;           /* whether it has executed user code since PROGRAM */
};

struct cpu {
	struct stack *stack;       /* that it runs on, or NULL while not known */
	uint64_t last_repeated;    /* pc of the repeated string instruction that ran last */
	uint64_t executed;         /* instructions while a window was open */
	uint64_t before;           /* kernel instructions of the window before the operation that goes on */
	uint64_t began;            /* the same with the operations' own instructions */
	uint64_t stored, stored_by; /* the address of the last store in the kernel, and of its instruction */
	/* Slots of the table that it used lately, by their instructions. */
	struct access *recent[RECENT];
} __attribute__((aligned(128)));

static struct head *head;
static struct line *lines;
static struct access *table;
static struct execution *executions;
static struct step *steps;
static struct cpu cpus[CPUS];
static struct stack stacks[STACKS];
static struct stack unknown_stack[CPUS];
static unsigned open_windows;
/* Whose PROGRAM is open, or NULL. */
static struct stack *program;
static int is_system;
/* A child of the program in user mode, whose addresses mean other memory. */
static int is_child;
/* Whether a second thread of a program in user mode has begun. */
static int has_threads;

static struct stack *stack_of(uint64_t address)
{
	uint64_t base = address & ~(STACK_BYTES - 1);
	uint64_t hash = (base >> 14) * 0x9e3779b97f4a7c15ull >> 40;

	for (unsigned k = 0; k < STACKS; k++) {
		struct stack *stack = &stacks[(hash + k) % STACKS];

		if (stack->base == base)
			return stack;
		if (!stack->base) {
			stack->base = base;
			return stack;
		}
	}
	head->confused++;
	return NULL;
}

static struct stack *current(unsigned cpu)
{
	return cpus[cpu].stack ? cpus[cpu].stack : &unknown_stack[cpu];
}

/* The windows of other tasks are on, too, while one is open. */
static unsigned window_of(const struct stack *stack)
{
	if (!is_system || (program && stack->is_user && !stack->aside))
		return 1;
	return stack->window;
}

/* The innermost interrupt decides. */
static enum actor actor_of(const struct stack *stack, int is_kernel)
{
	if (!is_system)
		return USER;
	for (unsigned k = 0; k < stack->depth && k < sizeof(stack->kinds); k++) {
		if (stack->kinds[k] == IPI_ENTRY)
			return IPI;
		if (stack->kinds[k] == INTERRUPT_ENTRY || stack->kinds[k] == PREEMPTION)
			return INTERRUPT;
	}
	if (!window_of(stack))
		return OTHER;
	return is_kernel ? KERNEL : USER;
}

/* Adds a step to the operation that a CPU is in. Without room, the operation is not whole. */
static void step(unsigned cpu, uint64_t address, uint64_t pc, int how, unsigned bytes)
{
	const uint64_t *executed = head->instructions[cpu][1];
	uint32_t n = head->steps[cpu];
	struct step *step = &steps[cpu * STEPS + n];

	if (n == STEPS)
		return;
	head->steps[cpu] = n + 1;
	step->address = address;
	step->pc = pc;
	step->at = executed[KERNEL] + executed[USER] - cpus[cpu].began;
	step->operation = head->operations[cpu][1];
	step->how = how;
	step->bytes = bytes;
}

static void on_switch(unsigned cpu, uint32_t info, uint64_t address, void *unused)
{
	(void)unused;
	if (!qemu_plugin_mem_is_store(info))
		cpus[cpu].stack = stack_of(address);
}

static void on_entry(unsigned cpu, void *kind)
{
	struct stack *stack = current(cpu);

	if (stack->depth < sizeof(stack->kinds))
		stack->kinds[stack->depth] = (uint8_t)(uintptr_t)kind;
	stack->depth++;
}

/* A call has just stored its return address. `schedule` waits for something, unless it is called on the way to user
 * mode: then the time slice is over. */
static void on_preemption(unsigned cpu, void *kind)
{
	struct stack *stack = current(cpu);
	uint64_t caller = cpus[cpu].stored_by;
	int is_preemption = (uintptr_t)kind == PREEMPTION;

	if (!open_windows || !stack->window || stack->preempted)
		return;
	for (uint64_t e = 0; !is_preemption && e < head->entries; e++)
		is_preemption = head->entry[e].kind == EXIT && caller >= head->entry[e].pc && caller < head->entry[e].end;
	if (!is_preemption) {
		if (window_of(stack) == 1 && cpu < OPERATION_CPUS)
			step(cpu, 0, caller, 16, 0);
		return;
	}
	stack->preempted = cpus[cpu].stored;
	on_entry(cpu, (void *)(uintptr_t)PREEMPTION);
}

static void on_iret(unsigned cpu, void *unused)
{
	struct stack *stack = current(cpu);

	(void)unused;
	if (stack->depth)
		stack->depth--;
}

static void rearmed(plugin_id);
static plugin_id self;

/* Closes the window that is open on a stack, and opens another; 0 is none. */
static void open_window(unsigned cpu, struct stack *stack, unsigned number)
{
	if (number && stack->cpu && stack->cpu != cpu + 1)
		__atomic_fetch_add(&head->moved, 1, __ATOMIC_RELAXED);
	if (number)
		stack->cpu = cpu + 1;
	if (!stack->window && number && ++open_windows == 1)
		slow_down(SLOWER);
	if (stack->window && !number && --open_windows == 0)
		slow_down(1);
	if (cpu < OPERATION_CPUS && stack->window && stack->window < OPERATION_WINDOWS) {
		uint64_t now = head->instructions[cpu][stack->window][KERNEL];
		uint32_t n;

		if (stack->window == 1)
			step(cpu, 0, 0, 0, 0);
		n = head->operations[cpu][stack->window]++;
		if (n < OPERATIONS)
			head->operation[cpu][stack->window][n] = now - cpus[cpu].before;
	}
	stack->window = number;
	cpus[cpu].before = head->instructions[cpu][number][KERNEL];
	cpus[cpu].began = cpus[cpu].before + head->instructions[cpu][number][USER];
}

static void open_program(struct stack *stack)
{
	for (unsigned k = 0; k < STACKS; k++)
		stacks[k].is_user = 0;
	for (unsigned k = 0; k < CPUS; k++)
		unknown_stack[k].is_user = 0;
	stack->aside = 1;
	program = stack;
	if (++open_windows == 1)
		slow_down(SLOWER);
}

static void close_program(void)
{
	program->aside = 0;
	program = NULL;
	if (--open_windows == 0)
		slow_down(1);
}

static void mark(unsigned cpu, unsigned number)
{
	struct stack *stack = current(cpu);

	/* A mark comes from user code, which no entry is below. */
	stack->depth = 0;
	stack->preempted = 0;
	if (number == ARM && !head->armed)
		qemu_plugin_reset(self, rearmed);
	else if (number == ASIDE)
		stack->aside = 1;
	else if (number == PROGRAM && !program)
		open_program(stack);
	else if (number == COUNTS)
		stack->counts = 1, stack->done = 0;
	else if (number < WINDOWS && program == stack)
		close_program();
	else if (number < WINDOWS)
		open_window(cpu, stack, number);
}

/* A task that counts its operations has done one more. */
static void count(unsigned cpu)
{
	struct stack *stack = current(cpu);
	uint64_t each = head->each;

	if (!stack->counts)
		return;
	stack->depth = 0;
	stack->preempted = 0;
	stack->done++;
	if (stack->done < each)
		__atomic_fetch_add(&head->warming, 1, __ATOMIC_RELAXED);
	open_window(cpu, stack, stack->done < each ? 0 : stack->done < 2 * each ? 1 : stack->done < 4 * each ? 2 : 0);
	stack->counts = stack->done < 4 * each;
}

/* Whether an access is to the pages of marks and counts, which is then no part of an operation. */
static int is_mark(unsigned cpu, uint32_t info, uint64_t address)
{
	uint64_t offset = address - MARKS;

	if (__builtin_expect(offset >= 0x1000 + COUNTS_BYTES || !is_system, 1))
		return 0;
	if (!qemu_plugin_mem_is_store(info))
		return 1;
	if (offset < 0x1000)
		mark(cpu, offset >> 3);
	else if (offset % COUNT_LINE == COUNT_BYTE)
		count(cpu);
	return 1;
}

static void on_user_store(unsigned cpu, uint32_t info, uint64_t address, void *unused)
{
	(void)unused;
	is_mark(cpu, info, address);
}

static int is_slot_of(const struct access *slot, const struct access *new)
{
	return slot->line == new->line && slot->pc == new->pc && slot->cpu == new->cpu && slot->where == new->where &&
	       slot->how == new->how;
}

/* The slot of an access in the table, or NULL if there is no room. */
static struct access *slot_of(const struct access *new)
{
	uint64_t hash = new->line * 0x9e3779b97f4a7c15ull ^ new->pc * 0xc2b2ae3d27d4eb4full ^
			((uint64_t)new->cpu << 16 | (uint64_t)new->where << 8 | new->how) * 0x165667b19e3779f9ull;
	uint64_t mask = head->slots - 1;

	for (unsigned k = 0; k < 256; k++) {
		struct access *slot = &table[((hash >> 24) + k) & mask];
		uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

		if (!state && __atomic_compare_exchange_n(&slot->state, &state, 1, 0, __ATOMIC_ACQUIRE,
							  __ATOMIC_ACQUIRE)) {
			slot->line = new->line;
			slot->pc = new->pc;
			slot->bytes = 0;
			slot->count = 0;
			slot->gaps = 0;
			slot->cpu = new->cpu;
			slot->where = new->where;
			slot->how = new->how;
			__atomic_store_n(&slot->state, 2, __ATOMIC_RELEASE);
			return slot;
		}
		while (state == 1)
			state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
		if (is_slot_of(slot, new))
			return slot;
	}
	__atomic_add_fetch(&head->lost, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Only its own vCPU adds to a slot. */
static void add(const struct access *new)
{
	struct access **recent = &cpus[new->cpu].recent[new->pc % RECENT];

	/* The table may have been cleared since. */
	if (!*recent || !(*recent)->state || !is_slot_of(*recent, new))
		*recent = slot_of(new);
	if (!*recent)
		return;
	(*recent)->bytes |= new->bytes;
	(*recent)->count += (*recent)->count != UINT32_MAX;
	if ((*recent)->gaps <= UINT32_MAX - new->gaps)
		(*recent)->gaps += new->gaps;
}

static struct line *locked_line(uint64_t address)
{
	uint64_t hash = address * 0x9e3779b97f4a7c15ull >> 32;

	for (unsigned k = 0; k < 256; k++) {
		struct line *line = &lines[(hash + k) % LINES];
		uint32_t state = 0;

		while (state == 1 || !__atomic_compare_exchange_n(&line->state, &state, 1, 0, __ATOMIC_ACQUIRE,
								   __ATOMIC_ACQUIRE))
			if (state == 1)
				state = __atomic_load_n(&line->state, __ATOMIC_ACQUIRE);
		if (!state)
			line->line = address;
		if (line->line == address)
			return line;
		__atomic_store_n(&line->state, 2, __ATOMIC_RELEASE);
	}
	__atomic_add_fetch(&head->lost, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Whether measured tasks have accessed a line: what others do elsewhere does not matter. */
static int is_followed(uint64_t address)
{
	uint64_t hash = address * 0x9e3779b97f4a7c15ull >> 32;

	for (unsigned k = 0; k < 256; k++) {
		const struct line *line = &lines[(hash + k) % LINES];

		if (!__atomic_load_n(&line->state, __ATOMIC_ACQUIRE))
			return 0;
		if (line->line == address)
			return 1;
	}
	return 0;
}

/* Whether an access goes on with a burst, on a line that its CPU has as it needs it: then it changes nothing. What is read
 * here, others may change meanwhile, as if they had come a moment later. */
static int continues_alone(uint64_t address, unsigned cpu, int is_write)
{
	const struct line *line = &lines[(address * 0x9e3779b97f4a7c15ull >> 32) % LINES];
	uint64_t self_bit = 1ull << (cpu % 64);

	return line->line == address && line->last_cpu == cpu + 1 && cpus[cpu].executed - line->began <= BURST &&
	       (is_write ? line->written && line->writer == cpu + 1 && line->sharers == self_bit :
			   (line->sharers & self_bit) != 0);
}

/* How many instructions of its operation a CPU has executed since its last atomic instruction on the line, if no other CPU
 * had one meanwhile; else 0. Of a lock's release, that is how long the lock was held: taking it is atomic. */
static uint32_t since_atomic(struct line *line, unsigned cpu, unsigned window, int is_atomic)
{
	const uint64_t *of_window = head->instructions[cpu][window];
	uint64_t now = of_window[KERNEL] + of_window[USER], since = now - line->taken_at;
	int is_own = line->taken_by == cpu + 1 && line->taken_in == window && line->taken_at <= now;

	if (is_atomic) {
		line->taken_at = now;
		line->taken_by = cpu + 1;
		line->taken_in = window;
	}
	return is_own && since <= UINT32_MAX ? since : 0;
}

/* A coherence protocol of endless caches: one writer, or any number of readers. The first access to a line is no
 * transfer. `how` is that of the access. Returns what since_atomic says of a write; 0 of a store within a burst. */
static uint32_t follow(uint64_t address, uint64_t user_address, unsigned cpu, unsigned window, int how)
{
	int is_write = how != 1, is_atomic = how == 3;
	uint64_t self_bit = 1ull << (cpu % 64), executed = cpus[cpu].executed;
	uint32_t gap = 0;
	struct line *line;
	int continues;

	if (!is_atomic && continues_alone(address, cpu, is_write))
		return 0;
	line = locked_line(address);
	if (!line)
		return 0;
	continues = line->last_cpu == cpu + 1 && executed - line->began <= BURST;
	if (!continues) {
		line->written = 0;
		line->began = executed;
	}
	if (is_write) {
		gap = since_atomic(line, cpu, window, is_atomic);
		line->window[window % 4].owned += line->last_cpu && line->writer != cpu + 1 && (line->sharers & ~self_bit);
		line->window[window % 4].bursts += !line->written;
		line->written = 1;
		line->writer = cpu + 1;
		line->sharers = self_bit;
	} else if (!(line->sharers & self_bit)) {
		line->window[window % 4].copied += line->writer != 0;
		line->writer = 0;
		line->sharers |= self_bit;
	}
	line->last_cpu = cpu + 1;
	if (user_address)
		line->user_address = user_address;
	__atomic_store_n(&line->state, 2, __ATOMIC_RELEASE);
	return gap;
}

/* What is known of an instruction when it is translated, in the pointer that its callback gets: the address, whose
 * bits 62 and 61 say what it is. Bits 63 to 47 of an address are equal, so bit 63 restores them. */
#define ATOMIC (1ull << 62)
#define REPEATED (1ull << 61)

static uint64_t address_in(uint64_t code)
{
	uint64_t flags = ATOMIC | REPEATED;

	return code >> 63 ? code | flags : code & ~flags;
}

static void on_access(unsigned cpu, uint32_t info, uint64_t address, void *pointer)
{
	uint64_t code = (uint64_t)pointer, pc = address_in(code);
	int is_store = qemu_plugin_mem_is_store(info), is_atomic = !!(code & ATOMIC) == !(code >> 63);
	uint64_t user_address = 0;
	struct stack *stack;
	struct access new;
	unsigned bytes, offset;

	if (is_mark(cpu, info, address))
		return;
	if (is_system ? !open_windows : !has_threads || is_child)
		return;
	if (cpu >= CPUS) {
		__atomic_add_fetch(&head->lost, 1, __ATOMIC_RELAXED);
		return;
	}
	/* An atomic read-modify-write is one access, that of its store. */
	if (is_atomic && !is_store)
		return;
	stack = current(cpu);
	if (pc >> 63 && is_store) {
		cpus[cpu].stored = address;
		cpus[cpu].stored_by = pc;
	} else if (stack->preempted && stack->preempted == address) {
		stack->preempted = 0;
		stack->depth -= stack->depth > 0;
	}
	new.cpu = cpu;
	new.pc = pc;
	new.where = window_of(stack) << 4 | actor_of(stack, pc >> 63);
	new.how = (is_atomic ? 3 : is_store ? 2 : 1) | (pc >> 63 ? 8 : 0);
	if (!(address >> 63)) {
		void *physical = is_system ? qemu_plugin_get_hwaddr(info, address) : NULL;

		new.how |= 4;
		if (physical) {
			user_address = address & ~63ull;
			address = qemu_plugin_hwaddr_phys_addr(physical);
		}
	}
	bytes = 1u << qemu_plugin_mem_size_shift(info);
	/* A task's own stack is nobody else's. */
	if (new.where >> 4 == 1 && (new.where & 15) <= USER && cpu < OPERATION_CPUS &&
	    (address & ~(STACK_BYTES - 1)) != stack->base)
		step(cpu, address, pc, new.how, bytes);
	offset = address & 63;
	new.line = address & ~63ull;
	new.gaps = 0;
	if (new.where >> 4 && (new.where & 15) <= IPI)
		new.gaps = follow(new.line, user_address, cpu, new.where >> 4, new.how & 3);
	else if (!is_followed(new.line))
		return;
	new.bytes = (bytes >= 64 ? ~0ull : (1ull << bytes) - 1) << offset;
	add(&new);
	if (offset + bytes > 64) {
		new.line += 64;
		new.gaps = 0;
		new.bytes = (1ull << (offset + bytes - 64)) - 1;
		add(&new);
	}
}

/* In user mode: the instructions of a block, without repeated ones. */
static void on_block(unsigned cpu, void *instructions)
{
	if (__builtin_expect(!has_threads, 0)) {
		if (!cpu)
			return;
		has_threads = 1;
	}
	if (is_child || cpu >= CPUS)
		return;
	cpus[cpu].executed += (uintptr_t)instructions;
	head->instructions[cpu][1][USER] += (uintptr_t)instructions;
}

/* Counts an instruction of the kernel at its address. */
static void execute(uint64_t pc)
{
	uint64_t hash = pc * 0x9e3779b97f4a7c15ull >> 40;

	for (unsigned k = 0; k < 256; k++) {
		struct execution *slot = &executions[(hash + k) % EXECUTIONS];
		uint64_t known = __atomic_load_n(&slot->pc, __ATOMIC_RELAXED);

		if (!known && __atomic_compare_exchange_n(&slot->pc, &known, pc, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			known = pc;
		if (known == pc) {
			__atomic_add_fetch(&slot->count, 1, __ATOMIC_RELAXED);
			return;
		}
	}
	__atomic_add_fetch(&head->lost, 1, __ATOMIC_RELAXED);
}

static void on_instruction(unsigned cpu, void *pointer)
{
	uint64_t code = (uint64_t)pointer, pc = address_in(code);
	int is_repeated = !!(code & REPEATED) == !(code >> 63);
	struct stack *stack;
	enum actor actor;
	unsigned window;

	if ((is_system ? !open_windows : !has_threads || is_child) || cpu >= CPUS)
		return;
	cpus[cpu].executed++;
	/* QEMU runs a repeated string instruction once for each repetition. */
	if (is_repeated && cpus[cpu].last_repeated == pc)
		return;
	cpus[cpu].last_repeated = is_repeated ? pc : 0;
	stack = current(cpu);
	if (program && !(pc >> 63))
		stack->is_user = 1;
	window = window_of(stack);
	actor = actor_of(stack, pc >> 63);
	head->instructions[cpu][window][actor]++;
	if (window && actor == KERNEL)
		execute(pc);
}

/* Whether an x86-64 instruction is atomic (the prefix lock, or xchg with memory), is repeated, is iretq, is a pop, moves
 * a register or a constant to memory. */
struct decoded { int is_atomic, is_repeated, is_iret, is_pop, is_move; };

static struct decoded decode(const uint8_t *bytes, size_t size)
{
	struct decoded decoded = { 0 };
	size_t at = 0;

	for (; at < size; at++) {
		uint8_t byte = bytes[at];

		if (byte == 0xf0)
			decoded.is_atomic = 1;
		else if (byte == 0xf2 || byte == 0xf3)
			decoded.is_repeated = 1;
		else if (byte != 0x66 && byte != 0x67 && byte != 0x2e && byte != 0x36 && byte != 0x3e && byte != 0x26 &&
			 byte != 0x64 && byte != 0x65)
			break;
	}
	if (at < size && (bytes[at] & 0xf0) == 0x40)
		at++;
	if (at >= size)
		return decoded;
	/* movs, cmps, stos, lods, scas */
	decoded.is_repeated &= (bytes[at] >= 0xa4 && bytes[at] <= 0xaf && bytes[at] != 0xa8 && bytes[at] != 0xa9);
	decoded.is_iret = bytes[at] == 0xcf;
	decoded.is_pop = bytes[at] >= 0x58 && bytes[at] <= 0x5f;
	decoded.is_move = bytes[at] == 0x88 || bytes[at] == 0x89 || bytes[at] == 0xc6 || bytes[at] == 0xc7;
	if ((bytes[at] == 0x86 || bytes[at] == 0x87) && at + 1 < size && bytes[at + 1] < 0xc0)
		decoded.is_atomic = 1;
	return decoded;
}

static struct decoded decoded_of(const struct instruction *instruction)
{
	size_t size = qemu_plugin_insn_size(instruction);
#if PLUGIN_API < 3
	return decode(qemu_plugin_insn_data(instruction), size);
#else
	uint8_t bytes[16];

	return decode(bytes, qemu_plugin_insn_data(instruction, bytes, size < 16 ? size : 16));
#endif
}

/* An address is sign-extended: a flag is set where its bit differs from bit 63. */
static void *code_of(uint64_t pc, struct decoded decoded)
{
	uint64_t flags = (decoded.is_atomic ? ATOMIC : 0) | (decoded.is_repeated ? REPEATED : 0);

	return (void *)(pc ^ flags);
}

static void translate_armed(plugin_id id, struct block *block)
{
	size_t n = qemu_plugin_tb_n_insns(block);
	uintptr_t counted = 0;

	(void)id;
	for (size_t k = 0; k < n; k++) {
		struct instruction *instruction = qemu_plugin_tb_get_insn(block, k);
		uint64_t pc = qemu_plugin_insn_vaddr(instruction);
		struct decoded decoded = decoded_of(instruction);
		void *code = code_of(pc, decoded);

		for (uint64_t e = 0; is_system && pc >> 63 && e < head->entries; e++) {
			uint64_t kind = head->entry[e].kind;

			if (kind == SWITCH && pc >= head->entry[e].pc && pc < head->entry[e].end && decoded.is_pop)
				qemu_plugin_register_vcpu_mem_cb(instruction, on_switch, 0, BOTH, NULL);
			else if ((kind == PREEMPTION || kind == SCHEDULE) && pc == head->entry[e].pc)
				qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_preemption, 0,
								       (void *)(uintptr_t)kind);
			else if (kind < SWITCH && pc == head->entry[e].pc)
				qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_entry, 0, (void *)(uintptr_t)kind);
		}
		if (is_system && pc >> 63 && decoded.is_iret)
			qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_iret, 0, NULL);
		if (is_system || decoded.is_repeated)
			qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_instruction, 0, code);
		else
			counted++;
		qemu_plugin_register_vcpu_mem_cb(instruction, on_access, 0, BOTH, code);
	}
	if (!is_system)
		qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, 0, (void *)counted);
}

static void translate_unarmed(plugin_id id, struct block *block)
{
	size_t n = qemu_plugin_tb_n_insns(block);

	(void)id;
	for (size_t k = 0; k < n; k++) {
		struct instruction *instruction = qemu_plugin_tb_get_insn(block, k);

		/* Not other instructions: where one that QEMU executes in a function of its own has faulted, QEMU 7.2 keeps a
		 * pointer to its callbacks, which the reset of arming frees. */
		if (!(qemu_plugin_insn_vaddr(instruction) >> 63) && decoded_of(instruction).is_move)
			qemu_plugin_register_vcpu_mem_cb(instruction, on_user_store, 0, BOTH, NULL);
	}
}

static void rearmed(plugin_id id)
{
	head->armed = 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate_armed);
}

static void in_child(void)
{
	is_child = 1;
}

/* The program's addresses are QEMU's own. */
static void keep_maps(plugin_id id, void *unused)
{
	int file = open("/proc/self/maps", 0);
	long n = 1;

	(void)id, (void)unused;
	if (file < 0 || is_child)
		return;
	while (n > 0 && head->map_bytes < MAP_BYTES) {
		n = read(file, head->maps + head->map_bytes, MAP_BYTES - head->map_bytes);
		head->map_bytes += n > 0 ? n : 0;
	}
	close(file);
}

/* The argument is memory=PATH, a file that knee has sized and whose head it has filled. */
EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int n, char **arguments)
{
	static const char key[] = "memory=";
	struct head *small;
	uint64_t bytes;
	int file;

	for (size_t k = 0; k < sizeof(key) - 1; k++)
		if (n != 1 || arguments[0][k] != key[k])
			return 1;
	file = open(arguments[0] + sizeof(key) - 1, 2 /* O_RDWR */);
	if (file < 0)
		return 1;
	small = mmap(NULL, 4096, 1, 1, file, 0);
	if (small == (void *)-1)
		return 1;
	bytes = small->bytes;
	head = mmap(NULL, bytes, 3, 1, file, 0);
	close(file);
	if (head == (void *)-1)
		return 1;
	lines = (struct line *)(head + 1);
	table = (struct access *)(lines + LINES);
	executions = (struct execution *)(table + head->slots);
	steps = (struct step *)(executions + EXECUTIONS);
	self = id;
	is_system = info->is_system;
	if (is_system) {
		qemu_plugin_register_vcpu_tb_trans_cb(id, translate_unarmed);
		return 0;
	}
	__register_atfork(NULL, NULL, in_child, NULL);
	qemu_plugin_register_atexit_cb(id, keep_maps, NULL);
	rearmed(id);
	return 0;
}
