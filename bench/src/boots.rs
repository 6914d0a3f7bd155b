//! Virtual machines: how soon a guest says its first word, how soon it is off again after a run of
//! two seconds on XFS, how much is loaded into it, and whether boots in a row lose a run.

use std::env::temp_dir;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

/// Boots for each figure of time.
const REPEATS: u32 = 5;
/// Boots in a row, of a kernel.
const IN_A_ROW: u32 = 50;

/// A boot as its record has it.
struct Booted {
    up_s: f64,
    off_s: f64,
    bytes: f64,
}

/// Boots the kernel that `make setup` unpacks.
pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let Some(kernel) = kernel() else {
        eprintln!("boots: skipped, there is no kernel in target/kernels/boot (make setup)");
        return Ok(Vec::new());
    };
    let xfs = "run create_files --fs xfs --size 1G --seconds 2";
    let four = boots(bench, &kernel, &format!("{xfs} --cpus 4 --blocks {REPEATS}"))?;
    let sixteen = boots(bench, &kernel, &format!("{xfs} --cpus 16 --blocks {REPEATS}"))?;
    let row = format!("run getppid --seconds 0.1 --cpus 1 --blocks {IN_A_ROW}");
    let lost = f64::from(IN_A_ROW) - boots(bench, &kernel, &row)?.len() as f64;
    let figure = |name: &str, unit, limit, values| {
        let name = name.to_string();
        Figure { name, unit, limit, values }
    };
    let of = |boots: &[Booted], value: fn(&Booted) -> f64| boots.iter().map(value).collect();
    Ok(vec![
        figure("4 CPUs, to the first word", "s", Limit::AtMost(4.0), of(&four, |b| b.up_s)),
        figure("4 CPUs, to off after 2 s on XFS", "s", Limit::AtMost(10.0), of(&four, |b| b.off_s)),
        figure("16 CPUs, the same", "s", Limit::AtMost(15.0), of(&sixteen, |b| b.off_s)),
        figure("program and modules", "MB", Limit::AtMost(15.0), of(&four, |b| b.bytes / 1e6)),
        figure("50 boots in a row, lost", "", Limit::AtMost(0.0), vec![lost]),
    ])
}

fn kernel() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernels/boot");
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.into_iter().find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    })
}

/// The boots of such runs that were switched off in order, with all their runs finished.
fn boots(bench: &Bench, kernel: &Path, arguments: &str) -> Result<Vec<Booted>> {
    eprintln!("boots: knee {arguments}");
    let home = fresh_directory(&temp_dir())?;
    let mut command = bench.knee(home.path());
    command.args(arguments.split(' ')).arg("--kernel").arg(kernel);
    output(command.args(["--accelerator", "tcg", "--json"]))?;
    let folders = glob(home.path(), "boots.ndjson");
    let text = std::fs::read_to_string(folders.first().context("a record with boots")?)?;
    let boots = text.lines().map(serde_json::from_str::<serde_json::Value>);
    let boots = boots.collect::<Result<Vec<_>, _>>()?;
    let was_off = boots.iter().filter(|boot| boot["end"] == "was switched off");
    Ok(was_off
        .filter_map(|boot| {
            let up_s = boot["up_s"].as_f64()?;
            let off_s = up_s + boot["seconds"].as_f64()?;
            Some(Booted { up_s, off_s, bytes: boot["initramfs_bytes"].as_f64()? })
        })
        .collect())
}

/// Files of this name below a folder.
fn glob(folder: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.flat_map(|entry| {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            glob(&entry.path(), name)
        } else {
            vec![entry.path()]
        }
    });
    found.filter(|path| path.ends_with(name)).collect()
}
