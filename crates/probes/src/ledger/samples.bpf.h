// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What a CPU executes when its sampling clock fires: divides the time that events do not.
#pragma once

#define KERNEL_FRAMES 48
#define USER_FRAMES 16
// Words of the user stack that are searched for the caller of a vdso function.
#define STACK_WORDS 32
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
	// Of a sample in the vdso: the number of words of its callers' stack, at frames[USER_FRAMES].
	__u32 stack_words;
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

// The code of the vdso is at most this long: 2 pages on x86-64 and on arm64.
#define VDSO_BYTES 8192

// The vdso keeps frame pointers, the C library that calls it does not, so a chain lacks the function that
// called the library. Its return address is among the first words of the stack below the vdso's frame.
static __always_inline __u32 read_stack(struct sample *s, struct bpf_perf_event_data *context)
{
	struct mm_struct *mm = BPF_CORE_READ(bpf_get_current_task_btf(), mm);
	__u64 vdso, from = PT_REGS_SP(&context->regs), frame = PT_REGS_FP(&context->regs);

	if (!mm || !bpf_core_field_exists(mm->context.vdso))
		return 0;
	vdso = (__u64)BPF_CORE_READ(mm, context.vdso);
	if (s->frames[0] - vdso >= VDSO_BYTES)
		return 0;
	// What lies within the frame, which begins with the caller's pointer, is left from earlier calls.
	if (frame - from < STACK_WORDS * 8)
		from = frame + 8;
	if (bpf_probe_read_user(&s->frames[USER_FRAMES], STACK_WORDS * 8,
			(void *)from))
		return 0;
	return STACK_WORDS;
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
	s->stack_words = 0;
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
		if (s->mode == 1 && s->user_frames)
			s->stack_words = read_stack(s, context);
	} else {
		s->kernel_frames = 0;
		s->user_frames = 0;
		s->mode = 0;
		s->call = -1;
	}
	size = s->kernel_frames + s->user_frames;
	if (size > KERNEL_FRAMES + USER_FRAMES)
		size = KERNEL_FRAMES + USER_FRAMES;
	if (s->stack_words)
		size = USER_FRAMES + STACK_WORDS;
	size = offsetof(struct sample, frames) + size * 8;
	if (bpf_ringbuf_output(&samples, s, size & 1023, BPF_RB_NO_WAKEUP))
		note(c, SAMPLE_LOST);
	return 0;
}
