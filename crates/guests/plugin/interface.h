/* What plugins need of QEMU's plugin interface, versions 1 (QEMU 4.2 to 8.1), 2 (to 9.0) and 3 or later; only insn_data differs
 * for us. It needs no header of QEMU and no library.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <stddef.h>
#include <stdint.h>

typedef uint64_t plugin_id;
struct qemu_info { const char *target; struct { int min, cur; } version; _Bool is_system; int smp, max; };
struct block;
struct instruction;

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = PLUGIN_API;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct block *));
size_t qemu_plugin_tb_n_insns(const struct block *);
uint64_t qemu_plugin_tb_vaddr(const struct block *);
struct instruction *qemu_plugin_tb_get_insn(const struct block *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct instruction *);
void *qemu_plugin_insn_haddr(const struct instruction *);
size_t qemu_plugin_insn_size(const struct instruction *);
#if PLUGIN_API < 3
const void *qemu_plugin_insn_data(const struct instruction *);
#else
size_t qemu_plugin_insn_data(const struct instruction *, void *, size_t);
#endif
void qemu_plugin_register_vcpu_mem_cb(struct instruction *, void (*)(unsigned, uint32_t, uint64_t, void *), int flags,
				      int which, void *);
void qemu_plugin_register_vcpu_tb_exec_cb(struct block *, void (*)(unsigned, void *), int flags, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct instruction *, void (*)(unsigned, void *), int flags, void *);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, void (*)(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t,
							     uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
void qemu_plugin_register_vcpu_syscall_ret_cb(plugin_id, void (*)(plugin_id, unsigned, int64_t, int64_t));
_Bool qemu_plugin_mem_is_store(uint32_t);
unsigned qemu_plugin_mem_size_shift(uint32_t);
void *qemu_plugin_get_hwaddr(uint32_t, uint64_t);
uint64_t qemu_plugin_hwaddr_phys_addr(const void *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
void qemu_plugin_reset(plugin_id, void (*)(plugin_id));
/* Since QEMU 7.1. */
__attribute__((weak)) const char *qemu_plugin_path_to_binary(void);
