/* 11 caches of 8 cores of 2 threads, in shards of 4 cores. */
#define POOLS 22
#define POOL(cpu) ((cpu) % 88 / 4)
#include "work_pools.h"
