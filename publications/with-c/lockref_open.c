/* Without a pause. */
#include "lockref_open.h"
