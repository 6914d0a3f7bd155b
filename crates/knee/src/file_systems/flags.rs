//! The flags of `knee run` about file systems, and what they change in an experiment.

use anyhow::{Result, bail, ensure};
use records::{Age, Experiment, FileSystem, Policy, Variant, Word};

use super::words;

/// File systems that are made for the runs.
#[derive(clap::Args)]
pub struct Flags {
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
    #[arg(long, value_name = "filled=PERCENT,rounds=N", value_parser = words::age)]
    age: Option<Age>,
    /// Allow --on /dev/NAME to lose all that is on that device
    #[arg(long)]
    pub i_own_this_device: bool,
}

/// The file systems of one flag, with the names of their variants.
#[derive(Clone)]
struct List(Vec<(String, FileSystem)>);

fn list(text: &str) -> Result<List> {
    words::list(text).map(List)
}

fn policy(text: &str) -> Result<Policy> {
    match text {
        "fresh" => Ok(Policy::Fresh),
        "kept" => Ok(Policy::Kept),
        "aged" => Ok(Policy::Aged),
        _ => bail!("there is no policy '{text}': must be fresh, kept or aged"),
    }
}

impl Flags {
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
        storage.size = size.map_or_else(|| storage.size.clone(), |size| Word(size.to_string()));
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
