// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The members of kernel structures that the programs read. The loader finds their offsets in the
// running kernel's own types (CO-RE), so nothing here fixes a layout.
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq;

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long last_arrival;
};

struct pt_regs___x86 {
	unsigned long orig_ax;
};

struct pt_regs___arm64 {
	int syscallno;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int __state;
	unsigned in_iowait : 1;
	char comm[16];
	struct sched_info sched_info;
	struct sched_entity se;
};

struct kmem_cache_order_objects {
	unsigned int x;
};

struct kmem_cache {
	const char *name;
	unsigned int object_size;
	unsigned int size;
	struct kmem_cache_order_objects oo;
};

#pragma clang attribute pop

// include/trace/events/lock.h, include/linux/sched.h
enum {
	CONTENTION_SPIN = 1,
	TASK_DEAD = 0x80
};

// Absent before Linux 6.14: then an interrupt may come between the two halves of an update, and
// the look's record says so.
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;
