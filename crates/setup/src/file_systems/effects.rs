//! What making a file system runs and changes, in words, without doing it.

use std::path::Path;

use anyhow::{Context, Result};
use records::{Effect, EffectKind, FileSystem, Policy, Storage, parse};

use crate::file_systems::kinds;

/// Stands for the loop device that is free when a run needs one.
const SOME_LOOP: &str = "/dev/loopN";

/// The programs that make, check and describe a file system in `directory`, and its mount, in the
/// order in which a run needs them.
pub fn effects(storage: &Storage, directory: &Path, wanted: &FileSystem) -> Result<Vec<Effect>> {
    let kind = kinds::kind(&wanted.kind)?;
    let mut effects = Vec::new();
    let mut add = |kind, words, note: String| effects.push(Effect { kind, words, note });
    let root = directory.join("mounted-0");
    let image = directory.join("image-0");
    let device = if storage.on.starts_with('/') { &storage.on } else { SOME_LOOP };
    let (device, is_loop) = (Path::new(device), device == SOME_LOOP);
    if let Some(tools) = &kind.tools {
        if !is_loop {
            let words = vec![device.display().to_string()];
            let note = "all data on this device; only with --i-own-this-device, and only if it is \
                        blank and not mounted";
            add(EffectKind::Destroys, words, note.to_string());
        }
        let arguments = parse::words(&wanted.mkfs).context("arguments of mkfs")?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let place = if storage.on == "ram" { "an image in memory" } else { "an image" };
        let note = is_loop.then(|| {
            format!("{SOME_LOOP} shows {place} of {}, {}", storage.size.0, image.display())
        });
        add(EffectKind::Mkfs, tools.make.words(&arguments, device), note.unwrap_or_default());
        let check_path = if is_loop { &image } else { device };
        let note = "after a run, without changing it".to_string();
        add(EffectKind::Fsck, tools.check.words(&[], check_path), note);
        if let Some(describe) = &tools.describe {
            add(EffectKind::Fsck, describe.words(&[], device), String::new());
        }
        if storage.policy == Policy::Aged {
            add(EffectKind::Fsck, tools.free_space.words(&[], check_path), String::new());
        }
    }
    let source = if kind.tools.is_some() { device.display().to_string() } else { "knee".into() };
    let size = kind.tools.is_none().then(|| format!("size={}", storage.size.0));
    let own = Some(wanted.mount.clone()).filter(|options| !options.is_empty());
    let options: Vec<String> =
        ["nodev,nosuid".to_string()].into_iter().chain(size).chain(own).collect();
    let words = ["mount", "-t", kind.name, "-o", &options.join(","), &source];
    let words = words.into_iter().map(str::to_string).chain([root.display().to_string()]);
    add(EffectKind::Mount, words.collect(), "seen by knee alone".to_string());
    Ok(effects)
}
