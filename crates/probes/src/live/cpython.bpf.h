// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The Python functions that a thread is in. One C function of CPython runs many Python functions, and their frames lie on
// no C stack: they are read at the instant of the event, from the thread's state on:
//
//     thread state -> (C frame ->) current frame -> previous -> ... -> 0
//
// knee knows where the list of thread states of a process begins and where the members are: cpython/layout.rs.
#pragma once

// `PYTHON_FRAMES` of cpython/stacks.rs.
#define PYTHON_FRAMES 32
// New threads are put first in the list: those that knee found at first are known already.
#define NEW_PYTHON_THREADS 64
#define NO_C_FRAME 0xffff

// In the order of `Layout` in cpython/layout.rs.
struct python {
	// Where the address of the first thread state lies.
	__u64 threads;
	// Members of a thread state.
	__u16 next;
	__u16 native_id;
	__u16 frame;
	// Where the C frame that `frame` points to has the current frame; NO_C_FRAME if `frame` points to that itself.
	__u16 current;
	// Members of a frame.
	__u16 code;
	__u16 previous;
	// The byte that says that a C function began with this frame, what it is then, and whether such a frame has code.
	__u16 entry;
	__u8 is_entry;
	__u8 has_code;
};

// A thread by the number that it has in its own PID namespace, which is what CPython knows.
struct python_thread {
	__u32 process;
	__u32 native_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct python);
} pythons SEC(".maps");

// The addresses of thread states.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct python_thread);
	__type(value, __u64);
} python_threads SEC(".maps");

static __always_inline __u64 user_word(__u64 address)
{
	__u64 word = 0;

	return bpf_probe_read_user(&word, sizeof(word), (void *)address) ? 0 : word;
}

static __always_inline __u32 number_in_own_namespace(struct task_struct *task)
{
	struct pid *pid = task->thread_pid;
	__u32 level = BPF_CORE_READ(pid, level), number = 0;

	bpf_probe_read_kernel(&number, sizeof(number),
		(void *)pid + bpf_core_field_offset(struct pid, numbers) +
			level * bpf_core_type_size(struct upid) + bpf_core_field_offset(struct upid, nr));
	return number;
}

// The state of the current thread, 0 if it has none. What is known may be of a program that has called exec since.
static __always_inline __u64 python_thread_state(const struct python *python, struct python_thread *key)
{
	__u64 *known = bpf_map_lookup_elem(&python_threads, key), state;

	if (known && user_word(*known + python->native_id) == key->native_id)
		return *known;
	state = user_word(python->threads);
	for (int i = 0; i < NEW_PYTHON_THREADS && state; i++) {
		if (user_word(state + python->native_id) == key->native_id) {
			bpf_map_update_elem(&python_threads, key, &state, BPF_ANY);
			return state;
		}
		state = user_word(state + python->next);
	}
	return 0;
}

// Writes a word for each frame, innermost first: the address of its code, and 1 more where a C function began with it;
// 1 alone for a frame that only marks such a beginning. Returns how many.
static __noinline __u32 read_python(__u64 *words, __u32 process)
{
	struct python *python = bpf_map_lookup_elem(&pythons, &process);
	struct python_thread key = { .process = process };
	__u64 frame, word;
	__u32 frames = 0;
	__u8 entry;

	if (!python || !words)
		return 0;
	key.native_id = number_in_own_namespace(bpf_get_current_task_btf());
	frame = python_thread_state(python, &key);
	if (!frame)
		return 0;
	frame = user_word(frame + python->frame);
	if (frame && python->current != NO_C_FRAME)
		frame = user_word(frame + python->current);
	for (int i = 0; i < PYTHON_FRAMES && frame; i++) {
		entry = 0;
		bpf_probe_read_user(&entry, 1, (void *)(frame + python->entry));
		if (entry != python->is_entry)
			word = user_word(frame + python->code) & ~1ULL;
		else
			word = (python->has_code ? user_word(frame + python->code) : 0) | 1;
		words[i] = word;
		frames = i + 1;
		frame = user_word(frame + python->previous);
	}
	return frames;
}

// A child has what its parent has, at the same addresses, until it calls exec.
static __always_inline void inherit_python(__u32 parent, __u32 child)
{
	struct python *python = parent == child ? NULL : bpf_map_lookup_elem(&pythons, &parent);

	if (python)
		bpf_map_update_elem(&pythons, &child, python, BPF_ANY);
}
