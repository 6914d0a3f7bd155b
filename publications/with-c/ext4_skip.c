/* With patch 1. */
#define SKIP
#include "ext4_blocks.h"
