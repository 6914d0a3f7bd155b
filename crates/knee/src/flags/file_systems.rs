//! The flags of `knee run` about file systems, and what they change in an experiment.

use anyhow::{Context, Result, bail, ensure};
use records::{Age, Experiment, FileSystem, Policy, Scalar, Variant, parse};

/// File systems that are made for the runs.
#[derive(clap::Args)]
pub struct FileSystemFlags {
    /// File systems made for the runs: kinds, which are compared (ext4,xfs), or one with
    /// options, KIND:'mkfs=ARGUMENTS;mount=OPTIONS', or with a name, NAME=KIND. One alone
    /// holds for all variants
    #[arg(long = "fs", value_name = "KIND[,KIND…][:OPTIONS]", value_parser = list)]
    file_systems: Vec<List>,
    /// What they lie on: loop (images in --dir), ram, or a block device [default: loop]
    #[arg(long, value_name = "loop|ram|/dev/NAME")]
    on: Option<String>,
    /// The size of each [default: 8G]; or the name of a size of the experiment (here, reported),
    /// as `knee describe` shows it
    #[arg(long, value_name = "BYTES|NAME")]
    size: Option<String>,
    /// How long each lives: fresh (made for every run), kept (shared by the runs of a
    /// variant) or aged (a copy for every run of one that was filled and churned)
    /// [default: fresh]
    #[arg(long, value_parser = policy)]
    policy: Option<Policy>,
    /// How they are aged: the share that files take, and how often half of them are replaced
    /// [default: filled=50%,rounds=4]
    #[arg(long, value_name = "filled=PERCENT,rounds=N", value_parser = age)]
    age: Option<Age>,
    /// Allow --on /dev/NAME to lose all that is on that device
    #[arg(long)]
    pub i_own_this_device: bool,
}

/// The file systems of one flag, with the names of their variants.
#[derive(Clone)]
struct List(Vec<(String, FileSystem)>);

fn list(text: &str) -> Result<List> {
    named_file_systems(text).map(List)
}

/// Reads one `--fs`: file systems with the names of their variants. Options belong to the last.
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

/// Reads `filled=50%,rounds=4`; what is not said is as usual.
fn age(text: &str) -> Result<Age> {
    const USAGE: &str = "must be such as filled=50%,rounds=4";
    let mut read = Age::default();
    for part in text.split(',') {
        match part.trim().split_once('=') {
            Some(("filled", share)) => read.filled = parse::share(share).context(USAGE)?,
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
        _ => bail!("there is no policy '{text}': must be fresh, kept or aged"),
    }
}

impl FileSystemFlags {
    /// The size that was asked for, of file systems or of the experiment.
    pub fn size(&self) -> Option<&str> {
        self.size.as_deref()
    }

    /// Puts what was asked for into an experiment. `size` is that of a file system.
    pub fn apply(&self, experiment: &mut Experiment, size: Option<&str>) -> Result<()> {
        let lists = self.file_systems.iter();
        let asked: Vec<(String, FileSystem)> = lists.flat_map(|list| list.0.clone()).collect();
        let storage = &mut experiment.storage;
        storage.on = self.on.clone().unwrap_or_else(|| storage.on.clone());
        storage.size = size.map_or_else(|| storage.size.clone(), |size| Scalar(size.to_string()));
        storage.policy = self.policy.unwrap_or(storage.policy);
        storage.age = self.age.clone().unwrap_or_else(|| storage.age.clone());
        ensure!(
            self.age.is_none() || storage.policy == Policy::Aged,
            "--age says how file systems are aged: add --policy aged"
        );
        match asked.as_slice() {
            [] => (),
            [(_, one)] if !experiment.variants.is_empty() => {
                ensure!(
                    experiment.variants.iter().any(|variant| variant.file_system.is_none()),
                    "--fs {one}: every variant has a file system of its own already; leave --fs \
                     out, or change a copy of the experiment"
                );
                // Where several factors are combined, the first one's have it.
                let factor = experiment.variants[0].factor.clone();
                for variant in experiment.variants.iter_mut().filter(|v| v.factor == factor) {
                    variant.file_system.get_or_insert_with(|| one.clone());
                }
            }
            several => {
                // Beside other variants, they are a factor of their own.
                let alone = experiment.variants.is_empty();
                let factor = if alone { "" } else { "file_system" };
                experiment.variants.extend(several.iter().map(|(name, made)| Variant {
                    name: name.clone(),
                    factor: factor.to_string(),
                    file_system: Some(made.clone()),
                    ..Variant::default()
                }));
            }
        }
        let made = experiment.variants.iter().any(|variant| variant.file_system.is_some());
        let about_them = self.on.is_some() || size.is_some() || self.policy.is_some();
        ensure!(
            made || !(about_them || self.i_own_this_device),
            "--on, --size, --policy and --i-own-this-device are about file systems that are made: \
             say which (--fs ext4,xfs)"
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
            "xfss",
            expect_test::expect![[r#"
                knee cannot make a file system of kind 'xfss', did you mean 'xfs'?; it can make btrfs, ext2, ext3, ext4, tmpfs, xfs
            "#]],
        );
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
