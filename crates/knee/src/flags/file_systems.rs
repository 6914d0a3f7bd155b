//! The file-system flags of `knee run`, and how they change an experiment.

use anyhow::{Context, Result, bail, ensure};
use records::{Age, Experiment, FileSystem, Policy, Scalar, Variant, parse};

use super::hosts::{On, Place, place};

/// File systems to make for the runs.
#[derive(clap::Args)]
#[command(next_help_heading = "File systems")]
pub struct FileSystemFlags {
    /// File systems to make for the runs, as ext4,xfs
    ///
    /// Kinds to compare (ext4,xfs), or one kind with options, KIND:'mkfs=ARGUMENTS;mount=OPTIONS', each
    /// optionally named, NAME=KIND. A single one applies to all variants.
    #[arg(long = "fs", value_name = "KINDS", value_parser = file_system_list)]
    file_systems: Vec<FileSystemList>,
    /// Where: loop, ram, /dev/NAME; hosts: ssh:a,b, slurm; metal
    ///
    /// loop: images in --dir [default]; ram: a RAM disk; or a block device. ssh: names as the ssh client
    /// takes them; nothing is installed there. slurm: submits an array of jobs and ends. Hosts share the
    /// blocks: every variant of a block runs on the same one. metal: this host boots each --kernel itself, by
    /// kexec, and its own at the end (`knee help kernels-on-metal`). See `knee help fleet`.
    #[arg(long, value_name = "WHERE", value_parser = place)]
    on: Vec<Place>,
    /// Size of each file system [default: 8G], or the name of one of the experiment's sizes
    /// (here, reported; see `knee show`)
    #[arg(long, value_name = "BYTES|NAME", hide_short_help = true)]
    size: Option<String>,
    /// Lifetime of a file system: fresh (made for every run), kept (shared by the runs of a
    /// variant) or aged (each run gets a copy of one that was filled and churned)
    /// [default: fresh]
    #[arg(long, value_parser = policy, hide_short_help = true)]
    policy: Option<Policy>,
    /// How to age file systems: the share to fill with files, and how often to replace half of
    /// them [default: filled=50%,rounds=4]
    #[arg(
        long,
        value_name = "filled=PERCENT,rounds=N",
        value_parser = age,
        hide_short_help = true
    )]
    age: Option<Age>,
    /// Allow --on /dev/NAME to destroy all data on that device
    #[arg(long, hide_short_help = true)]
    pub i_own_this_device: bool,
}

/// The file systems of one `--fs`, with the names of their variants.
#[derive(Clone)]
struct FileSystemList(Vec<(String, FileSystem)>);

fn file_system_list(text: &str) -> Result<FileSystemList> {
    named_file_systems(text).map(FileSystemList)
}

/// Reads one `--fs`: file systems with the names of their variants. Options belong to the last
/// file system.
fn named_file_systems(text: &str) -> Result<Vec<(String, FileSystem)>> {
    let mut read = Vec::new();
    let mut rest = text;
    loop {
        let comma = rest.find(',').filter(|comma| !rest[..*comma].contains(':'));
        let Some(comma) = comma else { break };
        read.push(named(&rest[..comma])?);
        rest = &rest[comma + 1..];
    }
    read.push(named(rest)?);
    Ok(read)
}

fn named(text: &str) -> Result<(String, FileSystem)> {
    let (head, options) = text.split_once(':').unwrap_or((text, ""));
    let (name, kind) = head.split_once('=').unwrap_or((head, head));
    let (name, kind) = (name.trim().to_string(), kind.trim());
    if name.is_empty() || kind.is_empty() {
        bail!("{}", FileSystem::USAGE);
    }
    Ok((name, FileSystem::with_options(kind, options)?))
}

/// Reads `filled=50%,rounds=4`; a missing key has its default.
fn age(text: &str) -> Result<Age> {
    const USAGE: &str = "must be such as filled=50%,rounds=4";
    let mut read = Age::default();
    for part in text.split(',') {
        match part.trim().split_once('=') {
            Some(("filled", text)) => read.filled = parse::percent(text).context(USAGE)?,
            Some(("rounds", rounds)) => read.rounds = rounds.parse().context(USAGE)?,
            _ => bail!("'{part}': {USAGE}"),
        }
    }
    read.check()?;
    Ok(read)
}

fn policy(text: &str) -> Result<Policy> {
    match text {
        "fresh" => Ok(Policy::Fresh),
        "kept" => Ok(Policy::Kept),
        "aged" => Ok(Policy::Aged),
        _ => bail!("unknown policy '{text}': must be fresh, kept or aged"),
    }
}

impl FileSystemFlags {
    /// The other hosts on which runs are made.
    pub fn hosts(&self) -> Option<&On> {
        self.on.iter().find_map(|place| match place {
            Place::Hosts(on) => Some(on),
            Place::FileSystems(_) | Place::Metal => None,
        })
    }

    /// Whether this host boots the kernels that are compared.
    pub fn is_metal(&self) -> bool {
        self.on.contains(&Place::Metal)
    }

    /// The value of `--size`: of the file systems, or the name of a size of the experiment.
    pub fn size(&self) -> Option<&str> {
        self.size.as_deref()
    }

    /// Applies the flags to an experiment. `size` is that of a file system.
    pub fn apply(&self, experiment: &mut Experiment, size: Option<&str>) -> Result<()> {
        let on = self.on.iter().find_map(|place| match place {
            Place::FileSystems(on) => Some(on.clone()),
            Place::Hosts(_) | Place::Metal => None,
        });
        let kinds = usize::from(on.is_some())
            + usize::from(self.hosts().is_some())
            + usize::from(self.is_metal());
        ensure!(
            self.on.len() == kinds && !(self.is_metal() && self.hosts().is_some()),
            "--on names one place for file systems, and one kind of hosts: ssh:a,b names several"
        );
        let lists = self.file_systems.iter();
        let requested: Vec<(String, FileSystem)> = lists.flat_map(|list| list.0.clone()).collect();
        let storage = &mut experiment.storage;
        storage.on = on.clone().unwrap_or_else(|| storage.on.clone());
        storage.size = size.map_or_else(|| storage.size.clone(), |size| Scalar(size.to_string()));
        storage.policy = self.policy.unwrap_or(storage.policy);
        storage.age = self.age.clone().unwrap_or_else(|| storage.age.clone());
        ensure!(
            self.age.is_none() || storage.policy == Policy::Aged,
            "--age has no effect without --policy aged: add it"
        );
        match requested.as_slice() {
            [] => (),
            [(_, file_system)] if !experiment.variants.is_empty() => {
                ensure!(
                    experiment.variants.iter().any(|variant| variant.file_system.is_none()),
                    "--fs {file_system}: every variant already has its own file system; leave \
                     --fs out, or change a copy of the experiment"
                );
                // If several factors are combined, variants of the first factor carry it.
                let factor = experiment.variants[0].factor.clone();
                for variant in experiment.variants.iter_mut().filter(|v| v.factor == factor) {
                    variant.file_system.get_or_insert_with(|| file_system.clone());
                }
            }
            several => {
                // Next to other variants, file systems are a separate factor.
                let only_factor = experiment.variants.is_empty();
                let factor = if only_factor { "" } else { "file_system" };
                experiment.variants.extend(several.iter().map(|(name, file_system)| Variant {
                    name: name.clone(),
                    factor: factor.to_string(),
                    file_system: Some(file_system.clone()),
                    ..Variant::default()
                }));
            }
        }
        let makes_any = experiment.variants.iter().any(|variant| variant.file_system.is_some());
        let needs_some =
            on.is_some() || size.is_some() || self.policy.is_some() || self.i_own_this_device;
        ensure!(
            makes_any || !needs_some,
            "--on, --size, --policy and --i-own-this-device need file systems to make: name them \
             with --fs, as in --fs ext4,xfs"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: expect_test::Expect) {
        let shown = match named_file_systems(text) {
            Err(error) => format!("{error:#}\n"),
            Ok(read) => read.iter().map(|(name, made)| format!("{name}: {made}\n")).collect(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn kinds_are_a_list_and_options_belong_to_the_last() {
        check(
            "ext4,xfs",
            expect_test::expect![[r#"
                ext4: ext4
                xfs: xfs
            "#]],
        );
        check(
            "ext4,wide=xfs:mkfs=-m crc=1,finobt=1 -d agcount=32;mount=logbsize=262144",
            expect_test::expect![[r#"
                ext4: ext4
                wide: xfs mkfs '-m crc=1,finobt=1 -d agcount=32' mount 'logbsize=262144'
            "#]],
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        check(
            "xfs:-m crc=1",
            expect_test::expect![[r#"
                '-m crc=1' of xfs is neither mkfs=… nor mount=…: it must be a kind of file system (xfs), several (ext4,xfs), or one with options, KIND:'mkfs=ARGUMENTS;mount=OPTIONS', each optionally named, NAME=KIND
            "#]],
        );
        check(
            "ext4,,xfs",
            expect_test::expect![[r#"
                must be a kind of file system (xfs), several (ext4,xfs), or one with options, KIND:'mkfs=ARGUMENTS;mount=OPTIONS', each optionally named, NAME=KIND
            "#]],
        );
    }

    #[test]
    fn how_to_age_is_a_share_and_a_number_of_rounds() {
        let read = |text: &str| age(text).map(|age| (age.filled, age.rounds)).ok();
        assert_eq!(read("filled=80%,rounds=2"), Some((0.8, 2)));
        assert_eq!(read("rounds=0"), Some((0.5, 0)));
        for wrong in ["", "filled", "filled=95%", "filled=x", "rounds=-1", "rounds=9999", "a=1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
