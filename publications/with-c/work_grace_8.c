/* 72 cores of one cache in shards of 8. */
#define POOLS 9
#define POOL(cpu) ((cpu) / 8)
#include "work_pools.h"
