//! A kernel's module tree: the files that some modules need, in load order. Dependencies are read
//! from the modules themselves (their section .modinfo), so depmod(8) need not have run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::{Object, ObjectSection};

use crate::decompress::decompress;

/// The modules of one kernel.
pub struct ModuleTree {
    /// The directory of the modules.
    pub root: PathBuf,
    /// Files by module name, with `_` for `-` as in the kernel.
    files: BTreeMap<String, PathBuf>,
    /// Names of the modules that are built into the kernel.
    built_in: BTreeSet<String>,
}

/// A module to load.
pub struct Module {
    pub name: String,
    /// Its file, decompressed.
    pub bytes: Vec<u8>,
}

impl Module {
    /// Its types (BTF), as far as they are not the kernel's. `None` if it has none, or if it was built without the
    /// kernel's types at hand.
    pub fn types(&self) -> Option<Vec<u8>> {
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(&*self.bytes).ok()?;
        let section = file.section_by_name(".BTF")?;
        // Numbers in it are then of a summary of the kernel's types.
        if file.section_by_name(".BTF.base").is_some() {
            return None;
        }
        section.data().ok().map(<[u8]>::to_vec)
    }
}

/// The modules that some modules need, with themselves.
#[derive(Default)]
pub struct NeededModules {
    /// Each module after those that it depends on.
    pub modules: Vec<Module>,
    /// Names that are neither a module file nor built in.
    pub missing: Vec<String>,
}

/// File name endings of modules.
const ENDINGS: [&str; 4] = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"];

impl ModuleTree {
    /// The tree of a kernel: below the `given` folder, or where make built both, its package or this host has it.
    /// `None` if there is none: then everything must be built in.
    pub fn find(kernel: &Path, release: &str, given: Option<&Path>) -> Result<Option<ModuleTree>> {
        if let Some(given) = given {
            let inner = given.join("lib/modules").join(release);
            let root = if inner.is_dir() { inner } else { given.to_path_buf() };
            return ModuleTree::open(&root).map(Some);
        }
        if let Some(built) = kernel.ancestors().nth(4).filter(|top| has_built(top, release)) {
            return ModuleTree::open(built).map(Some);
        }
        // A package unpacked elsewhere has boot/ beside lib/; a kernel of this host too.
        let package = kernel.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let roots = [package, Path::new("/")].into_iter().flat_map(|root| {
            ["lib/modules", "usr/lib/modules"].map(|modules| root.join(modules).join(release))
        });
        roots.into_iter().find(|root| root.is_dir()).map(|root| ModuleTree::open(&root)).transpose()
    }

    fn open(root: &Path) -> Result<ModuleTree> {
        let is_built = [BUILT_RELEASE, MODULES_ORDER].iter().all(|file| root.join(file).is_file());
        let files = if is_built { built(root) } else { installed(root) };
        let files = files.with_context(|| format!("listing modules in {}", root.display()))?;
        let listed = fs::read_to_string(root.join("modules.builtin")).unwrap_or_default();
        let built_in = listed.lines().filter_map(|line| name(Path::new(line))).collect();
        Ok(ModuleTree { root: root.to_path_buf(), files, built_in })
    }

    /// The modules that have to be loaded for the `wanted` ones.
    pub fn needed(&self, wanted: &[&str]) -> Result<NeededModules> {
        let mut needed = NeededModules::default();
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
        needed: &mut NeededModules,
        seen: &mut BTreeSet<String>,
    ) -> Result<()> {
        let wanted = wanted.replace('-', "_");
        if !seen.insert(wanted.clone()) || self.built_in.contains(&wanted) {
            return Ok(());
        }
        let Some(path) = self.files.get(&wanted) else {
            // A soft dependency may be an alias of several modules.
            let providers = if must { Vec::new() } else { self.providers(&wanted)? };
            for provider in &providers {
                self.add(provider, false, needed, seen)?;
            }
            if must {
                needed.missing.push(wanted);
            }
            return Ok(());
        };
        let bytes = read(path)?;
        let info = ModuleInfo::parse(&bytes).with_context(|| format!("in {}", path.display()))?;
        for before in info.list("depends", ',') {
            self.add(&before, true, needed, seen)?;
        }
        for before in info.soft_dependencies() {
            self.add(&before, false, needed, seen)?;
        }
        needed.modules.push(Module { name: wanted, bytes });
        Ok(())
    }

    /// The modules that provide a cipher or checksum by its alias ("crc32c").
    fn providers(&self, alias: &str) -> Result<Vec<String>> {
        let is_cryptographic = |path: &Path| {
            path.components().any(|part| part.as_os_str() == "crypto")
                || path.parent().is_some_and(|folder| folder.ends_with("lib"))
        };
        let mut providers = Vec::new();
        for (name, path) in self.files.iter().filter(|(_, path)| is_cryptographic(path)) {
            // Reading all of them takes a second; their names begin with the alias.
            if !name.starts_with(alias) {
                continue;
            }
            let bytes = read(path)?;
            let info =
                ModuleInfo::parse(&bytes).with_context(|| format!("in {}", path.display()))?;
            if info.values("alias").any(|known| known.replace('-', "_") == alias) {
                providers.push(name.clone());
            }
        }
        Ok(providers)
    }
}

/// Where make notes the release of the kernel that it builds.
const BUILT_RELEASE: &str = "include/config/kernel.release";

/// Where make lists the modules that it has built.
const MODULES_ORDER: &str = "modules.order";

/// Whether a tree of Linux has built the modules of a kernel: its image is in arch/x86/boot there.
fn has_built(top: &Path, release: &str) -> bool {
    let built = fs::read_to_string(top.join(BUILT_RELEASE));
    built.is_ok_and(|built| built.trim() == release) && top.join(MODULES_ORDER).is_file()
}

/// The modules that make built last in a tree of Linux. The tree may have other files of their names: of a configuration
/// before, or installed into it (`make modules_install`, `make bindeb-pkg`).
fn built(top: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let order = fs::read_to_string(top.join(MODULES_ORDER))?;
    let file = |line: &str| {
        // Linux 6.2 and later list fs/xfs/xfs.o, those before 5.3 kernel/fs/xfs/xfs.ko.
        let listed = Path::new(line).with_extension("ko");
        let before = listed.strip_prefix("kernel").ok();
        let paths = [Some(&*listed), before].into_iter().flatten();
        paths.map(|path| top.join(path)).find(|path| path.is_file())
    };
    let files = order.lines().filter_map(file);
    Ok(files.filter_map(|path| Some((name(&path)?, path))).collect())
}

/// The modules in all folders below one.
fn installed(root: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    walk(root, &mut files)?;
    Ok(files)
}

fn walk(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // Symbolic links are skipped: `build` and `source` lead out of the tree.
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

/// The `KEY=VALUE` texts in a module's .modinfo section.
pub(crate) struct ModuleInfo(Vec<String>);

impl ModuleInfo {
    pub(crate) fn parse(module: &[u8]) -> Result<ModuleInfo> {
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(module)
            .context("reading a module")?;
        let section = file.section_by_name(".modinfo").context("a module without .modinfo")?;
        let texts = section.data()?.split(|byte| *byte == 0).filter(|text| !text.is_empty());
        Ok(ModuleInfo(texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect()))
    }

    pub(crate) fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter_map(move |text| text.strip_prefix(key)?.strip_prefix('='))
    }

    pub(crate) fn list(&self, key: &str, separator: char) -> Vec<String> {
        let values = self.values(key).flat_map(|value| value.split(separator));
        values.filter(|name| !name.is_empty()).map(str::to_string).collect()
    }

    /// Soft dependencies to load before the module, if they exist: "pre: a b post: c".
    pub(crate) fn soft_dependencies(&self) -> Vec<String> {
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

    /// A module whose .modinfo has these texts, separated by semicolons.
    pub fn module(info: &str) -> Vec<u8> {
        let mut file = Written::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = file.add_section(Vec::new(), b".modinfo".to_vec(), SectionKind::Data);
        file.append_section_data(section, info.replace(';', "\0").as_bytes(), 1);
        file.write().unwrap()
    }

    #[test]
    fn a_module_has_types_unless_they_continue_a_summary_of_the_kernels() {
        let types = |sections: &[&str]| {
            let mut file =
                Written::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
            for name in sections {
                let section =
                    file.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::Data);
                file.append_section_data(section, name.as_bytes(), 1);
            }
            Module { name: "xfs".to_string(), bytes: file.write().unwrap() }.types()
        };
        assert_eq!(types(&[".BTF"]).as_deref(), Some(&b".BTF"[..]));
        assert_eq!(types(&[".BTF", ".BTF.base"]), None);
        assert_eq!(types(&[".modinfo"]), None);
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
            let is_compressed = path.extension().unwrap() == "zst";
            let bytes =
                if is_compressed { zstd::encode_all(bytes.as_slice(), 1).unwrap() } else { bytes };
            fs::write(path, bytes).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), "kernel/drivers/virtio/virtio-pci.ko\n")
            .unwrap();
        let needed = ModuleTree::open(folder.path()).unwrap().needed(wanted).unwrap();
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
        let tree = ModuleTree::find(&kernel, "9.9-x", None).unwrap().unwrap();
        assert_eq!(tree.root, root.parent().unwrap());
        assert!(ModuleTree::find(&kernel, "9.9-y", None).unwrap().is_none());
        assert!(ModuleTree::find(&kernel, "9.9-y", Some(Path::new("/nowhere"))).is_err());
    }

    #[test]
    fn a_tree_where_make_built_modules_has_those_of_its_image() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("arch/x86/boot/bzImage");
        fs::create_dir_all(folder.path().join("include/config")).unwrap();
        fs::write(folder.path().join("include/config/kernel.release"), "9.9-x\n").unwrap();
        let find = |release: &str| ModuleTree::find(&image, release, None).unwrap();
        assert!(find("9.9-x").is_none(), "make has built the image alone");
        fs::write(folder.path().join("modules.order"), "").unwrap();
        assert_eq!(find("9.9-x").unwrap().root, folder.path());
        assert!(find("9.9-y").is_none());
    }

    #[test]
    fn a_module_of_a_tree_is_the_one_that_make_built_last() {
        let check = |order: &str, expected: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            for file in ["fs/a.ko", "kernel/b.ko", "aa/fs/a.ko", "zz/fs/a.ko", "kernel/old.ko"] {
                let path = folder.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            fs::create_dir_all(folder.path().join("include/config")).unwrap();
            fs::write(folder.path().join("include/config/kernel.release"), "9.9-x\n").unwrap();
            fs::write(folder.path().join("modules.order"), order).unwrap();
            let files = ModuleTree::open(folder.path()).unwrap().files;
            let expected = expected.iter();
            let expected =
                expected.map(|(name, path)| (name.to_string(), folder.path().join(path)));
            assert_eq!(files, expected.collect());
        };
        let both = [("a", "fs/a.ko"), ("b", "kernel/b.ko")];
        check("fs/a.o\nkernel/b.o\nfs/not-made.o\n", &both);
        check("fs/a.ko\nkernel/b.ko\n", &both);
        check("kernel/fs/a.ko\nkernel/kernel/b.ko\n", &both);
        check("", &[]);
    }
}
