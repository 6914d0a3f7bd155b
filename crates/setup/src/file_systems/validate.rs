//! What is refused before anything is touched: what no file system can be made of, and hosts that
//! cannot make it, each with what to do about it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use records::{Experiment, FileSystem, Policy, Record, Storage, Warning, parse};

use crate::file_systems::kinds::{Tools, kind};
use crate::file_systems::{block_device, loop_device, mount, wanted};

/// With less, other programs of the host would run out of room.
const LEAST_FREE_BYTES: u64 = 512 << 20;

/// Refuses what cannot be meant, whatever the host.
pub fn check_words(experiment: &Experiment) -> Result<()> {
    let storage = &experiment.storage;
    parse::bytes(&storage.size.0).context("size of the file systems")?;
    let on = storage.on.as_str();
    ensure!(
        ["loop", "ram"].contains(&on) || on.starts_with("/dev/"),
        "file systems lie on loop, on ram, or on a device such as /dev/vdb; '{on}' is none"
    );
    for variant in &experiment.variants {
        let Some(made) = &variant.file_system else { continue };
        let of = || format!("file system of variant '{}'", variant.name);
        check_made(made).with_context(of)?;
        if storage.policy == Policy::Aged {
            check_aged(made, storage).with_context(of)?;
        }
    }
    Ok(())
}

/// Refuses what cannot be aged.
fn check_aged(made: &FileSystem, storage: &Storage) -> Result<()> {
    storage.age.check()?;
    ensure!(
        kind(&made.kind)?.tools.is_some(),
        "{} lies in memory, where files do not scatter the space that is free: leave it out, or \
         use the policy fresh",
        made.kind
    );
    ensure!(
        !storage.on.starts_with("/dev/"),
        "an aged file system is copied for every run, {} would be written whole each time: use \
         loop or ram, or the policy fresh",
        storage.on
    );
    Ok(())
}

pub fn check_made(made: &FileSystem) -> Result<()> {
    let kind = kind(&made.kind)?;
    ensure!(
        kind.tools.is_some() || made.mkfs.is_empty(),
        "{} is not made by a program: leave mkfs out, give mount options",
        kind.name
    );
    parse::words(&made.mkfs).context("arguments of mkfs")?;
    mount::check(&made.mount)
}

/// Refuses users who may not mount.
pub fn check_root() -> Result<()> {
    // SAFETY: no preconditions.
    ensure!(unsafe { libc::geteuid() } == 0, "only root may make and mount file systems: use sudo");
    Ok(())
}

/// Refuses what this host cannot do or the user has not allowed; doubts become warnings.
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
    let mut doubts = Vec::new();
    match storage.on.as_str() {
        "loop" | "ram" if on_device => {
            check_loop_driver()?;
            // What runs get copies of lies there, whatever these lie on.
            if storage.on == "loop" || storage.policy == Policy::Aged {
                for (dir, _) in &wanted {
                    doubts.extend(check_room(&room_in(dir), bytes)?);
                }
            }
        }
        path if on_device => {
            check_device(Path::new(path), storage.policy, tools.len(), owns_device)?
        }
        _ => (),
    }
    if in_memory || storage.on == "ram" {
        doubts.extend(check_room(&room_in_memory()?, bytes)?);
    }
    doubts.dedup();
    record.warnings.extend(doubts);
    Ok(())
}

fn check_programs(tools: &Tools) -> Result<()> {
    let programs = [Some(tools.make), Some(tools.check), tools.describe];
    programs.into_iter().flatten().try_for_each(|program| program.find().map(drop))
}

/// Refuses an image that this host cannot make; with too little room for it, warns.
fn check_image(record: &mut Record, directories: &[PathBuf]) -> Result<()> {
    let Some(image) = &record.experiment.image else { return Ok(()) };
    check_root()?;
    kind(&image.file_system.kind)?.tools.iter().try_for_each(check_programs)?;
    check_loop_driver()?;
    // There is a copy beside it.
    let bytes = 2 * parse::bytes(&image.size.0)?;
    let mut doubts = Vec::new();
    for dir in directories {
        let room = room_in(dir);
        check_room(&room, 0)?;
        let text = format!(
            "an image that is filled needs, with its copy, more than the {} MiB free in {}",
            room.free >> 20,
            room.place
        );
        let advice = "make it smaller (size in [image]), or choose another --dir";
        doubts.extend((bytes > room.free).then(|| Warning::new(text, advice)));
    }
    record.warnings.extend(doubts);
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
                "opening {control}, which hands out loop devices (a container may lack the right \
                 to): run on the host itself, or compare what needs none (--fs tmpfs)"
            )
        }),
    }
}

fn check_device(path: &Path, policy: Policy, wanted: usize, owned: bool) -> Result<()> {
    let name = path.display();
    ensure!(
        owned,
        "all that is on {name} would be lost: if it is yours to lose, add --i-own-this-device"
    );
    ensure!(
        policy != Policy::Kept || wanted == 1,
        "{name} has room for one kept file system at a time, {wanted} are wanted: use the policy \
         fresh, or loop"
    );
    block_device::check(path)
}

/// Room for images, and where it is.
struct Room {
    place: String,
    free: u64,
}

fn room_in(dir: &Path) -> Room {
    let free = probes::directory(dir).bytes_free.unwrap_or(0);
    Room { place: dir.display().to_string(), free }
}

fn room_in_memory() -> Result<Room> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let Some(kib) = kib else { bail!("/proc/meminfo does not tell the memory that is available") };
    Ok(Room { place: "memory".to_string(), free: kib << 10 })
}

/// Refuses a place that is nearly full; one that a full file system would fill is a doubt.
fn check_room(room: &Room, bytes: u64) -> Result<Option<Warning>> {
    let Room { place, free } = room;
    let mib = |bytes: u64| bytes >> 20;
    ensure!(
        *free >= LEAST_FREE_BYTES,
        "{place} has only {} MiB free, at least {} are left to others: make room, or choose \
         another --dir",
        mib(*free),
        mib(LEAST_FREE_BYTES)
    );
    let text = format!(
        "a file system of {} MiB that is filled needs more than the {} MiB free in {place}: such a \
         run fails, and others of this host with it",
        mib(bytes),
        mib(*free)
    );
    Ok((bytes > *free).then(|| Warning::new(text, "make them smaller (--size)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_toml(toml: &str, expected: expect_test::Expect) {
        let toml = format!("{toml}\n[[load]]\nworkload = 'getppid'");
        let checked = Experiment::read(&toml).and_then(|experiment| check_words(&experiment));
        expected.assert_eq(&checked.map_or_else(|error| format!("{error:#}"), |()| "fine".into()));
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        check_toml("[storage]\non = 'ram'\nsize = '1G'", expect_test::expect!["fine"]);
        check_toml(
            "[storage]\non = 'brd'",
            expect_test::expect![
                "file systems lie on loop, on ram, or on a device such as /dev/vdb; 'brd' is none"
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
                "file system of variant 'a': tmpfs lies in memory, where files do not scatter the space that is free: leave it out, or use the policy fresh"
            ],
        );
        check_toml(
            "[storage]\non = '/dev/vdz'\npolicy = 'aged'\n\
             [[variant]]\nname = 'a'\nfile_system = { kind = 'xfs' }",
            expect_test::expect![
                "file system of variant 'a': an aged file system is copied for every run, /dev/vdz would be written whole each time: use loop or ram, or the policy fresh"
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
                "file system of variant 'a': knee makes no file system of kind 'xsf'; it makes btrfs, ext2, ext3, ext4, tmpfs, xfs"
            ],
        );
        check_toml(
            "[[variant]]\nname = 'a'\nfile_system = { kind = 'tmpfs', mkfs = '-q' }",
            expect_test::expect![
                "file system of variant 'a': tmpfs is not made by a program: leave mkfs out, give mount options"
            ],
        );
        check_toml(
            "[[variant]]\nname = 'a'\nfile_system = { kind = 'xfs', mount = 'ro' }",
            expect_test::expect![
                "file system of variant 'a': the mount option 'ro' cannot be measured with"
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
    fn little_room_is_refused_and_enough_for_some_is_a_doubt() {
        let room = |mib: u64| Room { place: "/x".to_string(), free: mib << 20 };
        let error = check_room(&room(511), 1 << 30).unwrap_err().to_string();
        assert!(error.starts_with("/x has only 511 MiB free"), "{error}");
        assert_eq!(check_room(&room(1024), 1 << 30).unwrap(), None);
        let doubt = check_room(&room(1023), 1 << 30).unwrap().unwrap();
        assert!(doubt.text.contains("1024 MiB") && doubt.text.contains("1023 MiB"));
    }
}
