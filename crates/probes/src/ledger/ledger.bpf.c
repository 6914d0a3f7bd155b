// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Accounts for every nanosecond of each CPU while a workload runs. The headers are its parts;
// README.md beside this file explains how to read the results.
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "kernel.bpf.h"
#include "state.bpf.h"
#include "scheduler.bpf.h"
#include "interrupts.bpf.h"
#include "contention.bpf.h"
#include "samples.bpf.h"
#include "counts.bpf.h"
#include "names.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
