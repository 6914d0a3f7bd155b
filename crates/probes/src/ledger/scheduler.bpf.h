// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Which task has each CPU.
#pragma once

static __always_inline __u32 class_of(struct task_struct *task)
{
	if (!task->pid)
		return IDLE;
	if (bpf_task_storage_get(&marks, task, 0, 0))
		return WORK;
	if (task->tgid == config.worker_pid || task->tgid == config.knee_pid)
		return OWN;
	return OTHER;
}

static __always_inline void name_other(struct cpu *c, struct task_struct *task)
{
	__u32 slot = SLOT(c->totals.others, OTHERS, (__u64)task->pid, key);

	c->other_slot = slot;
	c->totals.others[slot].times++;
	if (slot < OTHERS)
		__builtin_memcpy(c->totals.others[slot].name, task->comm, 16);
}

static __always_inline void name_idle(struct cpu *c)
{
	c->idle_slot = IDLE_SLOT(c, c->reason ? c->reason : NO_TASK);
}

static __noinline void add_gap(struct cpu *c, __u32 reason, __u64 ns)
{
	__u32 slot;

	if (!c || !ns)
		return;
	slot = GAP_SLOT(c, reason);
	c->totals.gaps[slot].ns += ns;
	c->totals.gaps[slot].times++;
}

static __noinline void add_sleep(struct cpu *c, __u32 reason, __u64 ns)
{
	__u32 slot;

	if (!c)
		return;
	slot = SLEEP_SLOT(c, reason);
	c->totals.sleeps[slot].ns += ns;
	c->totals.sleeps[slot].times++;
}

// Counts this CPU as running the workload. Returns when the last gap began, or 0 if there was none.
static __always_inline __u64 begin_running(struct cpu *c, __u64 now)
{
	struct workload *w;
	__u64 since;
	__u32 zero = 0;

	c->is_running = 1;
	w = bpf_map_lookup_elem(&workload, &zero);
	if (!w || __sync_fetch_and_add(&w->running, 1))
		return 0;
	since = w->gap_since_ns;
	w->active_since_ns = now;
	return since < now ? since : 0;
}

static __always_inline void end_running(struct cpu *c, __u64 now)
{
	struct workload *w;
	__u64 since;
	__u32 zero = 0;

	c->is_running = 0;
	w = bpf_map_lookup_elem(&workload, &zero);
	if (!w)
		return;
	// Before the count, so that the CPU that begins next finds it.
	w->gap_since_ns = now;
	since = w->active_since_ns;
	if (__sync_fetch_and_add(&w->running, -1) == 1 && since < now)
		c->totals.active_ns += now - since;
}

static __always_inline void give_to(struct cpu *c, struct task_struct *task)
{
	c->base = class_of(task);
	c->pid = task->pid;
	// A switch to a task of the workload has begun it already, with the reason of the gap.
	if (c->base == WORK && !c->is_running) {
		__u64 since = begin_running(c, c->last_ns);

		add_gap(c, NO_TASK, since ? c->last_ns - since : 0);
	} else if (c->base != WORK && c->is_running) {
		end_running(c, c->last_ns);
	}
	c->totals.entries[c->base & (BASES - 1)][REST]++;
	if (c->base == OTHER)
		name_other(c, task);
	else if (c->base == IDLE)
		name_idle(c);
}

// When the scheduler switched to a task, by our clock; 0 if unknown.
static __always_inline __u64 arrival_of(struct cpu *c, struct task_struct *task)
{
	if (!task->pid || !bpf_core_field_exists(task->sched_info.last_arrival) || !c->ahead_ns)
		return 0;
	return task->sched_info.last_arrival + c->ahead_ns;
}

// Kernels were observed to miss switches in sched:sched_switch: then the current task is right.
// The scheduler records when it was switched to, so only the time of tasks that came and went
// unseen stays in a wrong row.
static __always_inline void resync(struct cpu *c, struct task_struct *task, __u64 now)
{
	__u64 since;

	if (task->pid == c->pid)
		return;
	note(c, UNSEEN_SWITCH);
	since = arrival_of(c, task);
	if (since > c->last_ns && since < now)
		close_interval(c, since);
	give_to(c, task);
	c->switched_ns = 0;
}

static __always_inline long call_of(struct task_struct *task)
{
	void *registers = (void *)bpf_task_pt_regs(task);
	long call = -1;

	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->orig_ax)) {
		unsigned long orig_ax = -1;

		bpf_probe_read_kernel(&orig_ax, sizeof(orig_ax),
			registers + bpf_core_field_offset(struct pt_regs___x86, orig_ax));
		call = (long)orig_ax;
	} else if (bpf_core_field_exists(((struct pt_regs___arm64 *)0)->syscallno)) {
		int number = -1;

		bpf_probe_read_kernel(&number, sizeof(number),
			registers + bpf_core_field_offset(struct pt_regs___arm64, syscallno));
		call = number;
	}
	return call;
}

// The kind of file that the system call of a task was given first.
static __always_inline __u32 file_kind_of(struct task_struct *task)
{
	void *registers = (void *)bpf_task_pt_regs(task);
	struct file **files = BPF_CORE_READ(task, files, fdt, fd);
	struct file *file = NULL;
	__u64 number = 0;

	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->orig_ax))
		bpf_probe_read_kernel(&number, sizeof(number),
			registers + bpf_core_field_offset(struct pt_regs___x86, di));
	else if (bpf_core_field_exists(((struct pt_regs___arm64 *)0)->syscallno))
		bpf_probe_read_kernel(&number, sizeof(number),
			registers + bpf_core_field_offset(struct pt_regs___arm64, orig_x0));
	bpf_probe_read_kernel(&file, sizeof(file), files + (__u32)number);
	switch (BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE) {
	case PIPE:
		return OF_PIPE;
	case SOCKET:
		return OF_SOCKET;
	case CHARACTER_DEVICE:
		return OF_DEVICE;
	}
	return IN_CALL;
}

// Why a task of the workload left its CPU: for what, and in which call.
static __always_inline __u32 reason_of(struct task_struct *task, struct mark *mark)
{
	__u32 outside = NOT_IN_A_CALL, kind = IN_CALL;
	long call;

	if (task->__state & TASK_DEAD)
		return NO_TASK;
	if (mark->lock) {
		outside = LOCK_SLEEP;
		kind = FOR_LOCK;
	} else if (bpf_core_field_exists(task->in_memstall) &&
		   BPF_CORE_READ_BITFIELD(task, in_memstall)) {
		outside = RECLAIM;
		kind = FOR_MEMORY;
	} else if (BPF_CORE_READ_BITFIELD(task, in_iowait)) {
		outside = INPUT_OUTPUT;
		kind = FOR_IO;
	}
	call = call_of(task);
	if (call < 0 || call >= CALLS_MAX)
		return outside;
	if (kind == IN_CALL &&
	    (call == config.file_calls[0] || call == config.file_calls[1] ||
	     call == config.file_calls[2] || call == config.file_calls[3]))
		kind = file_kind_of(task);
	return FIRST_CALL + kind * CALLS_MAX + call;
}

// Moves idle time to another reason: the sum stays the same.
static __always_inline void move_idle(struct cpu *c, __u32 to, __u64 ns)
{
	c->totals.idle[within(c->idle_slot, REASONS)].ns -= ns;
	c->totals.idle[within(to, REASONS)].ns += ns;
}

static __always_inline bool is_throttled(struct task_struct *task)
{
	struct cfs_rq *queue = task->se.cfs_rq;

	return queue && bpf_core_field_exists(queue->throttle_count) && queue->throttle_count;
}

// A runnable task that leaves its CPU to no other task has used up the quota of its cgroup.
static __always_inline void leaves(
	struct cpu *c, struct task_struct *task, struct mark *mark, bool to_idle, __u64 now)
{
	if (task->__state) {
		c->reason = reason_of(task, mark);
		mark->runnable_ns = 0;
	} else {
		c->reason = to_idle || is_throttled(task) ? THROTTLED : NO_TASK;
		mark->runnable_ns = now;
	}
	c->left_pid = task->pid;
	c->gone_ns = 0;
	c->idle_rest_ns = 0;
	mark->left_ns = now;
	mark->left_reason = c->reason;
	mark->left_cpu = bpf_get_smp_processor_id();
	mark->woken_throttled = 0;
}

// Adds how long a runnable task waited, to what kept it from a CPU.
static __always_inline void count_wait(
	struct cpu *c, struct task_struct *task, struct mark *mark, __u64 now)
{
	__u32 wait = QUOTA;

	if (!mark->runnable_ns)
		return;
	if (c->base == WORK)
		wait = task->nr_cpus_allowed < config.cpus ? OWN_TASK_ON_THE_ONLY_CPUS : OWN_TASK;
	else if (c->base != IDLE)
		wait = OTHER_TASK;
	else if (mark->left_reason != THROTTLED && !mark->woken_throttled)
		return;
	c->totals.waits[wait].ns += now - mark->runnable_ns;
	c->totals.waits[wait].times++;
}

// Whether this CPU was idle for a task that left another CPU: not if that CPU is idle for it. From now on, the
// other CPU waits for it no longer, whatever runs there now.
static __always_inline bool waited_here(struct cpu *c, struct mark *mark, __u32 pid, __u64 now)
{
	__u32 index = mark->left_cpu;
	struct cpu *left;

	if (index == bpf_get_smp_processor_id())
		return true;
	left = bpf_map_lookup_elem(&cpus, &index);
	if (!left)
		return true;
	if (left->left_pid == pid)
		left->gone_ns = now;
	return left->base != IDLE;
}

// The task that ends a gap of the whole workload waited for what the workload waited for: until it was `ready`
// for that of its sleep, and then for a CPU.
static __always_inline void end_gap(struct cpu *c, struct mark *mark, bool slept, __u64 ready, __u64 now)
{
	__u64 since = begin_running(c, now), left;
	__u32 reason = WAKING;

	if (!since)
		return;
	if (ready < since)
		ready = since;
	if (mark->left_reason == THROTTLED || mark->woken_throttled)
		reason = THROTTLED;
	else if (c->base == OTHER)
		reason = BEHIND_OTHERS;
	add_gap(c, reason, ready < now ? now - ready : 0);
	left = slept && mark->left_ns > since ? mark->left_ns : since;
	if (ready <= left)
		return;
	add_gap(c, slept ? mark->left_reason : NO_TASK, ready - left);
	add_gap(c, NO_TASK, left - since);
}

// Idle time is charged to what ended it: the wait of the task that gets the CPU, as far back as it
// waited. What lies before stays with the task that had left this CPU last.
//
//     task:            | left ......... waking | runnable | running
//     CPU:    idle ..... idle ................. idle ..... |
//             the other | reason of the task   | wake-up  |
//
// A task may be woken while it still leaves its CPU, after it is off the run queue: then all of it is
// wake-up.
static __always_inline void arrives(
	struct cpu *c, struct task_struct *task, struct mark *mark, __u64 now)
{
	bool slept = mark->left_reason > NO_TASK && mark->left_reason != THROTTLED;
	__u64 rest = c->idle_rest_ns, until = now, part;
	__u32 to;

	count_wait(c, task, mark, now);
	if (slept && mark->waking_ns)
		until = mark->waking_ns;
	else if (slept && mark->runnable_ns)
		until = mark->runnable_ns;
	if (slept && mark->left_ns && until > mark->left_ns)
		add_sleep(c, mark->left_reason, until - mark->left_ns);
	if (!c->is_running)
		end_gap(c, mark, slept, slept || !mark->runnable_ns ? until : mark->runnable_ns, now);
	if (c->base == IDLE && until < now) {
		part = now - until < rest ? now - until : rest;
		to = IDLE_SLOT(c, mark->woken_throttled ? THROTTLED : WAKING);
		move_idle(c, to, part);
		c->totals.idle[within(to, REASONS)].times++;
		c->totals.woken_ns += mark->runnable_ns ? now - mark->runnable_ns : 0;
		rest -= part;
	}
	part = 0;
	if (mark->left_ns && mark->left_reason > NO_TASK) {
		to = IDLE_SLOT(c, mark->left_reason);
		c->totals.idle[within(to, REASONS)].times++;
		part = until > mark->left_ns ? until - mark->left_ns : 0;
		part = waited_here(c, mark, task->pid, now) ? (part < rest ? part : rest) : 0;
		move_idle(c, to, part);
	}
	c->idle_rest_ns = 0;
	mark->left_ns = 0;
	mark->waking_ns = 0;
	mark->runnable_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();
	struct cpu *c = this_cpu();
	struct mark *mark;

	if (!c)
		return 0;
	if (prev->pid != c->pid)
		resync(c, prev, now);
	else if (prev->pid && c->switched_ns && bpf_core_field_exists(prev->sched_info.last_arrival))
		c->ahead_ns = c->switched_ns - prev->sched_info.last_arrival;
	close_interval(c, now);
	if (c->depth) {
		// A task that spins for a mutex may have to yield; any other state is an anomaly.
		if (top(c)->state != SPIN)
			note(c, SWITCHED_INSIDE);
		c->depth = 0;
	}
	if (!c->steal_address && config.steal_offset) {
		c->steal_address = (__u64)next->se.cfs_rq->rq + config.steal_offset;
		bpf_probe_read_kernel(&c->steal_ns, sizeof(c->steal_ns), (void *)c->steal_address);
	}
	if (c->base == WORK) {
		mark = bpf_task_storage_get(&marks, prev, 0, 0);
		if (mark)
			leaves(c, prev, mark, !next->pid, now);
	}
	mark = bpf_task_storage_get(&marks, next, 0, 0);
	if (mark)
		arrives(c, next, mark, now);
	give_to(c, next);
	c->switched_ns = now;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct mark *mark = bpf_task_storage_get(&marks, task, 0, 0);

	if (mark)
		mark->waking_ns = bpf_ktime_get_ns();
	return 0;
}

// The run queue's clock is updated when a task is enqueued, and not again for the switch that
// this requests (rq_clock_skip_update in kernel/sched/core.c): a task that wakes on an idle CPU
// is charged from here on.
SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct mark *mark = bpf_task_storage_get(&marks, task, 0, 0);

	if (mark) {
		mark->runnable_ns = bpf_ktime_get_ns();
		mark->woken_throttled = is_throttled(task);
	}
	return 0;
}

// A task that a marked task starts is marked too.
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct mark *mark;

	if (!bpf_task_storage_get(&marks, parent, 0, 0))
		return 0;
	mark = bpf_task_storage_get(&marks, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (mark)
		mark->runnable_ns = bpf_ktime_get_ns();
	return 0;
}

// Run by a task itself, through bpf(BPF_PROG_TEST_RUN): from now on it belongs to the workload.
// So does its CPU immediately, as the next switch may be long ahead.
SEC("raw_tp")
int mark_me(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *c;

	if (!bpf_task_storage_get(&marks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return 0;
	PROTECT();
	c = this_cpu();
	if (c) {
		close_interval(c, bpf_ktime_get_ns());
		give_to(c, task);
	}
	UNPROTECT();
	return 1;
}

struct count_context {
	__u64 sum;
	__u32 next;
	__u32 step;
};

static long count_operations(__u32 index, struct count_context *count)
{
	__u32 task = count->next;
	__u64 *line;

	count->next += count->step;
	line = bpf_map_lookup_elem(&operations, &task);
	// The count is in the middle of its line: see the worker's board.
	if (line)
		count->sum += *(volatile __u64 *)&line[8];
	return line ? 0 : 1;
}

// Run on each CPU in turn: closes the interval and copies the totals, with the operations of the
// tasks pinned to this CPU: task i, i + step, …
SEC("raw_tp")
int snapshot(__u64 *context)
{
	__u32 first = context[0], step = context[1];
	struct count_context count = { .next = first, .step = step };
	__u32 index = bpf_get_smp_processor_id();
	struct totals *copy;
	struct cpu *c = this_cpu();

	PROTECT();
	copy = bpf_map_lookup_elem(&snapshots, &index);
	if (c && copy) {
		if (step && first < config.tasks)
			bpf_loop((config.tasks - first + step - 1) / step, count_operations, &count, 0);
		__u64 now = bpf_ktime_get_ns();
		close_interval(c, now);
		own_interrupt(c, IRQ_CALL_ONE);
		c->idle_rest_ns = 0;
		c->totals.at_ns = now;
		c->totals.operations = count.sum;
		bpf_probe_read_kernel(copy, sizeof(*copy), &c->totals);
	}
	UNPROTECT();
	return 0;
}
