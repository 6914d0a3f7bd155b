/* With patches 1 to 5. */
#define SKIP
#define HINT
#define GOALS
#include "ext4_blocks.h"
