/* Words that are also parts of others, as a lock of the C library keeps its bytes beside its members. The assertion fails. */
#include <assert.h>
#include <stdatomic.h>
#include <knee_lock.h>

struct names {
	union {
		struct { atomic_int lock; int owner; } data;
		char bytes[24];
	} mutex;
	union {
		atomic_uint all;
		struct { unsigned char held, pending; unsigned short tail; } part;
	} packed;
	union {
		atomic_uint all;
		struct { unsigned int low : 3, high : 5; } bits;
	} flags;
};

static void use(struct names *names)
{
	atomic_exchange(&names->mutex.data.lock, 1);
	atomic_fetch_add(&names->packed.all, 0x20001);
	atomic_fetch_or(&names->flags.all, 0x11);
	assert(0);
}

KNEE_OPERATION(struct names, use(shared))
