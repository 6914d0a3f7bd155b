/* The futex hash of a process where the list, and with it the pointer back to the hash, is on a line of its own (proposed in June
 * 2026). */
#define BACK_APART
#include "futex_bucket.h"
