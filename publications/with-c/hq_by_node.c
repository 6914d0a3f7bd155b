/* The hierarchical queued spinlock where each of knee's nodes is a memory node, of 8 at most. */
#define NODES 8
#define THIS_NODE (knee_node() % NODES)
#include "hq_spinlock.h"
