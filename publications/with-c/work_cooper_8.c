/* 52 CPUs of one cache in seven shards of at most 8 CPUs, by their numbers. */
#define POOLS 7
#define POOL(cpu) ((cpu) * 7 / 52)
#include "work_pools.h"
