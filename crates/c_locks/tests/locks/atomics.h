/* Atomic accesses in functions of their own, as libraries have them. */
static inline int load_acquire(const int *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void store_release(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void *swap(void *word, void *value)
{
	return __atomic_exchange_n((void **)word, value, __ATOMIC_ACQ_REL);
}
