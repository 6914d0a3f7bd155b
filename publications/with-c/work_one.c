/* All CPUs share a last-level cache, and so a pool. */
#define POOLS 1
#define POOL(cpu) 0
#include "work_pools.h"
