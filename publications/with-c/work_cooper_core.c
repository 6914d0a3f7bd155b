/* 26 cores with a pool each; CPUs 26 to 51 are their second threads. */
#define POOLS 26
#define POOL(cpu) ((cpu) % 26)
#include "work_pools.h"
