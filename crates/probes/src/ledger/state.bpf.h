// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The state of each CPU: the base is the kind of task that has it, the frames are a stack of what
// it is doing. Each event adds the time since the last one to one total and then changes the state,
// so that all totals of a CPU add up to its time, whatever happens.
//
//     base:   idle | work | other | own             changed only by sched_switch
//     frame:  rest > spin > irq > softirq > irq …   entered and left in pairs
//
// Totals are never reset: windows are differences of two snapshots.
#pragma once

// Sizes of tables are powers of two.
#define DEPTH 16
#define LOCKS 128
#define OTHERS 64
#define REASONS 64
#define COUNTS 64
#define CALLS 512
#define NANOSECONDS_OF_STEAL 20000

// In the order of records::Base.
enum base { IDLE, WORK, OTHER, OWN, BASES };

// In the order of records::CpuState.
enum state {
	REST, SPIN,
	IRQ_TIMER, IRQ_RESCHEDULE, IRQ_CALL_MANY, IRQ_CALL_ONE, IRQ_WORK, IRQ_DEVICE, IRQ_OTHER,
	SOFTIRQ_HIGH, SOFTIRQ_LAST = SOFTIRQ_HIGH + 9,
	SAMPLING, STEAL, STATES
};

// In the order of ANOMALIES in raw.rs.
enum anomaly {
	TOO_DEEP, NOT_ENTERED, SWITCHED_INSIDE, STEAL_CAPPED, UNSEEN_SWITCH, SAMPLE_LOST, NO_STORAGE,
	ANOMALIES
};

// Why a CPU is idle: for a task that left it, or for none. Higher numbers are system calls, with what
// the task waits for in them. In the order of REASON_NAMES in raw.rs.
enum reason {
	NO_TASK = 1, WAKING, LOCK_SLEEP, INPUT_OUTPUT, NOT_IN_A_CALL, THROTTLED, RECLAIM, BEHIND_OTHERS,
	FIRST_CALL
};

// What a task waits for in a call. In the order of `waiting_in` in calls.rs.
enum wait_kind { IN_CALL, OF_PIPE, OF_SOCKET, OF_DEVICE, FOR_IO, FOR_LOCK, FOR_MEMORY };

// More than there are system calls: a reason is FIRST_CALL + kind * CALLS_MAX + call.
#define CALLS_MAX 1024

// What kept a runnable task from a CPU. In the order of WAIT_NAMES in raw.rs.
enum wait { OWN_TASK, OWN_TASK_ON_THE_ONLY_CPUS, OTHER_TASK, QUOTA, WAITS };

struct lock {
	__u64 address;
	__u64 spins[BASES];
	__u64 spin_ns[BASES];
	__u64 sleeps;
	__u64 sleep_ns;
};

struct share {
	__u64 key;
	__u64 ns;
	__u64 times;
	char name[16];
};

struct waits {
	__u64 ns;
	__u64 times;
};

// What a snapshot copies. The last lock, reason and other task stand for all that did not fit.
struct totals {
	__u64 at_ns;
	__u64 operations;
	// From the wake-ups of the workload's tasks on idle CPUs to the switches to them.
	__u64 woken_ns;
	// How long a task of the workload had any CPU, added by the CPU that was the last of them.
	__u64 active_ns;
	__u64 ns[BASES][STATES];
	__u64 entries[BASES][STATES];
	__u64 anomalies[ANOMALIES + 1];
	struct share idle[REASONS + 1];
	// What the workload waited for while no CPU ran any of its tasks.
	struct share gaps[REASONS + 1];
	// How long tasks of the workload slept, whether or not a CPU was idle meanwhile.
	struct share sleeps[REASONS + 1];
	struct share others[OTHERS + 1];
	struct lock locks[LOCKS + 1];
	struct waits waits[WAITS];
	__u64 counts[COUNTS];
	__u64 calls[CALLS];
};

struct frame {
	__u32 state;
	__u32 slot;
	__u64 lock;
	__u64 ns;
};

struct cpu {
	__u64 last_ns;
	__u64 steal_ns;
	__u64 steal_address;
	__u64 idle_rest_ns;
	__u32 base;
	__u32 depth;
	__u32 pid;
	// Whether `workload` counts this CPU as running.
	__u32 is_running;
	__u32 idle_slot;
	__u32 other_slot;
	__u32 reason;
	__u32 unused;
	// The task of the workload that last left this CPU, and when another CPU got it; 0 if none did.
	__u32 left_pid;
	__u64 gone_ns;
	__u64 waits;
	// When the current task was switched to, and our clock minus the scheduler's.
	__u64 switched_ns;
	__s64 ahead_ns;
	struct frame frame[DEPTH];
	struct totals totals;
};

// The state of a task of the workload; other tasks have none.
//
//     running -> left_ns, left_reason -> waking_ns -> runnable_ns -> running     slept
//     running -> left_ns = runnable_ns -> running                                preempted, throttled
struct mark {
	__u64 left_ns;
	__u64 waking_ns;
	__u64 runnable_ns;
	__u32 left_reason;
	__u32 left_cpu;
	__u32 woken_throttled;
	__u32 unused;
	__u64 lock;
	__u64 lock_since_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

// How many CPUs run the workload, and since when any or none does. All CPUs write to it, but only when a CPU
// begins or ends to run the workload.
//
//     CPU 0:  | task ...... |                | task ...
//     CPU 1:       | task ....... |
//             |<---- active ----->|<- gap -->|
struct workload {
	__u64 running;
	__u64 active_since_ns;
	__u64 gap_since_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct workload);
} workload SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals);
} snapshots SEC(".maps");

// The operation count of each task: memory that the tasks store to and that a snapshot reads on
// the task's own CPU.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[16]);
} operations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mark);
} marks SEC(".maps");

// Set by the loader, in the order of `ProgramConfig` in load.rs.
const volatile struct {
	__u32 worker_pid;
	__u32 knee_pid;
	__u32 tasks;
	__u32 stack_every;
	// Number of CPUs that the workload may have.
	__u32 cpus;
	// Calls that wait for whatever file they are given: read, write, readv, writev.
	__u32 file_calls[4];
	__u32 unused;
	// From the run queue to the hypervisor's per-CPU count of stolen time; 0 if there is none.
	__s64 steal_offset;
} config = {};

// Interrupts must be off while a state changes: otherwise an update may be lost.
#define PROTECT() \
	unsigned long interrupts; \
	if (bpf_local_irq_save) \
		bpf_local_irq_save(&interrupts)
#define UNPROTECT() \
	if (bpf_local_irq_restore) \
		bpf_local_irq_restore(&interrupts)

static __always_inline struct cpu *this_cpu(void)
{
	__u32 index = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &index);
}

static __always_inline void note(struct cpu *c, enum anomaly anomaly)
{
	c->totals.anomalies[anomaly]++;
}

static __always_inline struct frame *top(struct cpu *c)
{
	return &c->frame[c->depth & (DEPTH - 1)];
}

// Subtracts the time that the host stole from `d`. Reads it only if the interval is long enough
// to contain any: the read is the most expensive part of an event, and inside a critical section
// all waiters pay for it.
static __always_inline __u64 without_steal(struct cpu *c, __u32 base, __u64 d)
{
	__u64 now_ns = 0, stolen;

	if (d < NANOSECONDS_OF_STEAL || !c->steal_address)
		return d;
	bpf_probe_read_kernel(&now_ns, sizeof(now_ns), (void *)c->steal_address);
	stolen = now_ns - c->steal_ns;
	if (stolen > d) {
		note(c, STEAL_CAPPED);
		stolen = d;
	}
	c->steal_ns += stolen;
	c->totals.ns[base][STEAL] += stolen;
	if (stolen)
		c->totals.entries[base][STEAL]++;
	return d - stolen;
}

// Bounds a slot so that the verifier sees that it is in its table.
static __always_inline __u32 within(__u32 slot, __u32 last)
{
	barrier_var(slot);
	return slot > last ? last : slot;
}

// The slot of a key in a small hash table: one of four probed slots, or the last one, which is
// shared by all keys that do not fit.
#define SLOT(table, size, wanted, member) ({ \
	__u32 slot_ = size; \
	__u64 hash_ = (wanted) * 0x9e3779b97f4a7c15ULL >> 40; \
	for (int probe_ = 0; probe_ < 4; probe_++) { \
		__u32 at_ = (hash_ + probe_) & (size - 1); \
		if (table[at_].member == (wanted)) { \
			slot_ = at_; \
			break; \
		} \
		if (!table[at_].member) { \
			table[at_].member = (wanted); \
			slot_ = at_; \
			break; \
		} \
	} \
	within(slot_, size); \
})

#define IDLE_SLOT(c, reason) SLOT((c)->totals.idle, REASONS, (__u64)(reason), key)
#define SLEEP_SLOT(c, reason) SLOT((c)->totals.sleeps, REASONS, (__u64)(reason), key)
#define GAP_SLOT(c, reason) SLOT((c)->totals.gaps, REASONS, (__u64)(reason), key)

// The task that an idle CPU waits for may wake on another CPU. Nobody waits for this CPU from then on.
static __noinline void end_with_gone(struct cpu *c, __u64 began, __u64 now, __u64 d)
{
	__u64 gone_ns = c->gone_ns, after;
	__u32 to;

	if (!gone_ns || gone_ns >= now)
		return;
	after = now - (gone_ns > began ? gone_ns : began);
	if (after > d)
		after = d;
	c->gone_ns = 0;
	c->reason = NO_TASK;
	to = IDLE_SLOT(c, NO_TASK);
	c->totals.idle[within(c->idle_slot, REASONS)].ns -= after;
	c->totals.idle[to].ns += after;
	c->idle_slot = to;
	c->idle_rest_ns = after;
}

// Adds the time since the last event to its total.
static __always_inline void close_interval(struct cpu *c, __u64 now)
{
	__u32 base = c->base & (BASES - 1);
	struct frame *f = top(c);
	__u32 state = f->state;
	__u64 began = c->last_ns;
	__u64 d = without_steal(c, base, now - began);

	c->last_ns = now;
	if (state >= STATES)
		return;
	c->totals.ns[base][state] += d;
	f->ns += d;
	if (state == SPIN) {
		c->totals.locks[within(f->slot, LOCKS)].spin_ns[base] += d;
	} else if (state == REST && base == IDLE) {
		c->idle_rest_ns += d;
		c->totals.idle[within(c->idle_slot, REASONS)].ns += d;
		end_with_gone(c, began, now, d);
	} else if (state == REST && base == OTHER) {
		c->totals.others[within(c->other_slot, OTHERS)].ns += d;
	}
}

static __always_inline void enter(struct cpu *c, __u32 state, __u64 lock, __u32 slot)
{
	__u32 base = c->base & (BASES - 1);
	struct frame *f;

	if (state >= STATES)
		return;
	if (c->depth >= DEPTH - 1) {
		note(c, TOO_DEEP);
		return;
	}
	c->depth++;
	c->totals.entries[base][state]++;
	f = top(c);
	f->state = state;
	f->lock = lock;
	f->slot = slot;
	f->ns = 0;
}

static __always_inline void leave(struct cpu *c, __u32 state)
{
	if (c->depth && top(c)->state == state)
		c->depth--;
	else if (c->depth && top(c)->state == SAMPLING && state < SAMPLING)
		c->depth--;
	else
		note(c, NOT_ENTERED);
}

// Work of knee inside an interrupt makes the whole interrupt knee's.
static __always_inline void own_interrupt(struct cpu *c, __u32 state)
{
	__u32 base = c->base & (BASES - 1);
	struct frame *f = top(c);

	if (!c->depth || f->state != state || state >= STATES)
		return;
	c->totals.ns[base][state] -= f->ns;
	c->totals.entries[base][state]--;
	c->totals.ns[base][SAMPLING] += f->ns;
	c->totals.entries[base][SAMPLING]++;
	f->state = SAMPLING;
}
