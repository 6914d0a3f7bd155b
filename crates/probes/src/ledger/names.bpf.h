// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Names of locks: the slab object that contains a lock, and stacks of tasks that wait for it.
// Stacks of tasks that send IPIs.
#pragma once

struct object {
	__u64 offset;
	__u32 size;
	__u32 found;
	char cache[32];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct object);
} object SEC(".maps");

extern struct kmem_cache *bpf_get_kmem_cache(__u64 address) __ksym __weak;

// Run by knee with an address: finds the slab object that contains it. A slab is aligned to its
// own size, and objects lie in it one after the other.
SEC("raw_tp")
int describe(__u64 *context)
{
	__u64 address = context[0];
	struct kmem_cache *cache;
	struct object *o;
	__u32 zero = 0, order, size;

	o = bpf_map_lookup_elem(&object, &zero);
	if (!o)
		return 0;
	o->found = 0;
	if (!bpf_get_kmem_cache)
		return 0;
	cache = bpf_get_kmem_cache(address);
	if (!cache)
		return 0;
	order = BPF_CORE_READ(cache, oo.x) >> 16;
	size = BPF_CORE_READ(cache, size);
	if (!size || order > 10)
		return 0;
	o->offset = (address & ((4096ULL << order) - 1)) % size;
	o->size = BPF_CORE_READ(cache, object_size);
	bpf_probe_read_kernel_str(o->cache, sizeof(o->cache), BPF_CORE_READ(cache, name));
	o->found = 1;
	return 1;
}

// Says whose task has a mutex, or an rwsem for writing. Other locks do not know.
static __always_inline void name_holder(struct sample *s, void *lock, unsigned int flags)
{
	struct task_struct *task, *trusted;
	__u64 owner = 0;

	s->holder = HOLDER_UNKNOWN;
	s->call = -1;
	if (flags & CONTENTION_MUTEX)
		owner = BPF_CORE_READ((struct mutex *)lock, owner.counter);
	else if (flags == CONTENTION_READ || flags == CONTENTION_WRITE)
		owner = BPF_CORE_READ((struct rw_semaphore *)lock, owner.counter);
	if (!(flags & CONTENTION_MUTEX) && (owner & OWNED_BY_READERS)) {
		s->holder = HOLDER_READERS;
		return;
	}
	task = (struct task_struct *)(owner & ~(__u64)OWNER_FLAGS);
	if (!task)
		return;
	s->holder = HOLDER_OTHER;
	BPF_CORE_READ_STR_INTO(&s->holder_name, task, comm);
	if (!bpf_task_from_pid)
		return;
	trusted = bpf_task_from_pid(BPF_CORE_READ(task, pid));
	if (!trusted)
		return;
	s->call = call_of(trusted);
	if (bpf_task_storage_get(&marks, trusted, 0, 0))
		s->holder = HOLDER_WORK;
	bpf_task_release(trusted);
}

// Sends one event in `stack_every` with its stack: taking a stack costs as much as the event
// itself, and delays tasks that are about to join the queue. `what` is the lock, or how an IPI is
// sent.
static __always_inline void send_stack(void *context, __u32 mode, __u64 what, unsigned int flags)
{
	__u32 zero = 0, size;
	struct sample *s;
	struct cpu *c;

	PROTECT();
	c = this_cpu();
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (c && s && c->base == WORK && config.stack_every &&
	    c->waits++ % config.stack_every == 0) {
		s->base = c->base;
		s->state = REST;
		s->mode = mode;
		s->lock = what;
		s->tgid = 0;
		if (mode == WAIT)
			name_holder(s, (void *)what, flags);
		s->user_frames = 0;
		s->kernel_frames = frames_of(bpf_get_stack(context, s->frames, KERNEL_FRAMES * 8, 0));
		size = s->kernel_frames;
		if (size > KERNEL_FRAMES)
			size = KERNEL_FRAMES;
		size = offsetof(struct sample, frames) + size * 8;
		if (bpf_ringbuf_output(&samples, s, size & 1023, BPF_RB_NO_WAKEUP))
			note(c, SAMPLE_LOST);
	}
	UNPROTECT();
}

// How long a task has a lock, known where another waits all the while. No event tells when a lock is released,
// nor when a task gets it without waiting:
//
//     one task      waits ----- has it ----------|
//     another          waits --------------------- has it ---
//                              |<----- ns ------>|
//
// The hand-over is a part of it, and so is a task that got the lock between the two without waiting.
struct held {
	__u64 since_ns;
	__u64 ns;
	__u64 times;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct held);
} held_locks SEC(".maps");

SEC("tp_btf/contention_begin")
int BPF_PROG(stack_contention_begin, void *lock, unsigned int flags)
{
	struct mark *mark = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), 0, 0);

	// Many readers have a lock at once. A task that spins for a mutex and then sleeps begins twice.
	if (mark && !(flags & CONTENTION_READ) && mark->lock != (__u64)lock) {
		mark->lock = (__u64)lock;
		mark->lock_since_ns = bpf_ktime_get_ns();
	}
	send_stack(ctx, WAIT, (__u64)lock, flags);
	return 0;
}

// Runs in the task that has the lock now, so no other CPU writes to the lock's entry.
SEC("tp_btf/contention_end")
int BPF_PROG(hand_over, void *lock, int result)
{
	struct mark *mark = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), 0, 0);
	__u64 key = (__u64)lock, now = bpf_ktime_get_ns();
	struct held *held = bpf_map_lookup_elem(&held_locks, &key);
	int waited = mark && mark->lock == key;

	if (waited)
		mark->lock = 0;
	if (result)
		return 0;
	if (!held) {
		struct held first = { .since_ns = now };

		bpf_map_update_elem(&held_locks, &key, &first, BPF_NOEXIST);
		return 0;
	}
	if (waited && mark->lock_since_ns < held->since_ns) {
		held->ns += now - held->since_ns;
		held->times++;
	}
	// What this program takes is not the lock's.
	held->since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(stack_ipi_send_cpu, unsigned int cpu, unsigned long caller, void *callback)
{
	send_stack(ctx, SEND, callback ? IPI_CALL_ONE : IPI_RESCHEDULE, 0);
	return 0;
}

SEC("tp_btf/ipi_send_cpumask")
int BPF_PROG(stack_ipi_send_cpumask)
{
	send_stack(ctx, SEND, IPI_CALL_MANY, 0);
	return 0;
}
