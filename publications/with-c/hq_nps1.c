/* The hierarchical queued spinlock where firmware makes 1 memory node of each socket: knee's nodes are core complexes, in turn of both
 * sockets, 12 of each. */
#define NODES 2
#define THIS_NODE (knee_node() % 2 * 1 + knee_node() / 2 / 12)
#include "hq_spinlock.h"
