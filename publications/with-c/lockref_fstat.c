/* Without a pause. */
#include "lockref_fstat.h"
