/* The futex hash of a process, whose users are counted in one word (the series of April 2025). */
#define REFERENCES
#define BACK
#include "futex_bucket.h"
