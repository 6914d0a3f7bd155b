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
	__u64 key = c->reason ? c->reason : NO_TASK;
	__u32 slot = SLOT(c->totals.idle, REASONS, key, key);

	c->idle_slot = slot;
	c->idle_rest_ns = 0;
	c->totals.idle[slot].times++;
}

static __always_inline void give_to(struct cpu *c, struct task_struct *task)
{
	c->base = class_of(task);
	c->pid = task->pid;
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

// Why a task of the workload left its CPU.
static __always_inline __u32 reason_of(struct task_struct *task, struct mark *mark)
{
	long call;

	if (task->__state & TASK_DEAD)
		return ENDED;
	if (mark->lock)
		return LOCK_SLEEP;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return INPUT_OUTPUT;
	call = call_of(task);
	if (call < 0 || call > 1000)
		return NOT_IN_A_CALL;
	return FIRST_CALL + call;
}

// Idle time between the wake-up of a task and the switch to it is not part of what the task
// waited for. Moves it to another reason: the sum stays the same.
static __always_inline void move_waking(struct cpu *c, struct mark *mark, __u64 now)
{
	__u64 latency = now - mark->waking_ns;
	__u32 to;

	if (latency > c->idle_rest_ns)
		latency = c->idle_rest_ns;
	c->idle_rest_ns = 0;
	to = SLOT(c->totals.idle, REASONS, (__u64)WAKING, key);
	c->totals.idle[within(c->idle_slot, REASONS)].ns -= latency;
	c->totals.idle[to].ns += latency;
	c->totals.idle[to].times++;
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
		// A task that is still runnable waits for nothing: it goes on here or on another CPU.
		if (mark)
			c->reason = prev->__state ? reason_of(prev, mark) : NO_TASK;
	}
	mark = bpf_task_storage_get(&marks, next, 0, 0);
	if (mark && mark->waking_ns) {
		if (c->base == IDLE) {
			move_waking(c, mark, now);
			c->totals.woken_ns += now - mark->woken_ns;
		}
		mark->waking_ns = 0;
	}
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

	if (mark)
		mark->woken_ns = bpf_ktime_get_ns();
	return 0;
}

// A task that a marked task starts is marked too.
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	if (bpf_task_storage_get(&marks, parent, 0, 0))
		bpf_task_storage_get(&marks, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
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
