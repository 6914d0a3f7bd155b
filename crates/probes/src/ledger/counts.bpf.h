// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Counts of events while the workload has the CPU.
#pragma once

// As many as records::FUNCTIONS_MAX.
#define FUNCTIONS 16

// In the order of COUNTS in raw.rs.
enum count {
	FAULT_USER, FAULT_KERNEL,
	IPI_RESCHEDULE, IPI_CALL_ONE, IPI_CALL_MANY,
	// By reason, include/linux/mm_types.h: enum tlb_flush_reason.
	FLUSH_FIRST, FLUSH_LAST = FLUSH_FIRST + 5,
	PAGES_FIRST, PAGES_LAST = PAGES_FIRST + 5,
	MIGRATION, WAKE_UP,
	FILE_LOCK_POSIX, FILE_LOCK_FLOCK, LEASE,
	JOURNAL_START, JOURNAL_COMMIT, XFS_LOG_RESERVE, XFS_LOG_FORCE, BTRFS_COMMIT,
	// Functions that the user named, by their cookies.
	FUNCTION_FIRST, FUNCTION_LAST = FUNCTION_FIRST + FUNCTIONS - 1,
	COUNTED_LAST = FUNCTION_LAST
};

// Checks the task's own mark: after a missed switch the CPU's base is out of date. An atomic
// addition needs no protection from interrupts.
static __always_inline void count(__u32 what, __u64 times)
{
	struct cpu *c = this_cpu();

	if (c && bpf_task_storage_get(&marks, bpf_get_current_task_btf(), 0, 0))
		__sync_fetch_and_add(&c->totals.counts[what & (COUNTS - 1)], times);
}

#define COUNT(name, what) \
	SEC("tp_btf/" #name) int BPF_PROG(count_##name) { count(what, 1); return 0; }

COUNT(page_fault_user, FAULT_USER)
COUNT(page_fault_kernel, FAULT_KERNEL)
COUNT(ipi_send_cpumask, IPI_CALL_MANY)
COUNT(sched_waking, WAKE_UP)
COUNT(posix_lock_inode, FILE_LOCK_POSIX)
COUNT(flock_lock_inode, FILE_LOCK_FLOCK)
COUNT(generic_add_lease, LEASE)
COUNT(jbd2_handle_start, JOURNAL_START)
COUNT(jbd2_start_commit, JOURNAL_COMMIT)
COUNT(xfs_log_reserve, XFS_LOG_RESERVE)
COUNT(xfs_log_force, XFS_LOG_FORCE)
COUNT(btrfs_transaction_commit, BTRFS_COMMIT)

SEC("kprobe")
int count_function(struct pt_regs *registers)
{
	count(FUNCTION_FIRST + (bpf_get_attach_cookie(registers) & (FUNCTIONS - 1)), 1);
	return 0;
}

// System calls come only from tasks and never nest: a plain addition suffices.
SEC("tp_btf/sys_enter")
int BPF_PROG(count_sys_enter, struct pt_regs *registers, long id)
{
	struct cpu *c = this_cpu();

	if (c && bpf_task_storage_get(&marks, bpf_get_current_task_btf(), 0, 0))
		c->totals.calls[id & (CALLS - 1)]++;
	return 0;
}

// A reschedule IPI has no callback.
SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(count_ipi_send_cpu, unsigned int cpu, unsigned long caller, void *callback)
{
	count(callback ? IPI_CALL_ONE : IPI_RESCHEDULE, 1);
	return 0;
}

SEC("tp_btf/tlb_flush")
int BPF_PROG(count_tlb_flush, int reason, unsigned long pages)
{
	__u32 kind = (__u32)reason > 5 ? 5 : reason;

	count(FLUSH_FIRST + kind, 1);
	// -1 is a flush of all pages, not a number of pages.
	if (pages != -1UL)
		count(PAGES_FIRST + kind, pages);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(count_sched_migrate_task, struct task_struct *task, int cpu)
{
	struct cpu *c = this_cpu();

	if (c && bpf_task_storage_get(&marks, task, 0, 0))
		__sync_fetch_and_add(&c->totals.counts[MIGRATION], 1);
	return 0;
}
