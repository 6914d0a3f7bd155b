/* 11 caches of 8 cores of 2 threads, in shards of 2 cores. */
#define POOLS 44
#define POOL(cpu) ((cpu) % 88 / 2)
#include "work_pools.h"
