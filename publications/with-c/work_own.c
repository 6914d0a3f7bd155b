/* Each CPU has a pool. */
#define POOLS 256
#define POOL(cpu) (cpu)
#include "work_pools.h"
