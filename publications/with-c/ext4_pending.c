/* With patches 1 to 8. */
#define SKIP
#define HINT
#define GOALS
#define PENDING
#include "ext4_blocks.h"
