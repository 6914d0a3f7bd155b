//! The differences between two states of the host, and who caused them. Only a change that bears a
//! mark of knee's is attributed to knee: a name with the record's id, a value that it set, a
//! descendant process. Changes by others are reported only where they concern the runs.

use std::path::Path;

use records::HostChange;

use crate::host_state::{HostState, Marks, MountEntry};
use crate::ownership::DIRECTORY_PREFIX;

const CLEAN: &str = "once nothing uses it, knee doctor --clean undoes it";

/// The changes of the host, in the order in which they must be undone.
pub fn changes(before: &HostState, after: &HostState, marks: &Marks) -> Vec<HostChange> {
    let parts = [
        processes(before, after),
        mounts(before, after, marks),
        loops(before, after, marks),
        settings(before, after, marks),
        directories(after, marks),
        cpus(before, after),
    ];
    parts.concat()
}

fn by_knee(text: String, advice: impl Into<String>) -> HostChange {
    HostChange { text, advice: advice.into(), by_knee: true }
}

fn by_others(text: String) -> HostChange {
    let advice = "if it may have changed what was measured, run again".to_string();
    HostChange { text, advice, by_knee: false }
}

/// The advice for undoing a change: by the journal if it still exists; otherwise by hand, as a
/// command of the experiment caused it and knee does not know how to undo it.
fn undo_advice(after: &HostState, marks: &Marks, by_hand: String) -> String {
    if after.directories.contains(&marks.journal) { CLEAN.to_string() } else { by_hand }
}

fn processes(before: &HostState, after: &HostState) -> Vec<HostChange> {
    let new = after.processes.iter().filter(|(pid, _)| !before.processes.contains_key(pid));
    new.map(|(pid, name)| by_knee(format!("the process {name}"), format!("kill -9 {pid}")))
        .collect()
}

fn mounts(before: &HostState, after: &HostState, marks: &Marks) -> Vec<HostChange> {
    let added = surplus(&after.mounts, &before.mounts).into_iter().filter_map(|mount| {
        let what =
            format!("{} ({}) is mounted on {}", mount.source, mount.kind, mount.point.display());
        if marks.are_of(&mount.point) {
            let point = mount.point.display();
            return Some(by_knee(what, undo_advice(after, marks, format!("umount {point}"))));
        }
        marks.concern(&mount.point).then(|| by_others(what))
    });
    let removed = surplus(&before.mounts, &after.mounts).into_iter().filter_map(|mount| {
        let at = mount.point.display();
        let what = format!("{} ({}) is no longer mounted on {at}", mount.source, mount.kind);
        marks.concern(&mount.point).then(|| by_others(what))
    });
    added.chain(removed).collect()
}

/// The mounts of `some` that `others` lacks; equal mounts are counted.
fn surplus<'a>(some: &'a [MountEntry], others: &[MountEntry]) -> Vec<&'a MountEntry> {
    let mut others: Vec<&MountEntry> = others.iter().collect();
    let lacks = |mount: &&MountEntry| match others.iter().position(|other| other == mount) {
        Some(at) => {
            others.swap_remove(at);
            false
        }
        None => true,
    };
    some.iter().filter(lacks).collect()
}

fn loops(before: &HostState, after: &HostState, marks: &Marks) -> Vec<HostChange> {
    let changed =
        after.loops.iter().filter(|(device, file)| before.loops.get(*device) != Some(file));
    let changes = changed.filter_map(|(device, file)| {
        let what = format!("the loop device {} shows {}", device.display(), file.display());
        if marks.are_of(file) {
            let device = device.display();
            return Some(by_knee(what, undo_advice(after, marks, format!("losetup -d {device}"))));
        }
        marks.cover(file).then(|| by_others(what))
    });
    changes.collect()
}

fn settings(before: &HostState, after: &HostState, marks: &Marks) -> Vec<HostChange> {
    let changed = before.settings.iter().filter_map(|(path, was)| {
        let is = after.settings.get(path)?;
        (is != was).then_some((path, was, is))
    });
    let changes = changed.map(|(path, was, is)| {
        let at = path.display();
        let what = format!("{at} is '{is}', it was '{was}'");
        // Somebody else has set any value that knee did not set.
        if marks.given.contains(&(path.clone(), is.clone())) {
            by_knee(what, format!("echo '{was}' > {at}"))
        } else {
            by_others(what)
        }
    });
    changes.collect()
}

/// Directories of this record, and its journal. Their names contain the record's id, so none existed
/// before; the journal exists as long as something has to be undone.
fn directories(after: &HostState, marks: &Marks) -> Vec<HostChange> {
    let changes = after.directories.iter().map(|path| {
        let what = if *path == marks.journal { "journal" } else { "directory" };
        by_knee(format!("the {what} {}", path.display()), CLEAN)
    });
    changes.collect()
}

fn cpus(before: &HostState, after: &HostState) -> Vec<HostChange> {
    let (was, is) = (&before.cpus, &after.cpus);
    let what = || format!("knee may use the CPUs {is:?}; before, it could use {was:?}");
    (was != is).then(|| by_others(what())).into_iter().collect()
}

impl Marks {
    /// Whether a path lies in a directory of this knee's.
    fn are_of(&self, path: &Path) -> bool {
        path.components().any(|part| part.as_os_str() == self.directory.as_str())
    }

    /// Whether a mount point lies above or in a directory that was measured, and not in a directory
    /// of another knee's.
    fn concern(&self, point: &Path) -> bool {
        self.measured.iter().any(|dir| dir.starts_with(point)) || self.cover(point)
    }

    /// Whether a path lies in a directory that was measured, and not in a directory of another knee's.
    fn cover(&self, path: &Path) -> bool {
        let other = path
            .components()
            .any(|part| part.as_os_str().to_string_lossy().starts_with(DIRECTORY_PREFIX));
        !other && self.measured.iter().any(|dir| path.starts_with(dir))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn marks() -> Marks {
        Marks {
            directory: ".knee-7".to_string(),
            measured: vec![PathBuf::from("/mnt/a")],
            journal: PathBuf::from("/state/7.journal"),
            given: [(PathBuf::from("/proc/sys/vm/x"), "10".to_string())].into(),
        }
    }

    fn state() -> HostState {
        HostState {
            mounts: vec![mount("/", "/dev/vda", "ext4"), mount("/mnt/a", "/dev/vdb", "xfs")],
            loops: [(PathBuf::from("/dev/loop0"), PathBuf::from("/home/disk.img"))].into(),
            settings: [(PathBuf::from("/proc/sys/vm/x"), "60".to_string())].into(),
            directories: [PathBuf::from("/state/7.journal")].into(),
            processes: [(5, "5 (sh)".to_string())].into(),
            cpus: vec![0, 1],
        }
    }

    fn restored() -> HostState {
        HostState { directories: Default::default(), ..state() }
    }

    fn mount(point: &str, source: &str, kind: &str) -> MountEntry {
        MountEntry { point: point.into(), source: source.to_string(), kind: kind.to_string() }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut HostState), expected: expect_test::Expect) {
        let mut after = restored();
        change(&mut after);
        let changes = changes(&state(), &after, &marks());
        let lines: String = changes.iter().map(|change| format!("{change}\n")).collect();
        expected.assert_eq(&lines);
    }

    #[test]
    fn a_restored_host_has_no_changes() {
        check(|_| (), expect_test::expect![""]);
        check(|after| after.processes.clear(), expect_test::expect![""]);
    }

    #[test]
    fn changes_with_marks_of_knee_are_attributed_to_knee() {
        check(
            |after| {
                after.processes.insert(77, "77 (sleep)".to_string());
                after.mounts.push(mount("/mnt/a/.knee-7/mounted-0", "/dev/loop1", "ext4"));
                after.loops.insert("/dev/loop1".into(), "/mnt/a/.knee-7/image-0".into());
                after.settings.insert("/proc/sys/vm/x".into(), "10".to_string());
                after.directories = state().directories;
                after.directories.insert("/mnt/a/.knee-7".into());
            },
            expect_test::expect![[r#"
                left behind: the process 77 (sleep): kill -9 77
                left behind: /dev/loop1 (ext4) is mounted on /mnt/a/.knee-7/mounted-0: once nothing uses it, knee doctor --clean undoes it
                left behind: the loop device /dev/loop1 shows /mnt/a/.knee-7/image-0: once nothing uses it, knee doctor --clean undoes it
                left behind: /proc/sys/vm/x is '10', it was '60': echo '60' > /proc/sys/vm/x
                left behind: the directory /mnt/a/.knee-7: once nothing uses it, knee doctor --clean undoes it
                left behind: the journal /state/7.journal: once nothing uses it, knee doctor --clean undoes it
            "#]],
        );
    }

    #[test]
    fn changes_by_others_are_reported_only_where_they_concern_the_runs() {
        check(
            |after| {
                after.mounts.push(mount("/mnt/other", "/dev/sdc", "xfs"));
                after.mounts.push(mount("/mnt/a/.knee-8/mounted-0", "/dev/loop2", "ext4"));
                after.loops.insert("/dev/loop2".into(), "/mnt/a/.knee-8/image-0".into());
                after.loops.insert("/dev/loop3".into(), "/home/other.img".into());
                after.loops.remove(Path::new("/dev/loop0"));
            },
            expect_test::expect![""],
        );
        check(
            |after| {
                after.mounts.remove(1);
                after.mounts.push(mount("/mnt", "/dev/sdd", "ext4"));
                after.loops.insert("/dev/loop4".into(), "/mnt/a/theirs.img".into());
                after.settings.insert("/proc/sys/vm/x".into(), "33".to_string());
            },
            expect_test::expect![[r#"
                changed by another program, as far as knee can tell: /dev/sdd (ext4) is mounted on /mnt: if it may have changed what was measured, run again
                changed by another program, as far as knee can tell: /dev/vdb (xfs) is no longer mounted on /mnt/a: if it may have changed what was measured, run again
                changed by another program, as far as knee can tell: the loop device /dev/loop4 shows /mnt/a/theirs.img: if it may have changed what was measured, run again
                changed by another program, as far as knee can tell: /proc/sys/vm/x is '33', it was '60': if it may have changed what was measured, run again
            "#]],
        );
    }

    #[test]
    fn a_second_equal_mount_is_a_change() {
        check(
            |after| after.mounts.push(mount("/mnt/a", "/dev/vdb", "xfs")),
            expect_test::expect![[r#"
                changed by another program, as far as knee can tell: /dev/vdb (xfs) is mounted on /mnt/a: if it may have changed what was measured, run again
            "#]],
        );
        check(
            |after| after.cpus = vec![0],
            expect_test::expect![[r#"
                changed by another program, as far as knee can tell: knee may use the CPUs [0]; before, it could use [0, 1]: if it may have changed what was measured, run again
            "#]],
        );
    }
}
