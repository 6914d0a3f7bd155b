// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Waiting for kernel locks: spinning is a state of the CPU, sleeping is a wait of the task.
#pragma once

static __always_inline void begin_wait(struct cpu *c, __u64 lock, unsigned int flags, __u64 now)
{
	__u32 base = c->base & (BASES - 1);
	struct mark *mark;
	__u32 slot;

	if (flags & CONTENTION_SPIN) {
		slot = SLOT(c->totals.locks, LOCKS, lock, address);
		c->totals.locks[slot].spins[base]++;
		enter(c, SPIN, lock, slot);
		return;
	}
	// A task that stops spinning for a mutex and sleeps for it begins again without an end.
	if (c->depth && top(c)->state == SPIN && top(c)->lock == lock)
		c->depth--;
	mark = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), 0, 0);
	if (!mark)
		return;
	mark->lock = lock;
	mark->lock_since_ns = now;
}

static __always_inline void end_wait(struct cpu *c, __u64 lock, __u64 now)
{
	struct mark *mark;
	__u32 slot;

	if (c->depth && top(c)->state == SPIN && top(c)->lock == lock) {
		c->depth--;
		return;
	}
	mark = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), 0, 0);
	if (!mark || mark->lock != lock)
		return;
	slot = SLOT(c->totals.locks, LOCKS, lock, address);
	c->totals.locks[slot].sleeps++;
	c->totals.locks[slot].sleep_ns += now - mark->lock_since_ns;
	mark->lock = 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	struct cpu *c;

	PROTECT();
	c = this_cpu();
	if (c) {
		__u64 now = bpf_ktime_get_ns();

		close_interval(c, now);
		begin_wait(c, (__u64)lock, flags, now);
	}
	UNPROTECT();
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int result)
{
	struct cpu *c;

	PROTECT();
	c = this_cpu();
	if (c) {
		__u64 now = bpf_ktime_get_ns();

		close_interval(c, now);
		end_wait(c, (__u64)lock, now);
	}
	UNPROTECT();
	return 0;
}
