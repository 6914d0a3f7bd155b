/* 72 cores of one cache in shards of 2. */
#define POOLS 36
#define POOL(cpu) ((cpu) / 2)
#include "work_pools.h"
