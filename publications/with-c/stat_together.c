/* The name of a short file beside the count, until Linux 6.10. */
#include "stat_dentry.h"
