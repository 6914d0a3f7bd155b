// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Follows tasks that knee did not start: each switch to and from them, who woke them, what they wait for, and
// stacks. Marks are per task; forks inherit them. Nothing is added up here: knee does that with the events.
//
//     follow_wanted ... sched_switch: event with what prev waits for, and who woke next
//                       sched_waking: remembered in the woken task's mark
//                       perf_event:   stack of what runs
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "../ledger/kernel.bpf.h"
#include "cpython.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define KERNEL_FRAMES 32
// arch/x86/include/asm/ptrace.h: up to the instruction pointer.
#define REGISTERS 17
#define CHUNK 1024
#define CHUNKS 8
#define CALLS_MAX 1024
#define COMPAT_CALLS 512
// arch/x86/include/asm/segment.h, __USER32_CS: code of 32-bit programs.
#define USER32_CS 0x23
// include/trace/events/lock.h: LCB_F_SPIN, LCB_F_MUTEX.
#define LOCK_SPINS 1
#define LOCK_IS_MUTEX 32
// The waker of a followed task that is not followed itself: its number means nothing here.
#define STRANGER 0xffffffff

// In the order of `EventKind` in raw.rs.
enum event_kind { SWITCH = 1, STACK, FOUND };

// Bits of `struct switch_event.flags`, as in raw.rs.
enum {
	PREV_FOLLOWED = 1,
	NEXT_FOLLOWED = 2,
	RUNNABLE = 4,
	FOR_IO = 8,
	FOR_MEMORY = 16,
	THROTTLED = 32,
	ENDS = 64,
	STOPPED = 128,
	NEXT_IDLE = 256,
	// Of a task that is found: it has a CPU.
	ON_CPU = 512
};

// Why a stack was taken, in the order of `StackReason` in raw.rs.
// The last two are of goroutines: one begins to wait at a semaphore, one makes another ready.
enum stack_reason { RUNS = 1, WAITS, WAKES, GOROUTINE_WAITS, GOROUTINE_WAKES };

struct head {
	__u64 at_ns;
	__u32 kind;
	__u32 cpu;
	__u32 task;
	__u32 process;
};

// A wake-up of a followed task.
struct wake {
	// 0 if there was none.
	__u64 at_ns;
	__u64 argument;
	// Who woke it: 0 if an interrupt did.
	__u32 waker;
	// The system call that the waker is in; `argument` is its first.
	__s32 call;
};

struct switch_event {
	struct head head;
	__u32 next;
	__u32 next_process;
	__u32 flags;
	// The system call of the task that leaves, with its first two arguments; negative outside of calls.
	__s32 call;
	__u64 arguments[2];
	// At the address of a futex: its word, and the four words behind it.
	__u32 words[5];
	__u32 file_kind;
	// The kernel lock that the task that leaves waits for, 0 if none, and the flags of the wait.
	__u64 lock;
	__u32 lock_flags;
	__u32 cpus_allowed;
	// Of the task that arrives: none after a preemption.
	struct wake woken;
	// Of the task that leaves, if no switch to it was seen since: kernels were observed to miss those from the idle task.
	struct wake prev_woken;
	// Its CPU time since it left a CPU before; 0 if that was not seen.
	__u64 prev_ran_ns;
	char prev_name[16];
	char next_name[16];
};

struct stack_event {
	struct head head;
	__u32 reason;
	__u32 kernel_frames;
	__u32 stack_bytes;
	__s32 call;
	__u64 ip;
	__u64 sp;
	__u64 bp;
	// Where the innermost function returns to, where a register has it; 0 on x86.
	__u64 link;
	// The registers of the program in the order of struct pt_regs of x86-64, for the addresses that its
	// instruction accesses; empty elsewhere.
	__u64 registers[REGISTERS];
	// Of a goroutine: which one waits or is made ready, and at which semaphore it waits.
	__u64 goroutine;
	__u64 address;
	__u64 frames[KERNEL_FRAMES];
	// What a thread of CPython is in: see cpython.bpf.h.
	__u64 python_frames;
	__u64 python[PYTHON_FRAMES];
	char stack[CHUNK * CHUNKS];
};

// The state of a followed task; other tasks have none. Its numbers are those that it has where knee lives, which in a
// container differ from task->pid; a task that is about to end has lost them.
struct mark {
	__u32 task;
	__u32 process;
	__u64 lock;
	__u32 lock_flags;
	// Whether the switch to it was seen.
	__u32 has_arrived;
	// The last wake-up, and the one before, as long as no switch to it is seen. A task can be woken while it still leaves its
	// CPU: then the one before has ended the wait before.
	struct wake woken;
	struct wake earlier;
	// Its CPU time when it last left a CPU.
	__u64 ran_ns;
};

// How the CPU's time is used: by followed tasks, by others, not at all.
struct cpu_use {
	__u64 since_ns;
	__u64 followed_ns;
	__u64 other_ns;
	__u64 idle_ns;
	__u64 lost;
	// Which of the three is going on: 0, 1, 2; or 3, not known until the next switch: no task that runs was found, so it is idle.
	__u64 now;
	// The stacks that may still be taken in this hundredth of a second.
	__u64 period;
	__u64 stacks;
	__u64 samples;
};

struct site {
	__u32 process;
	__u32 what;
	__u64 address;
};

struct other {
	__u64 ns;
};

struct name {
	char text[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mark);
} marks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_event);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_event);
} switches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_use);
} uses SEC(".maps");

// How often tasks waited at a place, which decides for which of these waits a stack is taken.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct site);
	__type(value, __u64);
} sites SEC(".maps");

// CPU time of tasks that are not followed, by their names.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct name);
	__type(value, struct other);
} others SEC(".maps");

// Processes whose threads are to be followed.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u32);
} wanted SEC(".maps");

// Of so many samples one is taken; 0 takes all.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sampling SEC(".maps");

// How often followed tasks passed what counts operations.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} passes SEC(".maps");

// Set by the loader, in the order of `LiveConfig` in attach.rs.
const volatile struct {
	// knee itself: its threads are never followed.
	__u32 knee;
	__s32 futex;
	__s32 file_calls[4];
	// Calls whose wake-ups show who gave something back: those that send signals, and those that unlock files.
	__s32 waking_calls[6];
	// Stacks per hundredth of a second and CPU, beside those of samples.
	__u32 stacks;
	__u32 unused;
	// The call of this architecture for each call of a 32-bit program on x86-64.
	__s16 compat_calls[COMPAT_CALLS];
} config = {};

// How deep the PID namespace of knee lies below the first one: known from the first task that is followed on.
static __u32 namespace_level;

struct pt_regs___user {
	unsigned long bp;
	unsigned long si;
	unsigned long di;
	unsigned long bx;
	unsigned long cx;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long sp;
} __attribute__((preserve_access_index));

struct user_registers_arm64 {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
};

static __always_inline struct mark *mark_of(struct task_struct *task)
{
	return bpf_task_storage_get(&marks, task, 0, 0);
}

static __always_inline struct cpu_use *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&uses, &zero);
}

// A member of the registers with which a task entered the kernel; 0 where this architecture has none.
#define USER_REGISTER(registers, member) ({ \
	unsigned long value_ = 0; \
	if (bpf_core_field_exists(((struct pt_regs___user *)0)->member)) \
		bpf_probe_read_kernel(&value_, sizeof(value_), \
			(registers) + bpf_core_field_offset(struct pt_regs___user, member)); \
	value_; \
})

// The number of a thread, or with `of_process` of its process, in the PID namespace of knee; 0 if it has none there.
static __always_inline __u32 number_of(struct task_struct *task, bool of_process)
{
	struct pid *pid = of_process ? BPF_CORE_READ(task, group_leader, thread_pid) : task->thread_pid;
	__u32 level = namespace_level, number = 0;

	if (!level)
		return of_process ? task->tgid : task->pid;
	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number),
		(void *)pid + bpf_core_field_offset(struct pid, numbers) +
			level * bpf_core_type_size(struct upid) + bpf_core_field_offset(struct upid, nr));
	return number;
}

static __always_inline void follow(struct task_struct *task, __u32 process)
{
	struct mark *mark = bpf_task_storage_get(&marks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (mark) {
		mark->task = number_of(task, false);
		mark->process = process;
	}
}

static __always_inline bool is_compat(void *registers)
{
	return USER_REGISTER(registers, cs) == USER32_CS;
}

static __always_inline __s32 call_of(void *registers)
{
	long call = -1;

	if (bpf_core_field_exists(((struct pt_regs___user *)0)->orig_ax)) {
		call = (long)USER_REGISTER(registers, orig_ax);
	} else if (bpf_core_field_exists(((struct pt_regs___arm64 *)0)->syscallno)) {
		int number = -1;

		bpf_probe_read_kernel(&number, sizeof(number),
			registers + bpf_core_field_offset(struct pt_regs___arm64, syscallno));
		call = number;
	}
	if (is_compat(registers) && call >= 0)
		call = call < COMPAT_CALLS ? config.compat_calls[call] : CALLS_MAX - 1;
	return call < 0 || call >= CALLS_MAX ? -1 : call;
}

static __always_inline void read_arguments(void *registers, __u64 *arguments)
{
#ifdef __TARGET_ARCH_x86
	if (is_compat(registers)) {
		arguments[0] = (__u32)USER_REGISTER(registers, bx);
		arguments[1] = (__u32)USER_REGISTER(registers, cx);
		return;
	}
	arguments[0] = USER_REGISTER(registers, di);
	arguments[1] = USER_REGISTER(registers, si);
#else
	bpf_probe_read_kernel(&arguments[0], 8,
		registers + bpf_core_field_offset(struct pt_regs___arm64, orig_x0));
	bpf_probe_read_kernel(&arguments[1], 8, registers + 8);
#endif
}

static __always_inline void read_user_registers(struct stack_event *s, void *registers)
{
#ifdef __TARGET_ARCH_x86
	s->ip = USER_REGISTER(registers, ip);
	s->sp = USER_REGISTER(registers, sp);
	s->bp = USER_REGISTER(registers, bp);
	s->link = 0;
	if (bpf_probe_read_kernel(s->registers, sizeof(s->registers), registers))
		s->registers[0] = 0;
#else
	struct user_registers_arm64 user = {};

	bpf_probe_read_kernel(&user, sizeof(user), registers);
	s->ip = user.pc;
	s->sp = user.sp;
	s->bp = user.regs[29];
	s->link = user.regs[30];
#endif
}

// What a call's first argument refers to: pipe, socket, character device.
static __always_inline __u32 file_kind_of(struct task_struct *task, __u64 number)
{
	struct file **files = BPF_CORE_READ(task, files, fdt, fd);
	struct file *file = NULL;

	bpf_probe_read_kernel(&file, sizeof(file), files + (__u32)number);
	switch (BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE) {
	case PIPE:
		return 1;
	case SOCKET:
		return 2;
	case CHARACTER_DEVICE:
		return 3;
	}
	return 0;
}

static __always_inline void account(struct cpu_use *c, struct task_struct *prev, __u64 ran_ns, __u64 now)
{
	__u64 d = now - c->since_ns;
	struct other *other, first = {};

	// The switch from the idle task to a followed one was missed.
	if (c->since_ns && c->now >= 2 && ran_ns) {
		ran_ns = ran_ns < d ? ran_ns : d;
		c->followed_ns += ran_ns;
		d -= ran_ns;
	}
	if (c->since_ns && c->now == 0)
		c->followed_ns += d;
	else if (c->since_ns && c->now >= 2)
		c->idle_ns += d;
	else if (c->since_ns)
		c->other_ns += d;
	if (c->since_ns && c->now == 1) {
		struct name name;

		__builtin_memcpy(name.text, prev->comm, 16);
		other = bpf_map_lookup_elem(&others, &name);
		first.ns = d;
		if (other)
			other->ns += d;
		else
			bpf_map_update_elem(&others, &name, &first, BPF_ANY);
	}
	c->since_ns = now;
}

// Whether a stack is to be taken of this wait: of the first of a place, of one in 16 later, and not of too many.
static __always_inline bool is_chosen(struct cpu_use *c, __u32 process, __u32 what, __u64 address, __u64 now)
{
	struct site site = { .process = process, .what = what, .address = address };
	__u64 *times = bpf_map_lookup_elem(&sites, &site), one = 1, n = 0;

	if (times)
		n = __sync_fetch_and_add(times, 1);
	else
		bpf_map_update_elem(&sites, &site, &one, BPF_NOEXIST);
	if (n >= 16 && n % 16)
		return false;
	if (now >> 23 != c->period) {
		c->period = now >> 23;
		c->stacks = 0;
	}
	return c->stacks++ < config.stacks;
}

static __always_inline void output_stack(struct cpu_use *c, struct stack_event *s, bool has_stack)
{
	__u32 bytes = 0;

	for (int i = 0; has_stack && i < CHUNKS; i++) {
		if (bpf_probe_read_user(&s->stack[i * CHUNK], CHUNK, (void *)(s->sp + i * CHUNK)))
			break;
		bytes = (i + 1) * CHUNK;
	}
	s->stack_bytes = bytes;
	bytes += offsetof(struct stack_event, stack);
	if (bytes > sizeof(*s))
		bytes = sizeof(*s);
	if (bpf_ringbuf_output(&events, s, bytes, BPF_RB_NO_WAKEUP))
		c->lost++;
}

static __always_inline struct stack_event *begin_stack(
	struct mark *mark, struct task_struct *task, __u32 reason, __u64 now)
{
	__u32 zero = 0;
	struct stack_event *s = bpf_map_lookup_elem(&scratch, &zero);

	if (!s)
		return NULL;
	s->head.at_ns = now;
	s->head.kind = STACK;
	s->head.cpu = bpf_get_smp_processor_id();
	s->head.task = mark->task;
	s->head.process = mark->process;
	s->reason = reason;
	s->goroutine = 0;
	s->address = 0;
	read_user_registers(s, (void *)bpf_task_pt_regs(task));
	s->python_frames = read_python(s->python, mark->process);
	return s;
}

static __always_inline void send_stack(
	void *context, struct cpu_use *c, struct mark *mark, struct task_struct *task, __u32 reason, __u64 now)
{
	struct stack_event *s = begin_stack(mark, task, reason, now);
	long kernel;

	if (!s)
		return;
	s->call = call_of((void *)bpf_task_pt_regs(task));
	kernel = bpf_get_stack(context, s->frames, sizeof(s->frames), 0);
	s->kernel_frames = kernel > 0 ? (__u64)kernel / 8 : 0;
	// Stacks of 32-bit programs are not walked.
	output_stack(c, s, !is_compat((void *)bpf_task_pt_regs(task)));
}

// What the task that leaves waits for. Returns what is waited for, to tell places apart.
static __always_inline __u64 describe_wait(struct switch_event *e, struct task_struct *prev, bool is_current)
{
	void *registers = (void *)bpf_task_pt_regs(prev);

	e->call = call_of(registers);
	e->arguments[0] = e->arguments[1] = 0;
	__builtin_memset(e->words, 0, sizeof(e->words));
	e->file_kind = 0;
	if (e->call < 0)
		return 0;
	read_arguments(registers, e->arguments);
	if (e->call == config.futex && is_current)
		bpf_probe_read_user(e->words, sizeof(e->words), (void *)e->arguments[0]);
	else if (e->call == config.file_calls[0] || e->call == config.file_calls[1] ||
		 e->call == config.file_calls[2] || e->call == config.file_calls[3])
		e->file_kind = file_kind_of(prev, e->arguments[0]);
	return e->arguments[0];
}

static __always_inline __u32 waiting_flags(struct task_struct *task)
{
	__u32 state = task->__state, flags = 0;

	if (state & TASK_DEAD)
		flags |= ENDS;
	// __TASK_STOPPED and __TASK_TRACED
	if (state & 12)
		flags |= STOPPED;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		flags |= FOR_IO;
	if (bpf_core_field_exists(task->in_memstall) && BPF_CORE_READ_BITFIELD(task, in_memstall))
		flags |= FOR_MEMORY;
	return flags;
}

static __always_inline __u32 state_of(struct task_struct *prev, bool preempt, struct task_struct *next)
{
	struct cfs_rq *queue = prev->se.cfs_rq;
	__u32 state = prev->__state, flags = 0;

	if (!state || preempt) {
		flags = RUNNABLE;
		if (!next->pid ||
		    (queue && bpf_core_field_exists(queue->throttle_count) && queue->throttle_count))
			flags |= THROTTLED;
		return flags;
	}
	return waiting_flags(prev);
}

// The CPU time of a task since it left a CPU before, as it leaves; 0 if that was not seen.
static __always_inline __u64 ran_ns(struct mark *mark, struct task_struct *task)
{
	__u64 now = task->se.sum_exec_runtime, before = mark->ran_ns;

	mark->ran_ns = now;
	return before ? now - before : 0;
}

// Another CPU may wake a task that is still on its way off its own, this long before the switch: the kernel may look for
// other work meanwhile (kernel/sched/fair.c, sched_balance_newidle).
#define LEAVING_NS 200000

// Member by member: of assignments of whole structures, clang 14 keeps only the last here.
static __always_inline void copy_wake(struct wake *to, const struct wake *from)
{
	to->at_ns = from->at_ns;
	to->argument = from->argument;
	to->waker = from->waker;
	to->call = from->call;
}

// As a task leaves: the wake-up that ended its wait before, if its arrival was not seen. One that has just come is that of
// the wait which begins, unless it is the only one.
static __always_inline void take_unseen(struct wake *unseen, struct mark *mark, __u64 now)
{
	bool is_early = now - mark->woken.at_ns < LEAVING_NS && (mark->has_arrived || mark->earlier.at_ns);

	if (!mark->has_arrived)
		copy_wake(unseen, is_early ? &mark->earlier : &mark->woken);
	if (!is_early)
		mark->woken.at_ns = 0;
	mark->earlier.at_ns = 0;
	mark->has_arrived = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(live_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct mark *from = prev->pid ? mark_of(prev) : NULL, *to = next->pid ? mark_of(next) : NULL;
	__u64 now = bpf_ktime_get_ns(), address = 0, ran = from ? ran_ns(from, prev) : 0;
	struct wake prev_woken = {}, woken = {};
	struct cpu_use *c = this_cpu();
	struct switch_event *e;
	__u32 zero = 0;

	if (!c)
		return 0;
	account(c, prev, ran, now);
	c->now = to ? 0 : next->pid ? 1 : 2;
	if (!from && !to)
		return 0;
	if (from)
		take_unseen(&prev_woken, from, now);
	if (to) {
		copy_wake(&woken, &to->woken);
		to->has_arrived = 1;
		to->woken.at_ns = to->earlier.at_ns = 0;
	}
	e = bpf_map_lookup_elem(&switches, &zero);
	if (!e)
		return 0;
	e->head.at_ns = now;
	e->head.kind = SWITCH;
	e->head.cpu = bpf_get_smp_processor_id();
	e->head.task = from ? from->task : prev->pid;
	e->head.process = from ? from->process : 0;
	e->next = to ? to->task : 0;
	e->next_process = to ? to->process : 0;
	e->flags = (from ? PREV_FOLLOWED : 0) | (to ? NEXT_FOLLOWED : 0) | (next->pid ? 0 : NEXT_IDLE);
	e->lock = 0;
	e->call = -1;
	e->cpus_allowed = 0;
	copy_wake(&e->woken, &woken);
	copy_wake(&e->prev_woken, &prev_woken);
	e->prev_ran_ns = ran;
	__builtin_memcpy(e->prev_name, prev->comm, 16);
	__builtin_memcpy(e->next_name, next->comm, 16);
	if (from) {
		e->flags |= state_of(prev, preempt, next);
		e->cpus_allowed = prev->nr_cpus_allowed;
		address = describe_wait(e, prev, true);
		e->lock = from->lock;
		e->lock_flags = from->lock_flags;
	}
	if (bpf_ringbuf_output(&events, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		c->lost++;
	if (from && !(e->flags & (RUNNABLE | ENDS)) &&
	    is_chosen(c, from->process, 1 + e->call, e->lock ? e->lock : address, now))
		send_stack(ctx, c, from, prev, WAITS, now);
	return 0;
}

// In the task that wakes. Interrupts wake, too: then `current` has nothing to do with it.
SEC("tp_btf/sched_waking")
int BPF_PROG(live_waking, struct task_struct *task)
{
	struct mark *mark = mark_of(task), *by;
	struct task_struct *waker;
	__u64 now, arguments[2];
	struct cpu_use *c;

	if (!mark)
		return 0;
	now = bpf_ktime_get_ns();
	waker = bpf_get_current_task_btf();
	by = waker->pid ? mark_of(waker) : NULL;
	copy_wake(&mark->earlier, &mark->woken);
	mark->woken.at_ns = now;
	mark->woken.waker = by ? by->task : waker->pid ? STRANGER : 0;
	mark->woken.call = -1;
	mark->woken.argument = 0;
	c = this_cpu();
	if (!by || !c)
		return 0;
	mark->woken.call = call_of((void *)bpf_task_pt_regs(waker));
	if (mark->woken.call == config.futex) {
		read_arguments((void *)bpf_task_pt_regs(waker), arguments);
		mark->woken.argument = arguments[0];
	} else if (mark->lock) {
		arguments[0] = mark->lock;
	} else if (mark->woken.call == config.waking_calls[0] || mark->woken.call == config.waking_calls[1] ||
		   mark->woken.call == config.waking_calls[2] || mark->woken.call == config.waking_calls[3] ||
		   mark->woken.call == config.waking_calls[4] || mark->woken.call == config.waking_calls[5]) {
		arguments[0] = 0;
	} else {
		return 0;
	}
	if (is_chosen(c, by->process, 0, arguments[0], now))
		send_stack(ctx, c, by, waker, WAKES, now);
	return 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(live_contention_begin, void *lock, unsigned int flags)
{
	struct mark *mark;

	// A task that spins does not leave its CPU; one that spins for a mutex says once more that it waits, if it does.
	if ((flags & LOCK_SPINS) && !(flags & LOCK_IS_MUTEX))
		return 0;
	mark = mark_of(bpf_get_current_task_btf());
	if (mark) {
		mark->lock = (__u64)lock;
		mark->lock_flags = flags;
	}
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(live_contention_end, void *lock)
{
	struct mark *mark = mark_of(bpf_get_current_task_btf());

	if (mark)
		mark->lock = 0;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(live_fork, struct task_struct *parent, struct task_struct *child)
{
	struct mark *mark = mark_of(parent);
	__u32 process;

	if (mark) {
		process = number_of(child, true);
		follow(child, process);
		inherit_python(mark->process, process);
	}
	return 0;
}

SEC("perf_event")
int live_sample(struct bpf_perf_event_data *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mark *mark = task->pid ? mark_of(task) : NULL;
	struct cpu_use *c = this_cpu();
	__u32 zero = 0, *one_of;

	if (!c || !mark)
		return 0;
	one_of = bpf_map_lookup_elem(&sampling, &zero);
	if (one_of && *one_of && c->samples++ % *one_of)
		return 0;
	send_stack(context, c, mark, task, RUNS, bpf_ktime_get_ns());
	return 0;
}

// Goroutines wait without their threads: runtime/sema.go queues them. The registers are those of Go's ABIInternal
// on amd64: the first argument is in AX, the goroutine in R14.
#define REGISTER_AX 10
#define REGISTER_R14 1

static __always_inline int send_goroutine(__u32 reason, __u64 goroutine, __u64 address, __u64 place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mark *mark = mark_of(task);
	struct cpu_use *c = this_cpu();
	__u64 now = bpf_ktime_get_ns();
	struct stack_event *s;

	if (!c || !mark)
		return 0;
	s = begin_stack(mark, task, reason, now);
	if (!s)
		return 0;
	s->call = -1;
	s->kernel_frames = 0;
	s->goroutine = goroutine;
	s->address = address;
	output_stack(c, s, is_chosen(c, mark->process, reason << 16, place, now));
	return 0;
}

static __always_inline __u64 user_register(__u32 index)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value),
		(void *)bpf_task_pt_regs(bpf_get_current_task_btf()) + index * 8);
	return value;
}

// runtime.semacquire1(addr *uint32, ...)
SEC("uprobe")
int go_waits(void *context)
{
	__u64 address = user_register(REGISTER_AX);

	return send_goroutine(GOROUTINE_WAITS, user_register(REGISTER_R14), address, address);
}

// runtime.readyWithTime(s *sudog, ...): its first member is the goroutine.
SEC("uprobe")
int go_wakes(void *context)
{
	__u64 sudog = user_register(REGISTER_AX), goroutine = 0;

	bpf_probe_read_user(&goroutine, sizeof(goroutine), (void *)sudog);
	return send_goroutine(GOROUTINE_WAKES, goroutine, 0, 0);
}

static __always_inline int count_operation(void)
{
	__u32 key = 0;
	__u64 *count = bpf_map_lookup_elem(&passes, &key);

	// A task that takes the CPU in between counts, too.
	if (count && mark_of(bpf_get_current_task_btf()))
		__sync_fetch_and_add(count, 1);
	return 0;
}

SEC("uprobe")
int count_pass(void *context)
{
	return count_operation();
}

SEC("tracepoint")
int count_event(void *context)
{
	return count_operation();
}

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

// Run by knee: follows all threads of the wanted processes.
SEC("iter/task")
int follow_wanted(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	__u32 process;

	if (!task)
		return 0;
	namespace_level = BPF_CORE_READ(bpf_get_current_task_btf(), thread_pid, level);
	process = number_of(task, true);
	if (process != config.knee && bpf_map_lookup_elem(&wanted, &process) && !mark_of(task))
		follow(task, process);
	return 0;
}

// Run by knee in a pause, in which no switch and no wake-up is seen.
SEC("iter/task")
int forget_switches(struct bpf_iter__task *context)
{
	struct mark *mark = context->task ? mark_of(context->task) : NULL;

	if (mark) {
		mark->woken.at_ns = mark->earlier.at_ns = mark->ran_ns = 0;
		mark->has_arrived = 0;
	}
	return 0;
}

// Says what goes on where this task runs, unless a switch has said so.
static __always_inline void find_use(struct task_struct *task, bool is_followed)
{
	__u32 zero = 0, cpu;
	struct cpu_use *c;

	// Linux 5.19; thread_info.cpu is older.
	if (!task->on_cpu ||
	    !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_map_lookup_percpu_elem) ||
	    !bpf_core_field_exists(task->thread_info.cpu))
		return;
	cpu = BPF_CORE_READ(task, thread_info.cpu);
	c = bpf_map_lookup_percpu_elem(&uses, &zero, cpu);
	if (c && c->now == 3)
		c->now = is_followed ? 0 : 1;
}

// Run by knee after a pause: what each followed thread does.
SEC("iter/task")
int find_followed(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct mark *mark = task ? mark_of(task) : NULL;
	struct switch_event e = {};
	struct cpu_use *c = this_cpu();

	if (task)
		find_use(task, mark);
	if (!mark || !c)
		return 0;
	e.head.at_ns = bpf_ktime_get_ns();
	e.head.kind = FOUND;
	e.head.task = mark->task;
	e.head.process = mark->process;
	e.call = -1;
	__builtin_memcpy(e.prev_name, task->comm, 16);
	if (task->on_cpu)
		e.flags = ON_CPU;
	else
		e.flags = task->__state ? waiting_flags(task) : RUNNABLE;
	if (!(e.flags & (ON_CPU | RUNNABLE))) {
		describe_wait(&e, task, false);
		e.lock = mark->lock;
		e.lock_flags = mark->lock_flags;
	}
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		c->lost++;
	return 0;
}
