/* 72 cores of one cache in five shards of at most 16. */
#define POOLS 5
#define POOL(cpu) ((cpu) * 5 / 72)
#include "work_pools.h"
