//! The arms of a comparison: the sides that it sets against each other.

use std::collections::BTreeSet;

use records::Opened;

/// One side of a comparison: a variant of a record, or a record without variants.
#[derive(Clone, Copy, Debug)]
pub struct Arm<'a> {
    /// The name that tables show.
    pub name: &'a str,
    /// The record that holds its runs.
    pub record: &'a Opened,
    /// The variant of that record; empty if the record has none.
    pub variant: &'a str,
}

/// The kernels of all arms, as far as they are known.
pub(super) fn kernels(arms: &[Arm]) -> BTreeSet<String> {
    let kernel = |arm: &Arm| {
        let host = &arm.record.record.host;
        let parts = [&host.kernel_release, &host.kernel_version, &host.kernel_command_line];
        parts[0].is_some().then(|| format!("{parts:?}"))
    };
    arms.iter().filter_map(kernel).collect()
}

/// Whether the runs of any arm were made in guests.
pub(super) fn in_guests(arms: &[Arm]) -> bool {
    arms.iter().any(|arm| arm.record.record.hypervisor.is_some())
}
