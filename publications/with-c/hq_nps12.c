/* The hierarchical queued spinlock where firmware makes 12 memory nodes of each socket: knee's nodes are core complexes, in turn of both
 * sockets, 12 of each. */
#define NODES 24
#define THIS_NODE (knee_node() % 2 * 12 + knee_node() / 2 / 1)
#include "hq_spinlock.h"
