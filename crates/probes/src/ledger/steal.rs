//! Where a KVM guest finds how much of a CPU its host took, in ns: a per-CPU variable whose
//! symbol is hidden on many kernels, but not its offset within the per-CPU section (BTF). The
//! programs know the address of one variable there, the run queue.

use libbpf_rs::btf::types::DataSec;
use libbpf_rs::btf::{Btf, BtfType};

/// The distance from the run queue of a CPU to its count of stolen time; none where the kernel
/// has no such count.
pub fn offset(kernel: &Btf) -> Option<i64> {
    let section: DataSec = kernel.type_by_name(".data..percpu")?;
    let offset = |wanted: &str| {
        let variable = section.iter().find(|variable| {
            let named: Option<BtfType> = kernel.type_by_id(variable.ty);
            named.and_then(|named| named.name()).is_some_and(|name| name == wanted)
        })?;
        Some(i64::from(variable.offset))
    };
    Some(offset("steal_time")? - offset("runqueues")?)
}
