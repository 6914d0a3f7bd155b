//! Refuses, before anything is changed, experiments that make no sense and hosts that cannot make
//! their file systems; each error says what to do.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::paths::user;
use records::{Experiment, FileSystem, Policy, Record, Storage, Warning, parse};

use crate::file_systems::kinds::{Tools, kind};
use crate::file_systems::{block_device, loop_device, mount, wanted};

/// Free space that is left to other programs of the host.
const LEAST_FREE_BYTES: u64 = 512 << 20;

/// Refuses file systems that no host could make.
pub fn check_experiment(experiment: &Experiment) -> Result<()> {
    let storage = &experiment.storage;
    parse::bytes(&storage.size.0).context("size of the file systems")?;
    let on = storage.on.as_str();
    ensure!(
        ["loop", "ram"].contains(&on) || on.starts_with("/dev/"),
        "file systems can be made on loop, on ram, or on a device such as /dev/vdb, not on '{on}'"
    );
    for variant in &experiment.variants {
        let Some(made) = &variant.file_system else { continue };
        let of_variant = || format!("file system of variant '{}'", variant.name);
        check_file_system(made).with_context(of_variant)?;
        if storage.policy == Policy::Aged {
            check_aged(made, storage).with_context(of_variant)?;
        }
    }
    Ok(())
}

/// Refuses a file system that cannot be aged.
fn check_aged(made: &FileSystem, storage: &Storage) -> Result<()> {
    storage.age.check()?;
    ensure!(
        kind(&made.kind)?.tools.is_some(),
        "{} lies in memory, where files do not fragment the free space: leave it out, or use the \
         policy fresh",
        made.kind
    );
    ensure!(
        !storage.on.starts_with("/dev/"),
        "an aged file system is copied for every run, and each copy would overwrite all of {}: \
         use loop or ram, or the policy fresh",
        storage.on
    );
    Ok(())
}

/// Refuses a file system of an unknown kind, or with options that knee cannot use.
pub fn check_file_system(made: &FileSystem) -> Result<()> {
    let kind = kind(&made.kind)?;
    ensure!(
        kind.tools.is_some() || made.mkfs.is_empty(),
        "no program makes {}: leave mkfs out, and use mount options",
        kind.name
    );
    parse::words(&made.mkfs).context("arguments of mkfs")?;
    mount::check(&made.mount)
}

/// Refuses users who may not mount.
pub fn check_root() -> Result<()> {
    ensure!(user() == 0, "only root may make and mount file systems: use sudo");
    Ok(())
}

/// Refuses what this host cannot do or the user has not allowed; adds warnings for what may fail.
///
/// `image_directories` get copies of the experiment's image, if it has one.
pub fn check(record: &mut Record, image_directories: &[PathBuf], owns_device: bool) -> Result<()> {
    check_image(record, image_directories)?;
    let wanted = wanted(record);
    if wanted.is_empty() {
        return Ok(());
    }
    check_root()?;
    let tools: Vec<&Tools> = wanted
        .iter()
        .map(|(_, made)| Ok(kind(&made.kind)?.tools.as_ref()))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    tools.iter().try_for_each(|tools| check_programs(tools))?;
    let in_memory = tools.len() < wanted.len();
    let on_device = !tools.is_empty();
    let storage = &record.experiment.storage;
    let bytes = parse::bytes(&storage.size.0)?;
    let mut warnings = Vec::new();
    match storage.on.as_str() {
        "loop" | "ram" if on_device => {
            check_loop_driver()?;
            // Aged images lie there, even if their copies lie in memory.
            if storage.on == "loop" || storage.policy == Policy::Aged {
                for (dir, _) in &wanted {
                    warnings.extend(check_room(&room_in(dir), bytes)?);
                }
            }
        }
        path if on_device => {
            check_device(Path::new(path), storage.policy, tools.len(), owns_device)?
        }
        _ => (),
    }
    if in_memory || storage.on == "ram" {
        warnings.extend(check_room(&room_in_memory()?, bytes)?);
    }
    warnings.dedup();
    record.warnings.extend(warnings);
    Ok(())
}

fn check_programs(tools: &Tools) -> Result<()> {
    let programs = [Some(tools.make), Some(tools.check), tools.describe];
    programs.into_iter().flatten().try_for_each(|program| program.find().map(drop))
}

/// Refuses an image that this host cannot make; warns if there may be too little room for it.
fn check_image(record: &mut Record, directories: &[PathBuf]) -> Result<()> {
    let Some(image) = &record.experiment.image else { return Ok(()) };
    check_root()?;
    kind(&image.file_system.kind)?.tools.iter().try_for_each(check_programs)?;
    check_loop_driver()?;
    // The image and a copy.
    let bytes = 2 * parse::bytes(&image.size.0)?;
    let mut warnings = Vec::new();
    for dir in directories {
        let room = room_in(dir);
        check_room(&room, 0)?;
        let text = format!(
            "a filled image and its copy need more than the {} MiB free in {}",
            room.bytes >> 20,
            room.place
        );
        let advice = "make it smaller (size in [image]), or choose another --dir";
        warnings.extend((bytes > room.bytes).then(|| Warning::new(text, advice)));
    }
    record.warnings.extend(warnings);
    Ok(())
}

fn check_loop_driver() -> Result<()> {
    let control = loop_device::CONTROL;
    match loop_device::open_control() {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => bail!(
            "this host has no loop driver ({control} is missing): modprobe loop, or use --on \
             /dev/NAME"
        ),
        Err(e) => Err(e).with_context(|| {
            format!(
                "opening {control}, which allocates loop devices (a container may lack the \
                 permission): run on the host itself, or compare file systems that need none \
                 (--fs tmpfs)"
            )
        }),
    }
}

fn check_device(path: &Path, policy: Policy, wanted: usize, owned: bool) -> Result<()> {
    let name = path.display();
    ensure!(
        owned,
        "all data on {name} would be lost: if you do not need it, add --i-own-this-device"
    );
    ensure!(
        policy != Policy::Kept || wanted == 1,
        "{name} has room for one kept file system at a time, not for {wanted}: use the policy \
         fresh, or loop"
    );
    block_device::check(path)
}

/// Free space for images, in a directory or in memory.
struct FreeSpace {
    place: String,
    bytes: u64,
}

fn room_in(dir: &Path) -> FreeSpace {
    let bytes = host::mounts::space(dir).map_or(0, |space| space.bytes_free);
    FreeSpace { place: dir.display().to_string(), bytes }
}

fn room_in_memory() -> Result<FreeSpace> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let Some(kib) = kib else { bail!("/proc/meminfo has no MemAvailable line") };
    Ok(FreeSpace { place: "memory".to_string(), bytes: kib << 10 })
}

/// Refuses a place that is nearly full; warns of one that a filled file system would fill.
fn check_room(room: &FreeSpace, bytes: u64) -> Result<Option<Warning>> {
    let FreeSpace { place, bytes: free } = room;
    let mib = |bytes: u64| bytes >> 20;
    ensure!(
        *free >= LEAST_FREE_BYTES,
        "{place} has only {} MiB free, and knee leaves at least {} to other programs: make room, or \
         choose another --dir",
        mib(*free),
        mib(LEAST_FREE_BYTES)
    );
    let text = format!(
        "a filled file system of {} MiB needs more than the {} MiB free in {place}: a run that \
         fills it fails, and other programs of this host may fail too",
        mib(bytes),
        mib(*free)
    );
    Ok((bytes > *free).then(|| Warning::new(text, "make the file systems smaller (--size)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_toml(toml: &str, expected: expect_test::Expect) {
        let toml = format!("{toml}\n[[load]]\nworkload = 'getppid'");
        let checked = Experiment::read(&toml).and_then(|experiment| check_experiment(&experiment));
        expected
            .assert_eq(&checked.map_or_else(|error| format!("{error:#}"), |()| "accepted".into()));
    }

    #[test]
    fn impossible_file_systems_are_refused() {
        check_toml("[storage]\non = 'ram'\nsize = '1G'", expect_test::expect!["accepted"]);
        check_toml(
            "[storage]\non = 'brd'",
            expect_test::expect![
                "file systems can be made on loop, on ram, or on a device such as /dev/vdb, not on 'brd'"
            ],
        );
        check_toml(
            "[storage]\nsize = 8",
            expect_test::expect![
                "size of the file systems: '8' is not a valid size: must be between 1M and 1024T, such as 8G"
            ],
        );
        check_toml(
            "[storage]\npolicy = 'old'",
            expect_test::expect![[r#"
                reading the experiment: TOML parse error at line 2, column 10
                  |
                2 | policy = 'old'
                  |          ^^^^^
                unknown variant `old`, expected one of `fresh`, `kept`, `aged`
            "#]],
        );
        check_toml(
            "[storage]\npolicy = 'aged'\nage = { filled = 0.99 }\n\
             [[variant]]\nname = 'a'\nfile_system = { kind = 'xfs' }",
            expect_test::expect![
                "file system of variant 'a': file systems can be filled to between 1 % and 90 % for ageing, not to 99.0 %"
            ],
        );
        check_toml(
            "[storage]\npolicy = 'aged'\n[[variant]]\nname = 'a'\nfile_system = { kind = 'tmpfs' }",
            expect_test::expect![
                "file system of variant 'a': tmpfs lies in memory, where files do not fragment the free space: leave it out, or use the policy fresh"
            ],
        );
        check_toml(
            "[storage]\non = '/dev/vdz'\npolicy = 'aged'\n\
             [[variant]]\nname = 'a'\nfile_system = { kind = 'xfs' }",
            expect_test::expect![
                "file system of variant 'a': an aged file system is copied for every run, and each copy would overwrite all of /dev/vdz: use loop or ram, or the policy fresh"
            ],
        );
        check_toml(
            "[[variant]]\nname = 'a'\nfile_system = { kind = 'xfs', mkfs = \"-L 'a\" }",
            expect_test::expect![
                "file system of variant 'a': arguments of mkfs: '-L 'a' has an unclosed quote or ends with a backslash"
            ],
        );
        check_toml(
            "[[variant]]\nname = 'a'\nfile_system = { kind = 'xsf' }",
            expect_test::expect![
                r#"file system of variant 'a': no kind of file system that knee can make is called "xsf"; did you mean "xfs"? There are btrfs, ext2, ext3, ext4, tmpfs and xfs"#
            ],
        );
        check_toml(
            "[[variant]]\nname = 'a'\nfile_system = { kind = 'tmpfs', mkfs = '-q' }",
            expect_test::expect![
                "file system of variant 'a': no program makes tmpfs: leave mkfs out, and use mount options"
            ],
        );
        check_toml(
            "[[variant]]\nname = 'a'\nfile_system = { kind = 'xfs', mount = 'ro' }",
            expect_test::expect![
                "file system of variant 'a': knee cannot measure with the mount option 'ro': leave it out"
            ],
        );
        check_toml(
            "[[variant]]\nname = 'a'\nfile_system = { kind = 'xfs', mnt = 'noatime' }",
            expect_test::expect![
                "reading the experiment: unknown key `variant.0.file_system.?.mnt`"
            ],
        );
    }

    #[test]
    fn a_nearly_full_place_is_refused_and_a_small_one_gets_a_warning() {
        let room = |mib: u64| FreeSpace { place: "/x".to_string(), bytes: mib << 20 };
        let error = check_room(&room(511), 1 << 30).unwrap_err().to_string();
        assert!(error.starts_with("/x has only 511 MiB free"), "{error}");
        assert_eq!(check_room(&room(1024), 1 << 30).unwrap(), None);
        let warning = check_room(&room(1023), 1 << 30).unwrap().unwrap();
        assert!(warning.text.contains("1024 MiB") && warning.text.contains("1023 MiB"));
    }
}
