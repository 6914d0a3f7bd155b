//! Cautions: combinations of workload and file system whose numbers are known to mislead. A
//! record that has one says so.

use records::{Directory, Point, Policy, Storage, Variant, Warning};

use crate::file_systems;

struct Caution {
    file_systems: &'static [&'static str],
    workloads: &'static [&'static str],
    text: &'static str,
    advice: &'static str,
}

/// Every caution.
const CAUTIONS: &[Caution] = &[Caution {
    // `recently_deleted` in fs/ext4/ialloc.c: the allocator walks over such inodes one by one.
    file_systems: &["ext2", "ext3", "ext4"],
    workloads: &["create_files", "unlink"],
    text: "ext4 steps over inodes that were deleted in the last minutes: creating files where \
           files were deleted shortly before can be 100 times slower",
    advice: "compare only runs in a random order, wait 5 minutes after deleting many files, or use \
             a fresh file system (--fs)",
}];

/// The cautions that apply to these points. What they warn of comes from earlier runs, which a
/// file system made for one run has not seen.
pub fn cautions(
    points: &[Point],
    directories: &[Directory],
    variants: &[Variant],
    storage: &Storage,
) -> Vec<Warning> {
    let applies = |caution: &&Caution| {
        points.iter().filter(|p| caution.workloads.contains(&p.workload.as_str())).any(|point| {
            let directory = directories.iter().find(|d| d.path == point.dir);
            let file_system = match file_systems::of_point(point, variants) {
                Some(_) if storage.policy == Policy::Fresh => None,
                Some(made) => Some(made.kind.as_str()),
                None => directory.and_then(|d| d.file_system.as_deref()),
            };
            file_system.is_some_and(|name| caution.file_systems.contains(&name))
        })
    };
    CAUTIONS.iter().filter(applies).map(|c| Warning::new(c.text, c.advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cautions_name_workloads_that_exist() {
        for name in CAUTIONS.iter().flat_map(|caution| caution.workloads) {
            crate::names::workload(name).unwrap();
        }
    }
}
