/* The futex hash of a process without the pointer from a bucket back to it (June 2026). */
#include "futex_bucket.h"
