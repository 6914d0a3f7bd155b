/* With a pause after a failure, until Linux 6.2. */
#define PAUSE
#include "lockref_open.h"
