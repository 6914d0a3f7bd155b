// A bounded queue of one writer and one reader, and a test-and-set lock around its second writer, in C++.
// -DRELAXED: a slot is published by a relaxed store.
#include <atomic>
#include <cassert>
#include <knee_lock.h>

#ifdef RELAXED
constexpr auto publishes = std::memory_order_relaxed;
#else
constexpr auto publishes = std::memory_order_release;
#endif

namespace {

class Spin {
	std::atomic<bool> taken{false};

public:
	void lock()
	{
		while (taken.exchange(true, std::memory_order_acquire))
			;
	}
	void unlock() { taken.store(false, std::memory_order_release); }
};

template <typename T, unsigned Slots> struct Queue {
	T slots[Slots];
	std::atomic<unsigned> head{0}, tail{0};

	bool push(T item)
	{
		unsigned at = head.load(std::memory_order_relaxed);

		if (at - tail.load(std::memory_order_acquire) == Slots)
			return false;
		slots[at % Slots] = item;
		head.store(at + 1, publishes);
		return true;
	}

	bool pop(T &item)
	{
		unsigned at = tail.load(std::memory_order_relaxed);

		if (at == head.load(std::memory_order_acquire))
			return false;
		item = slots[at % Slots];
		tail.store(at + 1, std::memory_order_release);
		return true;
	}
};

struct Shared {
	Spin writers;
	Queue<int *, 2> queue;
};

int value;

void operate(Shared &shared)
{
	int *item = nullptr;

	if (knee_cpu() > 0) {
		shared.writers.lock();
		shared.queue.push(&value);
		shared.writers.unlock();
	} else if (shared.queue.pop(item)) {
		assert(item == &value);
	}
}

} // namespace

KNEE_OPERATION(Shared, operate(*shared))
