// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Lengthens the time for which kernel locks are held: a task of the workload that has got a lock of one kind, and
// had to wait for it, waits for a given time more before it goes on.
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pid;

// include/linux/sched/signal.h
struct signal_struct {
	struct pid *pids[4];
};

struct task_struct {
	struct signal_struct *signal;
};

#pragma clang attribute pop

// include/linux/pid.h: the entry of pids that is the process group.
enum { PROCESS_GROUP = 2 };

// Reads of the clock in one delay, at most: some 20 ns each, and a delay is 100 us at most.
enum { READS_MAX = 1 << 16 };

// Filled by delay.rs.
const volatile struct {
	__u64 delay_ns;
	// Flags of the tracepoint that tell the kind of a lock, and what they are for ours.
	__u32 mask;
	__u32 flags;
} config;

struct {
	// `Delayed` of mod.rs.
	__u64 times;
	__u64 ns;
	// The process group of the worker and its tasks.
	struct pid *group;
} state;

// The lock of our kind that a task waits for.
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} waits SEC(".maps");

static __always_inline struct pid *group_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, signal, pids[PROCESS_GROUP]);
}

// Run by the worker: the caller's process group is ours.
SEC("syscall")
int remember(void *context)
{
	state.group = group_of(bpf_get_current_task_btf());
	return state.group != 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(delay_begin, void *lock, unsigned int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 *wait;

	if ((flags & config.mask) != config.flags || group_of(task) != state.group)
		return 0;
	wait = bpf_task_storage_get(&waits, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (wait)
		*wait = (__u64)lock;
	return 0;
}

static long is_over(__u32 turn, __u64 *end_ns)
{
	return bpf_ktime_get_ns() >= *end_ns;
}

SEC("tp_btf/contention_end")
int BPF_PROG(delay_end, void *lock, int result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 *wait, since_ns, end_ns;

	if (group_of(task) != state.group)
		return 0;
	wait = bpf_task_storage_get(&waits, task, 0, 0);
	if (!wait || *wait != (__u64)lock)
		return 0;
	*wait = 0;
	if (result)
		return 0;
	since_ns = bpf_ktime_get_ns();
	end_ns = since_ns + config.delay_ns;
	if (config.delay_ns)
		bpf_loop(READS_MAX, is_over, &end_ns, 0);
	__sync_fetch_and_add(&state.times, 1);
	__sync_fetch_and_add(&state.ns, bpf_ktime_get_ns() - since_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
