/* 72 cores of one cache in shards of 4. */
#define POOLS 18
#define POOL(cpu) ((cpu) / 4)
#include "work_pools.h"
