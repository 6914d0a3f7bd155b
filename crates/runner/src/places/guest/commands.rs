//! Commands in guests. A guest's initramfs gets the programs of this host that the lines of a command name, with their
//! libraries; where a shell interprets a line, also the programs whose names are words of it. Kernel modules that a
//! command loads lie where modprobe(8) looks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use guests::kernel::Kernel;
use guests::libraries::{LIBRARIES, path_in_guest, with_libraries};
use guests::module_index;
use guests::modules::ModuleTree;
use host::given_file;
use records::{Command, CommandJob, CommandLine, Record, Scalar, Variant};

use crate::programs::{Surroundings, daemon_program, find_program, job_before_runs, searched_path};

/// The files that guests need for the commands of a record: their paths there, without the first slash, and here.
pub fn files(record: &Record) -> Result<BTreeMap<String, PathBuf>> {
    let (mut needed, mut wished) = (BTreeSet::new(), BTreeSet::new());
    for point in &record.points {
        let Some(command) = record.command(point)? else { continue };
        if record.guest(&point.variant).is_none() {
            continue;
        }
        let job = job_before_runs(record, point, command)?;
        let variant = record.variant(point);
        for line in lines(&job) {
            needed.extend(find_program(&line[0], surroundings(&job), variant)?);
            wished.extend(
                words_of_shell(command, line).filter_map(|word| {
                    find_program(word, surroundings(&job), variant).ok().flatten()
                }),
            );
        }
    }
    for variant in record.variants.iter().filter(|v| record.guest(&v.name).is_some()) {
        needed.extend(daemon_program(variant)?);
    }
    let mut files = BTreeMap::new();
    for program in &needed {
        add(&mut files, with_libraries(program)?)?;
    }
    for program in wished.difference(&needed) {
        // A word that is no program for a guest, such as a script, may be no program in that line either.
        if let Ok(with_libraries) = with_libraries(program) {
            add(&mut files, with_libraries)?;
        }
    }
    Ok(files)
}

/// All lines of a command: each a program and its arguments.
fn lines(job: &CommandJob) -> impl Iterator<Item = &Vec<String>> {
    job.prepare.iter().chain([&job.run]).chain(&job.cleanup)
}

fn surroundings(job: &CommandJob) -> Surroundings<'_> {
    Surroundings { directory: &job.directory, environment: &job.environment }
}

/// The words in a line for a shell that could be programs.
fn words_of_shell<'a>(command: &Command, line: &'a [String]) -> impl Iterator<Item = &'a str> {
    let text = line.get(2).filter(|_| command.shell).map_or("", String::as_str);
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-./+".contains(c);
    text.split(move |c| !is_of_name(c)).filter(|word| !word.is_empty())
}

/// Adds the files of a program. Two libraries of one name cannot both be in a guest.
fn add(files: &mut BTreeMap<String, PathBuf>, more: BTreeMap<String, PathBuf>) -> Result<()> {
    for (inside, here) in more {
        let known = files.entry(inside.clone()).or_insert_with(|| here.clone());
        let is_one = *known == here || known.canonicalize().ok() == here.canonicalize().ok();
        ensure!(
            is_one,
            "{} and {} would both be /{inside} in a virtual machine: link one of the programs statically",
            known.display(),
            here.display()
        );
    }
    Ok(())
}

/// The job with its programs and libraries where the guest has them. Its directory is of the host, unless it is the one
/// that the run makes.
pub fn in_guest(job: CommandJob, scratch: &Path, variant: Option<&Variant>) -> Result<CommandJob> {
    let found = |line: &Vec<String>| -> Result<Vec<String>> {
        let program = find_program(&line[0], surroundings(&job), variant)?;
        let mut line = line.clone();
        if let Some(program) = program {
            line[0] = path_in_guest(&program);
        }
        Ok(line)
    };
    let all = |lines: &[Vec<String>]| lines.iter().map(found).collect::<Result<Vec<_>>>();
    let path = searched_path(surroundings(&job), variant);
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let path: Vec<String> = folders.map(|folder| path_in_guest(Path::new(folder))).collect();
    let own =
        [("PATH", path.join(":")), ("LD_LIBRARY_PATH", LIBRARIES.into()), ("HOME", "/tmp".into())];
    let own = own.map(|(name, value)| (name.to_string(), value));
    let is_of_run = job.directory.starts_with(scratch);
    Ok(CommandJob {
        run: found(&job.run)?,
        prepare: all(&job.prepare)?,
        cleanup: all(&job.cleanup)?,
        environment: job.environment.clone().into_iter().chain(own).collect(),
        directory: if is_of_run { job.directory.clone() } else { scratch.to_path_buf() },
        ..job.clone()
    })
}

/// The variant with the program of its daemon where the guest has it.
pub fn variant_in_guest(variant: &Variant) -> Result<Variant> {
    let mut variant = variant.clone();
    let program = daemon_program(&variant)?;
    if let (Some(daemon), Some(program)) = (&mut variant.daemon, program) {
        let mut words = daemon.words()?;
        words[0] = path_in_guest(&program);
        daemon.run = CommandLine::Words(words);
        let libraries = Scalar(LIBRARIES.to_string());
        daemon.environment.insert("LD_LIBRARY_PATH".to_string(), libraries);
    }
    Ok(variant)
}

/// The kernel modules that commands of guests load, each with the option that builds it.
pub fn modules(record: &Record) -> Result<BTreeMap<String, String>> {
    let mut modules = BTreeMap::new();
    for point in &record.points {
        if let (Some(command), Some(_)) = (record.command(point)?, record.guest(&point.variant)) {
            modules.extend(command.modules.clone());
        }
    }
    Ok(modules)
}

/// Kernel modules and the modules that they need, with an index of them, for modprobe(8): their paths in the guest, without
/// the first slash, and their content. An error names the option that the kernel was built without.
pub fn module_files(
    modules: &BTreeMap<String, String>,
    kernel: &Kernel,
    tree: Option<&ModuleTree>,
) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = format!("lib/modules/{}", kernel.release);
    let (mut files, mut lines) = (BTreeMap::new(), BTreeMap::new());
    for (name, option) in modules {
        let needed = tree.map(|tree| tree.needed(&[name])).transpose()?.unwrap_or_default();
        let path = kernel.path.display();
        if tree.is_some() && needed.modules.is_empty() && needed.missing.is_empty() {
            bail!(
                "{path} has {name} built in, so that no run can load it: build it as a module ({option}=m)"
            );
        }
        ensure!(
            tree.is_some() && needed.missing.is_empty(),
            "{path} (Linux {}) has no module {}{}: build the kernel and its modules with {option}=m (make), and name the image \
             in that tree, or the folder of the modules (--modules DIR)",
            kernel.release,
            if tree.is_some() { needed.missing.join(", ") } else { name.clone() },
            configured(option, kernel, tree).map_or_else(String::new, |line| format!(" ({line})")),
        );
        let files_in_order: Vec<String> =
            needed.modules.iter().rev().map(|module| format!("{}.ko", module.name)).collect();
        if let [own, others @ ..] = &files_in_order[..] {
            lines.insert(name.replace('-', "_"), format!("{own}: {}", others.join(" ")));
        }
        for module in needed.modules {
            files.insert(format!("{folder}/{}.ko", module.name), module.bytes);
        }
    }
    if !lines.is_empty() {
        files.insert(format!("{folder}/modules.dep.bin"), module_index::index(&lines));
    }
    Ok(files.into_iter().collect())
}

/// What the kernel's configuration says of an option, where it lies beside the kernel or its modules.
fn configured(option: &str, kernel: &Kernel, tree: Option<&ModuleTree>) -> Option<String> {
    const LIMIT: host::Limit = host::Limit { bytes: 16 << 20, what: "a kernel's configuration" };
    let beside = kernel.path.with_file_name(format!("config-{}", kernel.release));
    let of_tree = tree.map(|tree| tree.root.join(".config"));
    let files = [Some(beside), of_tree];
    let file = files.into_iter().flatten().find(|file| file.is_file())?;
    let text = given_file::read(&file, LIMIT).ok()?;
    let text = String::from_utf8_lossy(&text);
    let is_of_option = |line: &&str| {
        let line = line.trim_start_matches("# ");
        line.strip_prefix(option).is_some_and(|rest| rest.starts_with(['=', ' ']))
    };
    let line =
        text.lines().find(is_of_option).map(|line| line.trim_start_matches("# ").to_string());
    let said = line.unwrap_or_else(|| format!("{option} is not mentioned"));
    Some(format!("in {}: {said}", file.display()))
}
