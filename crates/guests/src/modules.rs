//! A kernel's module tree: which files are needed for some modules, in the order in which they
//! are to be loaded. Read from the modules themselves (their section .modinfo), so that it does
//! not matter whether depmod(8) has been there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::{Object, ObjectSection};

use crate::decompress::decompress;

/// The modules of one kernel.
pub struct Tree {
    /// Where they lie.
    pub root: PathBuf,
    /// Files by name, with `_` for `-` as the kernel has it.
    files: BTreeMap<String, PathBuf>,
    /// What the kernel has without modules.
    built_in: BTreeSet<String>,
}

/// A module to load.
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its file, as the kernel takes it.
    pub bytes: Vec<u8>,
}

/// What is needed for some modules.
#[derive(Default)]
pub struct Needed {
    /// The modules, each after those that it needs.
    pub modules: Vec<Module>,
    /// Names for which there is neither a module nor something built in.
    pub missing: Vec<String>,
}

/// Endings of module files.
const ENDINGS: [&str; 4] = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"];

impl Tree {
    /// The tree of a kernel: below the folder given, or where its package or this host has it.
    /// Nothing if there is none: then all must be built in.
    pub fn find(kernel: &Path, release: &str, given: Option<&Path>) -> Result<Option<Tree>> {
        if let Some(given) = given {
            let inner = given.join("lib/modules").join(release);
            let root = if inner.is_dir() { inner } else { given.to_path_buf() };
            return Tree::open(&root).map(Some);
        }
        // A package unpacked elsewhere has boot/ beside lib/; a kernel of this host too.
        let package = kernel.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let roots = [package, Path::new("/")].into_iter().flat_map(|root| {
            ["lib/modules", "usr/lib/modules"].map(|modules| root.join(modules).join(release))
        });
        roots.into_iter().find(|root| root.is_dir()).map(|root| Tree::open(&root)).transpose()
    }

    fn open(root: &Path) -> Result<Tree> {
        let mut files = BTreeMap::new();
        walk(root, &mut files).with_context(|| format!("listing modules in {}", root.display()))?;
        let listed = fs::read_to_string(root.join("modules.builtin")).unwrap_or_default();
        let built_in = listed.lines().filter_map(|line| name(Path::new(line))).collect();
        Ok(Tree { root: root.to_path_buf(), files, built_in })
    }

    /// What is needed for these modules.
    pub fn needed(&self, wanted: &[&str]) -> Result<Needed> {
        let mut needed = Needed::default();
        let mut seen = BTreeSet::new();
        for name in wanted {
            self.add(name, true, &mut needed, &mut seen)?;
        }
        Ok(needed)
    }

    fn add(
        &self,
        wanted: &str,
        must: bool,
        needed: &mut Needed,
        seen: &mut BTreeSet<String>,
    ) -> Result<()> {
        let wanted = wanted.replace('-', "_");
        if !seen.insert(wanted.clone()) || self.built_in.contains(&wanted) {
            return Ok(());
        }
        let Some(path) = self.files.get(&wanted) else {
            // A soft dependency may be another name of several modules.
            let bearers = if must { Vec::new() } else { self.bearers(&wanted)? };
            for bearer in &bearers {
                self.add(bearer, false, needed, seen)?;
            }
            if must {
                needed.missing.push(wanted);
            }
            return Ok(());
        };
        let bytes = read(path)?;
        let info = Info::of(&bytes).with_context(|| format!("in {}", path.display()))?;
        for before in info.list("depends", ',') {
            self.add(&before, true, needed, seen)?;
        }
        for before in info.soft() {
            self.add(&before, false, needed, seen)?;
        }
        needed.modules.push(Module { name: wanted, bytes });
        Ok(())
    }

    /// Modules of ciphers and checksums, which others ask for by what they do ("crc32c").
    fn bearers(&self, alias: &str) -> Result<Vec<String>> {
        let of_ciphers = |path: &Path| {
            path.components().any(|part| part.as_os_str() == "crypto")
                || path.parent().is_some_and(|folder| folder.ends_with("lib"))
        };
        let mut bearers = Vec::new();
        for (name, path) in self.files.iter().filter(|(_, path)| of_ciphers(path)) {
            // Reading all of them takes a second; names begin with what they do.
            if !name.starts_with(alias) {
                continue;
            }
            let bytes = read(path)?;
            let info = Info::of(&bytes).with_context(|| format!("in {}", path.display()))?;
            if info.values("alias").any(|known| known.replace('-', "_") == alias) {
                bearers.push(name.clone());
            }
        }
        Ok(bearers)
    }
}

fn walk(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // `build` and `source` are links out of the tree.
        if entry.file_type()?.is_dir() {
            walk(&path, files)?;
        } else if let Some(name) = name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// The name of the module in a file, if it is one.
fn name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = ENDINGS.iter().find_map(|ending| file.strip_suffix(ending))?;
    Some(stem.replace('-', "_"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    decompress(&bytes).with_context(|| format!("the module {}", path.display()))
}

/// What a module says of itself: `KEY=VALUE` texts.
pub(crate) struct Info(Vec<String>);

impl Info {
    pub(crate) fn of(module: &[u8]) -> Result<Info> {
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(module)
            .context("reading a module")?;
        let section = file.section_by_name(".modinfo").context("a module without .modinfo")?;
        let texts = section.data()?.split(|byte| *byte == 0).filter(|text| !text.is_empty());
        Ok(Info(texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect()))
    }

    pub(crate) fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter_map(move |text| text.strip_prefix(key)?.strip_prefix('='))
    }

    pub(crate) fn list(&self, key: &str, between: char) -> Vec<String> {
        let values = self.values(key).flat_map(|value| value.split(between));
        values.filter(|name| !name.is_empty()).map(str::to_string).collect()
    }

    /// What is to be loaded before, if it is there: "pre: a b post: c".
    pub(crate) fn soft(&self) -> Vec<String> {
        let mut before = Vec::new();
        for text in self.values("softdep") {
            let mut is_before = false;
            for word in text.split_whitespace() {
                match word.strip_suffix(':') {
                    Some(when) => is_before = when == "pre",
                    None if is_before => before.push(word.to_string()),
                    None => (),
                }
            }
        }
        before
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use object::write::Object as Written;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    /// A module that says these things, separated by semicolons.
    pub fn module(info: &str) -> Vec<u8> {
        let mut file = Written::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = file.add_section(Vec::new(), b".modinfo".to_vec(), SectionKind::Data);
        file.append_section_data(section, info.replace(';', "\0").as_bytes(), 1);
        file.write().unwrap()
    }

    fn check(wanted: &[&str], expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let files: &[(&str, &str)] = &[
            (
                "kernel/fs/xfs/xfs.ko",
                "license=GPL;depends=libcrc32c,lib-a;softdep=pre: crc32c post: zz",
            ),
            ("kernel/lib/libcrc32c.ko", "depends=;softdep=pre: crc32c"),
            ("kernel/lib/lib-a.ko", "depends="),
            ("kernel/crypto/crc32c_generic.ko.zst", "depends=;alias=crc32c;alias=crypto-crc32c"),
            ("kernel/crypto/crc32_pclmul.ko", "depends=;alias=crc32"),
            ("kernel/arch/x86/crypto/crc32c-intel.ko", "depends=;alias=crc32c"),
            ("kernel/drivers/needy.ko", "depends=absent"),
        ];
        for (path, info) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let bytes = module(info);
            let bytes = match path.extension().unwrap() == "zst" {
                true => zstd::encode_all(bytes.as_slice(), 1).unwrap(),
                false => bytes,
            };
            fs::write(path, bytes).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), "kernel/drivers/virtio/virtio-pci.ko\n")
            .unwrap();
        let needed = Tree::open(folder.path()).unwrap().needed(wanted).unwrap();
        let names: Vec<&str> = needed.modules.iter().map(|module| module.name.as_str()).collect();
        let shown = format!("{} | {}", names.join(" "), needed.missing.join(" "));
        assert_eq!(shown, expected);
    }

    #[test]
    fn each_module_comes_after_those_it_needs() {
        check(&["xfs"], "crc32c_generic crc32c_intel libcrc32c lib_a xfs | ");
        check(&["lib-a", "xfs", "lib_a"], "lib_a crc32c_generic crc32c_intel libcrc32c xfs | ");
    }

    #[test]
    fn what_is_built_in_is_not_loaded_and_what_is_nowhere_is_missing() {
        check(&["virtio_pci"], " | ");
        check(&["btrfs", "needy"], "needy | btrfs absent");
    }

    #[test]
    fn a_tree_is_found_beside_its_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("lib/modules/9.9-x/kernel");
        fs::create_dir_all(&root).unwrap();
        let kernel = folder.path().join("boot/vmlinuz-9.9-x");
        let found = Tree::find(&kernel, "9.9-x", None).unwrap().unwrap();
        assert_eq!(found.root, root.parent().unwrap());
        assert!(Tree::find(&kernel, "9.9-y", None).unwrap().is_none());
        assert!(Tree::find(&kernel, "9.9-y", Some(Path::new("/nowhere"))).is_err());
    }
}
