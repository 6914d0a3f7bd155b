/* With patches 1 to 9; those after it concern mounts with mb_optimize_scan. */
#define SKIP
#define HINT
#define GOALS
#define PENDING
#define MERGE
#include "ext4_blocks.h"
