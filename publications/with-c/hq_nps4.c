/* The hierarchical queued spinlock where firmware makes 4 memory nodes of each socket: knee's nodes are core complexes, in turn of both
 * sockets, 12 of each. */
#define NODES 8
#define THIS_NODE (knee_node() % 2 * 4 + knee_node() / 2 / 3)
#include "hq_spinlock.h"
