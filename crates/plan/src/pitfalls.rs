//! Pitfalls: combinations of workload and file system whose numbers are known to mislead. A
//! record that has one says so.

use records::{Directory, Point, Policy, Storage, Variant, Warning};

struct Pitfall {
    file_systems: &'static [&'static str],
    workloads: &'static [&'static str],
    text: &'static str,
    advice: &'static str,
}

const PITFALLS: &[Pitfall] = &[Pitfall {
    // `recently_deleted` in fs/ext4/ialloc.c: the allocator walks over such inodes one by one.
    file_systems: &["ext2", "ext3", "ext4"],
    workloads: &["create_files", "unlink"],
    text: "ext4 steps over inodes that were deleted in the last minutes: creating files where \
           files were deleted shortly before can be 100 times slower",
    advice: "compare only runs in a random order, wait 5 minutes after deleting many files, or use \
             a fresh file system (--fs)",
}];

/// Whether a workload's rate depends on what was removed from its file system before.
pub fn depends_on_history(workload: &str) -> bool {
    PITFALLS.iter().any(|pitfall| pitfall.workloads.contains(&workload))
}

/// The pitfalls that apply to these points. They are effects of earlier runs, so a file system that is
/// made fresh for each run has none.
pub fn warnings(
    points: &[Point],
    directories: &[Directory],
    variants: &[Variant],
    storage: &Storage,
) -> Vec<Warning> {
    let applies = |pitfall: &&Pitfall| {
        points.iter().filter(|p| pitfall.workloads.contains(&p.workload.as_str())).any(|point| {
            let directory = directories.iter().find(|d| d.path == point.dir);
            let file_system = match Variant::file_system_of(point, variants) {
                Some(_) if storage.policy == Policy::Fresh => None,
                Some(made) => Some(made.kind.as_str()),
                None => directory.and_then(|d| d.file_system.as_deref()),
            };
            file_system.is_some_and(|name| pitfall.file_systems.contains(&name))
        })
    };
    PITFALLS.iter().filter(applies).map(|c| Warning::new(c.text, c.advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitfalls_name_workloads_that_exist() {
        for name in PITFALLS.iter().flat_map(|pitfall| pitfall.workloads) {
            crate::names::workload(name).unwrap();
        }
    }
}
