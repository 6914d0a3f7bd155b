/* The hierarchical queued spinlock where firmware makes 2 memory nodes of each socket: knee's nodes are core complexes, in turn of both
 * sockets, 12 of each. */
#define NODES 4
#define THIS_NODE (knee_node() % 2 * 2 + knee_node() / 2 / 6)
#include "hq_spinlock.h"
