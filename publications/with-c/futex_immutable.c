/* The futex hash of a process that never changes its size: its users are not counted, or by CPU (Linux 6.16 with -I; 6.17). */
#define BACK
#include "futex_bucket.h"
