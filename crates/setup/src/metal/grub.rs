//! GRUB's entry for the next boot, for hosts that cannot load a kernel by kexec. GRUB forgets `next_entry` before it
//! starts the entry, so the boot after it is the host's own again. The entry lies in custom.cfg, which GRUB's
//! configuration reads if it is there.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use host::children;
use host::durable::{remove_if_there, sync_folder, write_durably};

const ENTRY: &str = "knee-metal";

/// The first line of custom.cfg, by which knee knows it again.
const MARK: &str = "# Written by `knee run --on metal`, which removes it when it is done.";

/// File systems on which GRUB can change its environment block.
const WRITABLE: [&str; 3] = ["ext2", "fat", "xfs"];

/// GRUB as it is installed.
pub struct Grub {
    /// Where its configuration and its environment block lie.
    folder: PathBuf,
    /// What its programs are called, up to the dash.
    programs: String,
}

impl Grub {
    /// The GRUB of this host. Refuses one that would not return to its own entry by itself.
    pub fn find() -> Result<Grub> {
        ensure!(
            !is_secure_boot(),
            "Secure Boot is on, so GRUB boots only signed kernels: sign it, or disable Secure Boot"
        );
        let names = [("/boot/grub", "grub"), ("/boot/grub2", "grub2")];
        let named =
            names.into_iter().find(|(folder, _)| Path::new(folder).join("grub.cfg").exists());
        let (folder, programs) =
            named.context("there is no grub.cfg in /boot/grub or /boot/grub2")?;
        let grub = Grub { folder: folder.into(), programs: programs.to_string() };
        grub.check()?;
        Ok(grub)
    }

    fn check(&self) -> Result<()> {
        let path = self.folder.join("grub.cfg");
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        for word in ["next_entry", "custom.cfg"] {
            ensure!(text.contains(word), "{} does not read {word}", path.display());
        }
        let environment = self.environment();
        let file_system = self.probe("fs", &environment)?;
        let below = self.probe("abstraction", &environment)?;
        ensure!(
            WRITABLE.contains(&file_system.as_str()) && below.is_empty(),
            "GRUB cannot write {} ({file_system} {below}), so it would boot the kernel again and again",
            environment.display()
        );
        let custom = self.custom();
        ensure!(
            !custom.exists() || is_ours(&custom),
            "{} is not knee's: move it away",
            custom.display()
        );
        let next = self.next_entry()?;
        ensure!(
            next.is_none() || next.as_deref() == Some(ENTRY),
            "{} names a next_entry already: grub-editenv - unset next_entry",
            environment.display()
        );
        Ok(())
    }

    /// Makes a kernel the next boot.
    pub fn choose(&self, kernel: &Path, initrd: Option<&Path>, command_line: &str) -> Result<()> {
        let text = self.configuration(kernel, initrd, command_line)?;
        write_durably(&self.custom(), |mut file| Ok(file.write_all(text.as_bytes())?))?;
        self.edit(&["set", &format!("next_entry={ENTRY}")]).map(drop)
    }

    /// Makes the host's own entry the next boot again, if knee changed that.
    pub fn clear(&self) -> Result<()> {
        if !is_ours(&self.custom()) {
            return Ok(());
        }
        if self.next_entry()?.as_deref() == Some(ENTRY) {
            self.edit(&["unset", "next_entry"])?;
        }
        let custom = self.custom();
        remove_if_there(&custom).with_context(|| format!("removing {}", custom.display()))?;
        sync_folder(&self.folder)
    }

    fn configuration(
        &self,
        kernel: &Path,
        initrd: Option<&Path>,
        command_line: &str,
    ) -> Result<String> {
        let mut lines =
            vec![format!("menuentry 'knee measures a kernel' --unrestricted --id {ENTRY} {{")];
        let modules = [self.probe("partmap", kernel)?, self.probe("fs", kernel)?];
        for (prefix, names) in ["part_", ""].into_iter().zip(&modules) {
            lines.extend(names.split_whitespace().map(|name| format!("    insmod {prefix}{name}")));
        }
        let uuid = self.probe("fs_uuid", kernel)?;
        lines.push(format!("    search --no-floppy --fs-uuid --set=root {uuid}"));
        let words = command_line.split_whitespace().map(quoted).collect::<Vec<_>>().join(" ");
        lines.push(format!("    linux {} {words}", quoted(&self.path_in_grub(kernel)?)));
        if let Some(initrd) = initrd {
            ensure!(
                self.probe("fs_uuid", initrd)? == uuid,
                "{} and {} lie on different file systems, which one entry of GRUB cannot name: put them side by side",
                kernel.display(),
                initrd.display()
            );
            lines.push(format!("    initrd {}", quoted(&self.path_in_grub(initrd)?)));
        }
        lines.push("}".to_string());
        // If the entry cannot be started, GRUB would wait for somebody at the console.
        lines.push("if [ \"${boot_once}\" = true ]; then".to_string());
        lines.push("    if [ -n \"${saved_entry}\" ]; then set fallback=\"${saved_entry}\"; else set fallback=0; fi".to_string());
        lines.push("fi".to_string());
        Ok(format!("{MARK}\n{}\n", lines.join("\n")))
    }

    fn environment(&self) -> PathBuf {
        self.folder.join("grubenv")
    }

    fn custom(&self) -> PathBuf {
        self.folder.join("custom.cfg")
    }

    fn next_entry(&self) -> Result<Option<String>> {
        let told = self.edit(&["list"])?;
        let entry = told.lines().find_map(|line| line.strip_prefix("next_entry="));
        Ok(entry.filter(|entry| !entry.is_empty()).map(str::to_string))
    }

    fn edit(&self, words: &[&str]) -> Result<String> {
        let environment = self.environment();
        self.ask("editenv", &[&[environment.to_str().unwrap_or_default()], words].concat())
    }

    fn probe(&self, target: &str, path: &Path) -> Result<String> {
        let target = format!("--target={target}");
        self.ask("probe", &[&target, path.to_str().context("a path is not UTF-8")?])
    }

    /// The path of a file as GRUB sees it: from the root of its file system.
    fn path_in_grub(&self, path: &Path) -> Result<String> {
        self.ask("mkrelpath", &[path.to_str().context("a path is not UTF-8")?])
    }

    fn ask(&self, program: &str, words: &[&str]) -> Result<String> {
        let program = format!("{}-{program}", self.programs);
        let said = children::output(Command::new(&program).args(words))
            .with_context(|| format!("starting {program}"))?;
        let line = format!("{program} {}", words.join(" "));
        ensure!(said.status.success(), "{line}: {}", String::from_utf8_lossy(&said.stderr).trim());
        Ok(String::from_utf8_lossy(&said.stdout).trim().to_string())
    }
}

/// Removes what an earlier knee left in the configuration of this host's GRUB.
pub fn clear() -> Result<()> {
    for (folder, programs) in [("/boot/grub", "grub"), ("/boot/grub2", "grub2")] {
        Grub { folder: folder.into(), programs: programs.to_string() }.clear()?;
    }
    Ok(())
}

fn is_ours(custom: &Path) -> bool {
    fs::read_to_string(custom).is_ok_and(|text| text.starts_with(MARK))
}

/// A word that GRUB's script language takes as it is.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-=:,@%".contains(c);
    if word.chars().all(is_plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Whether the firmware starts only what is signed.
fn is_secure_boot() -> bool {
    const VARIABLE: &str =
        "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    match fs::read(VARIABLE) {
        // Four bytes of attributes, then the value.
        Ok(bytes) => bytes.get(4) == Some(&1),
        // Without the variable, the firmware does not know it.
        Err(e) => e.kind() != ErrorKind::NotFound && Path::new(VARIABLE).exists(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A GRUB whose programs print fixed answers and note how they were called.
    fn grub(folder: &Path, file_system: &str) -> Grub {
        let program = |name: &str, body: &str| {
            let path = folder.join(format!("grub-{name}"));
            let calls = folder.join("calls");
            let text = format!("#!/bin/sh\necho {name} \"$@\" >> {}\n{body}\n", calls.display());
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program("mkrelpath", "echo \"/sub${1#/boot}\"");
        let probe = format!(
            "case $1 in *=fs) echo {file_system};; *=partmap) echo gpt;; *=fs_uuid) echo 12-34;; *) ;; esac"
        );
        program("probe", &probe);
        let environment =
            "f=$1; case $2 in list) cat $f;; set) echo $3 > $f;; unset) : > $f;; esac";
        program("editenv", environment);
        fs::write(folder.join("grub.cfg"), "next_entry … source custom.cfg").unwrap();
        fs::write(folder.join("grubenv"), "").unwrap();
        let programs = folder.join("grub").to_str().unwrap().to_string();
        Grub { folder: folder.to_path_buf(), programs }
    }

    #[test]
    fn the_next_boot_is_an_entry_of_its_own_and_the_one_after_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let grub = grub(folder.path(), "ext2");
        grub.check().unwrap();
        let (kernel, initrd) = (Path::new("/boot/vmlinuz-6"), Path::new("/boot/initrd.img-6"));
        grub.choose(kernel, Some(initrd), "root=/dev/sda1 a=$b;c it's knee.boot=7").unwrap();
        assert_eq!(
            fs::read_to_string(grub.custom()).unwrap(),
            "# Written by `knee run --on metal`, which removes it when it is done.\n\
             menuentry 'knee measures a kernel' --unrestricted --id knee-metal {\n    \
                 insmod part_gpt\n    insmod ext2\n    \
                 search --no-floppy --fs-uuid --set=root 12-34\n    \
                 linux /sub/vmlinuz-6 root=/dev/sda1 'a=$b;c' 'it'\\''s' knee.boot=7\n    \
                 initrd /sub/initrd.img-6\n}\n\
             if [ \"${boot_once}\" = true ]; then\n    \
                 if [ -n \"${saved_entry}\" ]; then set fallback=\"${saved_entry}\"; else set fallback=0; fi\nfi\n"
        );
        assert_eq!(fs::read_to_string(grub.environment()).unwrap(), "next_entry=knee-metal\n");
        grub.clear().unwrap();
        assert!(!grub.custom().exists());
        assert_eq!(fs::read_to_string(grub.environment()).unwrap(), "");
        let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
        let (set, unset) = (" set next_entry=knee-metal\n", " unset next_entry\n");
        assert!(calls.contains(set) && calls.ends_with(unset), "{calls}");
    }

    #[test]
    fn a_grub_that_would_not_forget_the_entry_is_refused() {
        let check = |prepare: &dyn Fn(&Grub), file_system, expected: &str| {
            let folder = tempfile::tempdir().unwrap();
            let grub = grub(folder.path(), file_system);
            prepare(&grub);
            let why = format!("{:#}", grub.check().unwrap_err());
            assert!(why.contains(expected), "{why}");
            // What is not knee's stays.
            let before = fs::read_to_string(grub.environment()).unwrap();
            grub.clear().unwrap();
            assert_eq!(fs::read_to_string(grub.environment()).unwrap(), before);
        };
        check(&|_| (), "btrfs", "again and again");
        let foreign = |grub: &Grub| fs::write(grub.custom(), "menuentry mine {}").unwrap();
        check(&foreign, "ext2", "is not knee's");
        let taken = |grub: &Grub| fs::write(grub.environment(), "next_entry=2\n").unwrap();
        check(&taken, "ext2", "names a next_entry already");
        let old = |grub: &Grub| fs::write(grub.folder.join("grub.cfg"), "custom.cfg").unwrap();
        check(&old, "ext2", "does not read next_entry");
    }
}
