/* The count on another line, since Linux 6.11. */
#define APART
#include "stat_dentry.h"
