/* A ring whose elements have BYTES bytes and are copied in every way that a compiler knows. With EARLY its head is raised before the
 * element is there; with EARLY_TAIL its tail before the element was read. */
#include <assert.h>
#include <emmintrin.h>
#include <knee_lock.h>
#include <stdatomic.h>
#include <string.h>

#ifdef WORDS
struct element { long parts[BYTES / 8]; };
#else
struct element { unsigned char parts[BYTES]; };
#endif
struct ring { atomic_uint head, tail; struct element slots[2]; };

static _Thread_local unsigned count;

#define MEMCPY 0
#define ASSIGNED 1
#define LOOP 2
#define MEMMOVE 3
#define BY_VALUE 4
#define VECTORS 5
#define HALVES 6
#define STRNCPY 7

static __attribute__((noinline)) struct element same(struct element element)
{
	return element;
}

static void copy(struct element *to, const struct element *from)
{
#if HOW == MEMCPY
	memcpy(to, from, sizeof *to);
#elif HOW == ASSIGNED
	*to = *from;
#elif HOW == LOOP
	for (unsigned i = 0; i < sizeof to->parts / sizeof *to->parts; i++)
		to->parts[i] = from->parts[i];
#elif HOW == MEMMOVE
	memmove(to, from, sizeof *to);
#elif HOW == BY_VALUE
	*to = same(*from);
#elif HOW == VECTORS
	unsigned done = 0;

	for (; done + 16 <= sizeof *to; done += 16)
		_mm_storeu_si128((__m128i *)((char *)to + done),
				 _mm_loadu_si128((const __m128i *)((const char *)from + done)));
	memcpy((char *)to + done, (const char *)from + done, sizeof *to - done);
#elif HOW == HALVES
	memcpy(to, from, sizeof *to / 2);
	__builtin_memcpy((char *)to + sizeof *to / 2, (const char *)from + sizeof *to / 2,
			 sizeof *to - sizeof *to / 2);
#elif HOW == STRNCPY
	strncpy((char *)to, (const char *)from, sizeof *to);
#endif
}

static void push(struct ring *ring)
{
	unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	struct element element;

	if (head - atomic_load_explicit(&ring->tail, memory_order_acquire) == 2)
		return;
	memset(&element, ++count, sizeof element);
#ifdef EARLY
	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
#endif
	copy(&ring->slots[head & 1], &element);
#ifndef EARLY
	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
#endif
}

static void pop(struct ring *ring)
{
	unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	struct element element, expected;

	if (tail == atomic_load_explicit(&ring->head, memory_order_acquire))
		return;
#ifdef EARLY_TAIL
	atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
#endif
	copy(&element, &ring->slots[tail & 1]);
#ifndef EARLY_TAIL
	atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
#endif
	memset(&expected, ++count, sizeof expected);
	assert(!memcmp(&element, &expected, sizeof element));
}

KNEE_OPERATION(struct ring, knee_cpu() ? pop(shared) : push(shared))
