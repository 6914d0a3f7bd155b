// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Interrupts by vector, and softirqs by kind.
#pragma once

static __always_inline int entered(__u32 state)
{
	__u64 now = bpf_ktime_get_ns();
	struct cpu *c = this_cpu();

	if (!c)
		return 0;
	resync(c, bpf_get_current_task_btf(), now);
	close_interval(c, now);
	enter(c, state, 0, 0);
	return 0;
}

static __always_inline int left(__u32 state)
{
	__u64 now = bpf_ktime_get_ns();
	struct cpu *c = this_cpu();

	if (!c)
		return 0;
	close_interval(c, now);
	leave(c, state);
	return 0;
}

// Vectors run with interrupts off: no protection is needed.
#define VECTOR(name, state) \
	SEC("tp_btf/" #name "_entry") int BPF_PROG(name##_entry) { return entered(state); } \
	SEC("tp_btf/" #name "_exit") int BPF_PROG(name##_exit) { return left(state); }

VECTOR(local_timer, IRQ_TIMER)
VECTOR(reschedule, IRQ_RESCHEDULE)
VECTOR(call_function, IRQ_CALL_MANY)
VECTOR(call_function_single, IRQ_CALL_ONE)
VECTOR(irq_work, IRQ_WORK)
VECTOR(irq_handler, IRQ_DEVICE)
VECTOR(x86_platform_ipi, IRQ_OTHER)
VECTOR(thermal_apic, IRQ_OTHER)
VECTOR(error_apic, IRQ_OTHER)
VECTOR(spurious_apic, IRQ_OTHER)

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int kind)
{
	PROTECT();
	if (kind <= SOFTIRQ_LAST - SOFTIRQ_HIGH)
		entered(SOFTIRQ_HIGH + kind);
	UNPROTECT();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int kind)
{
	PROTECT();
	if (kind <= SOFTIRQ_LAST - SOFTIRQ_HIGH)
		left(SOFTIRQ_HIGH + kind);
	UNPROTECT();
	return 0;
}
