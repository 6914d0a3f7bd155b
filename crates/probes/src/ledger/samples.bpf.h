// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What a CPU executes when its sampling clock fires: divides the time that events do not.
#pragma once

#define KERNEL_FRAMES 48
#define USER_FRAMES 16
#define AFTER_SYSTEM_CALL 2
// Not a clock sample but a wait for a lock.
#define WAIT 3
// Not a clock sample but an IPI that is sent.
#define SEND 4

// Of a wait: whose task has the lock. In the order of `Holder` in samples.rs.
enum holder_kind { HOLDER_UNKNOWN, HOLDER_READERS, HOLDER_WORK, HOLDER_OTHER };

// Read by `RawSample::read` in samples.rs.
struct sample {
	__u32 base;
	__u32 state;
	__u32 mode;
	__u32 kernel_frames;
	__u32 user_frames;
	__u32 tgid;
	__u64 lock;
	// The number of the system call that the task is in, or an invalid one. Of a wait: the task that has
	// the lock.
	__s64 call;
	// Of a wait: whose task has the lock.
	__u32 holder;
	__u32 unused;
	char holder_name[16];
	__u64 frames[KERNEL_FRAMES + USER_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} scratch SEC(".maps");

// A sample right after the system call instruction was due on the kernel's exit path, where
// interrupts are off.
static __always_inline int is_after_system_call(__u64 address)
{
#ifdef __TARGET_ARCH_x86
	unsigned char before[2] = {};

	if (bpf_probe_read_user(before, 2, (void *)(address - 2)))
		return 0;
	return before[0] == 0x0f && before[1] == 0x05;
#else
	return 0;
#endif
}

static __always_inline __u32 frames_of(long bytes)
{
	return bytes > 0 ? (__u32)bytes / 8 : 0;
}

SEC("perf_event")
int take_sample(struct bpf_perf_event_data *context)
{
	__u64 now = bpf_ktime_get_ns();
	struct cpu *c = this_cpu();
	struct sample *s;
	struct frame *f;
	__u32 zero = 0, size;

	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!c || !s)
		return 0;
	close_interval(c, now);
	// Below the timer interrupt's frame is the state that it interrupted.
	f = top(c);
	if (c->depth && f->state == IRQ_TIMER)
		f = &c->frame[(c->depth - 1) & (DEPTH - 1)];
	s->base = c->base;
	s->state = f->state;
	own_interrupt(c, IRQ_TIMER);
	if (s->base != IDLE) {
		s->tgid = bpf_get_current_pid_tgid() >> 32;
		s->kernel_frames = frames_of(bpf_get_stack(context, s->frames, KERNEL_FRAMES * 8, 0));
		if (s->kernel_frames > KERNEL_FRAMES)
			s->kernel_frames = KERNEL_FRAMES;
		s->user_frames = frames_of(bpf_get_stack(context, &s->frames[s->kernel_frames & 63],
			USER_FRAMES * 8, BPF_F_USER_STACK));
		s->mode = s->kernel_frames ? 0 : 1;
		// In user mode, the interrupt's registers are where those of a system call would be.
		s->call = s->kernel_frames ? call_of(bpf_get_current_task_btf()) : -1;
		if (s->mode && s->user_frames && is_after_system_call(s->frames[0]))
			s->mode = AFTER_SYSTEM_CALL;
	} else {
		s->kernel_frames = 0;
		s->user_frames = 0;
		s->mode = 0;
		s->call = -1;
	}
	size = s->kernel_frames + s->user_frames;
	if (size > KERNEL_FRAMES + USER_FRAMES)
		size = KERNEL_FRAMES + USER_FRAMES;
	size = offsetof(struct sample, frames) + size * 8;
	if (bpf_ringbuf_output(&samples, s, size & 1023, BPF_RB_NO_WAKEUP))
		note(c, SAMPLE_LOST);
	return 0;
}
