/* Linux 6.16. */
#include "ext4_blocks.h"
