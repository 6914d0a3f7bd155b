/* 11 caches of 8 cores of 2 threads, in shards of 8 cores. */
#define POOLS 11
#define POOL(cpu) ((cpu) % 88 / 8)
#include "work_pools.h"
