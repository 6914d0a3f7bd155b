//! The location of a KVM guest's per-CPU count of stolen time, in ns. Many kernels hide the
//! variable's symbol, but BTF has its offset in the per-CPU section, and the programs know the
//! address of another variable there, the run queue.

use libbpf_rs::btf::types::DataSec;
use libbpf_rs::btf::{Btf, BtfType};

/// The distance from a CPU's run queue to its count of stolen time, if the kernel has one.
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
