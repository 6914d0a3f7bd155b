/* With patches 1 to 4. */
#define SKIP
#define HINT
#include "ext4_blocks.h"
