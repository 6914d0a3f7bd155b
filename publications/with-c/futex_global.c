/* The futex hash of Linux until 6.15: one for all processes, which nobody counts. */
#include "futex_bucket.h"
