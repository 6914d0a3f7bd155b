// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";
