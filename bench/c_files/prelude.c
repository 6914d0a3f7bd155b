#include <assert.h>
#include <string.h>

/* How atomics are written: of C11, the compiler's builtins, or the kernel's words. */
#if STYLE == C11
#include <knee_lock.h>
#include <stdatomic.h>
typedef atomic_uint word;
#define load(p) atomic_load_explicit(p, memory_order_relaxed)
#define load_acquire(p) atomic_load_explicit(p, memory_order_acquire)
#define store(p, v) atomic_store_explicit(p, v, memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit(p, v, memory_order_release)
#define swap(p, v) atomic_exchange_explicit(p, v, memory_order_relaxed)
#define swap_full(p, v) atomic_exchange(p, v)
#define add(p, v) atomic_fetch_add_explicit(p, v, memory_order_relaxed)
#define add_full(p, v) atomic_fetch_add(p, v)
#define replace(p, old, new) atomic_compare_exchange_strong_explicit(p, old, new, memory_order_relaxed, memory_order_relaxed)
#define replace_full(p, old, new) atomic_compare_exchange_strong(p, old, new)
#define fence() atomic_thread_fence(memory_order_seq_cst)
#elif STYLE == BUILTINS
#include <knee_lock.h>
typedef unsigned word;
#define load(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define swap(p, v) __atomic_exchange_n(p, v, __ATOMIC_RELAXED)
#define swap_full(p, v) __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define add(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define add_full(p, v) __sync_fetch_and_add(p, v)
#define replace(p, old, new) __atomic_compare_exchange_n(p, old, new, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define replace_full(p, old, new) __atomic_compare_exchange_n(p, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define fence() __sync_synchronize()
#else
#include <knee_kernel.h>
typedef unsigned word;
#define load(p) READ_ONCE(*(p))
#define load_acquire(p) smp_load_acquire(p)
#define store(p, v) WRITE_ONCE(*(p), v)
#define store_release(p, v) smp_store_release(p, v)
#define swap(p, v) xchg_relaxed(p, v)
#define swap_full(p, v) xchg(p, v)
#define add(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define add_full(p, v) __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST)
#define replace(p, old, new) __atomic_compare_exchange_n(p, old, new, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define replace_full(p, old, new) try_cmpxchg(p, old, new)
#define fence() smp_mb()
#endif

/* What is copied: BYTES bytes. */
#if SHAPE == WORDS
struct element { long parts[BYTES / 8]; };
#elif SHAPE == MIXED
struct element { char first, last; short second; int third; long parts[(BYTES - 8) / 8]; };
#else
struct element { unsigned char parts[BYTES]; };
#endif
#define PARTS (sizeof((struct element *)0)->parts / sizeof((struct element *)0)->parts[0])

static __attribute__((__noinline__)) struct element same(struct element element)
{
	return element;
}

static inline void copy_by(int how, struct element *to, const struct element *from)
{
	switch (how) {
	case MEMCPY:
		memcpy(to, from, sizeof *to);
		break;
	case ASSIGNMENT:
		*to = *from;
		break;
	case LOOP:
#if SHAPE == MIXED
		to->first = from->first;
		to->last = from->last;
		to->second = from->second;
		to->third = from->third;
#endif
		for (unsigned i = 0; i < PARTS; i++)
			to->parts[i] = from->parts[i];
		break;
	case BYTE_LOOP:
		for (unsigned i = 0; i < sizeof *to; i++)
			((char *)to)[i] = ((const char *)from)[i];
		break;
	case BY_VALUE:
		*to = same(*from);
		break;
	case MEMMOVE:
		memmove(to, from, sizeof *to);
		break;
	case HALVES:
		__builtin_memcpy(to, from, sizeof *to / 2);
		__builtin_memcpy((char *)to + sizeof *to / 2, (const char *)from + sizeof *to / 2, sizeof *to - sizeof *to / 2);
		break;
	case VECTORS: {
		typedef char vector __attribute__((vector_size(16), aligned(1), may_alias));
		unsigned done = 0;

		for (; done + 16 <= sizeof *to; done += 16)
			*(vector *)((char *)to + done) = *(const vector *)((const char *)from + done);
		for (; done < sizeof *to; done++)
			((char *)to)[done] = ((const char *)from)[done];
		break;
	}
	}
}
#define put(to, from) copy_by(PUT, to, from)
#define get(to, from) copy_by(GET, to, from)

/* Every byte of an element is its number. */
static inline void fill(struct element *element, unsigned number)
{
	memset(element, number & 0x7F, sizeof *element);
}

static inline int is(const struct element *element, unsigned number)
{
#if TEST == BY_MEMCMP
	struct element expected;

	memset(&expected, number & 0x7F, sizeof expected);
	return !memcmp(element, &expected, sizeof expected);
#elif TEST == BY_ENDS
	const char *bytes = (const char *)element;

	return bytes[0] == (char)(number & 0x7F) && bytes[sizeof *element - 1] == bytes[0];
#else
	for (unsigned i = 0; i < sizeof *element; i++)
		if (((const char *)element)[i] != (char)(number & 0x7F))
			return 0;
	return 1;
#endif
}

