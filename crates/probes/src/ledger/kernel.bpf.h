// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The members of kernel structures that the programs read. The loader finds their offsets in the
// running kernel's own types (CO-RE), so nothing here fixes a layout.
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq;

struct cfs_rq {
	struct rq *rq;
	int throttle_count;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
	__u64 sum_exec_runtime;
};

struct sched_info {
	unsigned long long last_arrival;
};

struct pt_regs___x86 {
	unsigned long di;
	unsigned long orig_ax;
};

struct pt_regs___arm64 {
	__u64 orig_x0;
	int syscallno;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct mm_context {
	void *vdso;
};

struct mm_struct {
	struct mm_context context;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct thread_info {
	__u32 cpu;
};

struct task_struct {
	// Has the CPU since Linux 5.16 (x86-64), which was task->cpu before.
	struct thread_info thread_info;
	struct mm_struct *mm;
	int pid;
	int tgid;
	struct pid *thread_pid;
	struct task_struct *group_leader;
	unsigned int __state;
	int on_cpu;
	unsigned in_iowait : 1;
	unsigned in_memstall : 1;
	int nr_cpus_allowed;
	struct files_struct *files;
	char comm[16];
	struct sched_info sched_info;
	struct sched_entity se;
};

struct holder {
	long counter;
};

struct mutex {
	struct holder owner;
};

struct rw_semaphore {
	struct holder owner;
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

// include/trace/events/lock.h, include/linux/sched.h, include/uapi/linux/stat.h
enum {
	CONTENTION_SPIN = 1,
	CONTENTION_READ = 2,
	CONTENTION_WRITE = 4,
	CONTENTION_MUTEX = 32,
	TASK_DEAD = 0x80,
	FILE_TYPE = 0170000,
	SOCKET = 0140000,
	CHARACTER_DEVICE = 0020000,
	PIPE = 0010000
};

// kernel/locking/mutex.h and rwsem.c: the low bits of an owner are flags.
enum { OWNER_FLAGS = 7, OWNED_BY_READERS = 1 };

// Absent before Linux 6.2: then nothing says in which call the holder of a lock is.
extern struct task_struct *bpf_task_from_pid(int pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

// Absent before Linux 6.14: then an interrupt may come between the two halves of an update, and
// the look's record says so.
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;
