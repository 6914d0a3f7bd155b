//! Commands in guests. A guest's initramfs gets the programs of this host that the lines of a command name, with their
//! libraries; where a shell interprets a line, also the programs whose names are words of it. Kernel modules that a
//! command loads lie where modprobe(8) looks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use guests::kernel::Kernel;
use guests::libraries::{LIBRARIES, path_in_guest, with_libraries};
use guests::module_index;
use guests::modules::ModuleTree;
use host::{given_file, paths};
use records::{
    Command, CommandJob, CommandLine, Daemon, Point, Readiness, Record, Scalar, ServerJob,
    StartedServer, Stop, Surroundings, Variant, stop,
};

use crate::programs::{daemon_before_runs, find_program, job_before_runs, searched_path};

/// The files that guests need for the commands of a record: their paths there, without the first slash, and here.
pub fn files(record: &Record) -> Result<BTreeMap<String, PathBuf>> {
    let mut programs = Programs::default();
    for (command, point) in in_guests(record)? {
        let job = job_before_runs(record, point, command)?;
        programs.add(lines(&job), record.variant(point))?;
    }
    for variant in record.variants.iter().filter(|v| record.guest(&v.name).is_some()) {
        if let Some(daemon) = daemon_before_runs(variant)? {
            programs.add(lines_of_server(&daemon), None)?;
        }
    }
    let mut files = BTreeMap::new();
    for program in &programs.needed {
        add(&mut files, with_libraries(program)?)?;
    }
    for program in programs.wished.difference(&programs.needed) {
        // A word that is no program for a guest, such as a script, may be no program in that line either.
        if let Ok(with_libraries) = with_libraries(program) {
            add(&mut files, with_libraries)?;
        }
    }
    Ok(files)
}

/// Programs of this host for guests.
#[derive(Default)]
struct Programs {
    /// Those that lines begin with.
    needed: BTreeSet<PathBuf>,
    /// Those whose names are words of a line for a shell.
    wished: BTreeSet<PathBuf>,
}

impl Programs {
    fn add(&mut self, lines: Vec<Line>, variant: Option<&Variant>) -> Result<()> {
        for (line, surroundings) in lines {
            self.needed.extend(find_program(&line[0], surroundings, variant)?);
            let find = |word| find_program(word, surroundings, variant).ok().flatten();
            self.wished.extend(words_of_shell(line).filter_map(find));
        }
        Ok(())
    }
}

/// A program and its arguments, and where it is started.
type Line<'a> = (&'a [String], Surroundings<'a>);

/// The commands that run in guests, each with a point.
fn in_guests(record: &Record) -> Result<Vec<(&Command, &Point)>> {
    let points = record.points.iter().filter(|point| record.guest(&point.variant).is_some());
    let commands = points.map(|point| Ok(record.command(point)?.map(|command| (command, point))));
    commands.filter_map(Result::transpose).collect()
}

/// All lines of a command and its server.
fn lines(job: &CommandJob) -> Vec<Line<'_>> {
    let own = Surroundings::from(job);
    let all = job.prepare.iter().chain([&job.run]).chain(&job.cleanup);
    let mut lines: Vec<Line> = all.map(|line| (&line[..], own)).collect();
    if let Some(ServerJob::Start(server)) = &job.server {
        lines.extend(lines_of_server(server));
    }
    lines
}

/// All lines of a server or a daemon.
fn lines_of_server(server: &StartedServer) -> Vec<Line<'_>> {
    let programs = server.programs().into_iter();
    programs.map(|(_, line)| (line, server.into())).collect()
}

/// The words in a line for a shell that could be programs.
fn words_of_shell(line: &[String]) -> impl Iterator<Item = &str> {
    let text = match line {
        [shell, flag, text, ..] if flag == "-c" && shell.ends_with("sh") => text,
        _ => "",
    };
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
    let own = Surroundings::from(&job);
    let found = |line: &Vec<String>| line_in_guest(line, own, variant);
    let all = |lines: &[Vec<String>]| lines.iter().map(found).collect::<Result<Vec<_>>>();
    let server = match &job.server {
        Some(ServerJob::Start(server)) => {
            Some(ServerJob::Start(Box::new(server_in_guest(server, variant)?)))
        }
        other => other.clone(),
    };
    let is_of_run = job.directory.starts_with(scratch);
    Ok(CommandJob {
        run: found(&job.run)?,
        prepare: all(&job.prepare)?,
        cleanup: all(&job.cleanup)?,
        environment: environment_in_guest(own, variant),
        directory: if is_of_run { job.directory.clone() } else { scratch.to_path_buf() },
        server,
        ..job.clone()
    })
}

/// The line with its program where the guest has it.
fn line_in_guest(
    line: &[String],
    surroundings: Surroundings,
    variant: Option<&Variant>,
) -> Result<Vec<String>> {
    let mut line = line.to_vec();
    if let Some(program) = find_program(&line[0], surroundings, variant)? {
        line[0] = path_in_guest(&program);
    }
    Ok(line)
}

/// The environment with the paths of programs and libraries in the guest. A HOME of its own or of the variant
/// stays.
fn environment_in_guest(
    surroundings: Surroundings,
    variant: Option<&Variant>,
) -> BTreeMap<String, String> {
    let path = searched_path(surroundings, variant);
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let path: Vec<String> = folders.map(|folder| path_in_guest(Path::new(folder))).collect();
    let variants = variant.and_then(|variant| variant.environment.get("HOME"));
    let home = variants.map_or("/tmp", |word| &word.0);
    let home = ("HOME".to_string(), home.to_string());
    let paths = [("PATH", path.join(":")), ("LD_LIBRARY_PATH", LIBRARIES.to_string())];
    let paths = paths.map(|(name, value)| (name.to_string(), value));
    [home].into_iter().chain(surroundings.environment.clone()).chain(paths).collect()
}

fn server_in_guest(server: &StartedServer, variant: Option<&Variant>) -> Result<StartedServer> {
    let own = Surroundings::from(server);
    let found = |line: &Vec<String>| line_in_guest(line, own, variant);
    let words =
        |line: &CommandLine| line_in_guest(line.words(), own, variant).map(CommandLine::Words);
    Ok(StartedServer {
        run: found(&server.run)?,
        setup: server.setup.iter().map(found).collect::<Result<_>>()?,
        ready: match &server.ready {
            Readiness::Command(line) => Readiness::Command(words(line)?),
            other => other.clone(),
        },
        stop: match stop(&server.stop)? {
            Stop::Command(line) => words(line)?,
            Stop::Signal(_) => server.stop.clone(),
        },
        environment: environment_in_guest(own, variant),
        ..server.clone()
    })
}

/// The text of /etc/passwd in guests: root, and the users that servers run as; `None` if there is no such user.
pub fn users(record: &Record) -> Result<Option<String>> {
    let mut lines = BTreeSet::new();
    for (command, _) in in_guests(record)? {
        let Some(name) = command.server.as_ref().and_then(|server| server.user.as_ref()) else {
            continue;
        };
        let (user, group) = paths::user_named(name).with_context(|| {
            format!(
                "the server of {} runs as {name}, who is not in /etc/passwd: install its package, or name another \
                 user in the server's `user`",
                command.name
            )
        })?;
        lines.insert(format!("{name}:x:{user}:{group}::/tmp:/bin/sh\n"));
    }
    let all = || ["root:x:0:0::/tmp:/bin/sh\n".to_string()].into_iter().chain(lines.clone());
    Ok((!lines.is_empty()).then(|| all().collect()))
}

/// The variant with the programs of its daemon where the guest has them.
pub fn variant_in_guest(variant: &Variant) -> Result<Variant> {
    let mut variant = variant.clone();
    let started = daemon_before_runs(&variant)?;
    if let (Some(daemon), Some(started)) = (&mut variant.daemon, started) {
        let started = server_in_guest(&started, None)?;
        let environment = started.environment.into_iter();
        *daemon = Daemon {
            run: CommandLine::Words(started.run),
            ready: started.ready,
            stop: started.stop,
            environment: environment.map(|(name, word)| (name, Scalar(word))).collect(),
            ..daemon.clone()
        };
    }
    Ok(variant)
}

/// The kernel modules that commands of guests load, each with the option that builds it.
pub fn modules(record: &Record) -> Result<BTreeMap<String, String>> {
    let commands = in_guests(record)?.into_iter();
    Ok(commands.flat_map(|(command, _)| command.modules.clone()).collect())
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

#[cfg(test)]
mod tests {
    use records::Experiment;

    use super::*;

    fn check(daemon: &str, lines: &[&str], wished: &[&str]) {
        let text = format!(
            "[[load]]\nworkload = 'getppid'\n[[variant]]\nname = 'b'\n[variant.daemon]\n{daemon}\n\
             environment = {{ PATH = '/bin' }}\n"
        );
        let experiment = Experiment::read(&text).unwrap();
        let variant = &experiment.variants[0];
        let mut programs = Programs::default();
        let daemon = daemon_before_runs(variant).unwrap().unwrap();
        programs.add(lines_of_server(&daemon), None).unwrap();
        assert_eq!(programs.wished, wished.iter().map(PathBuf::from).collect());
        let inside = daemon_before_runs(&variant_in_guest(variant).unwrap()).unwrap().unwrap();
        let shown: Vec<String> = inside.programs().iter().map(|(_, line)| line.join(" ")).collect();
        assert_eq!(shown, lines);
        let path_of = |line: &[String]| line[0].trim_start_matches("/loads").into();
        assert_eq!(
            programs.needed,
            inside.programs().iter().map(|(_, line)| path_of(line)).collect()
        );
        assert_eq!(inside.environment["PATH"], "/loads/bin");
    }

    #[test]
    fn a_home_of_its_own_stays_in_the_guest_and_paths_are_the_guests() {
        let check = |own: &[(&str, &str)], variant: Option<&Variant>, expected: &str| {
            let own = own.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            let surroundings =
                Surroundings { directory: Path::new("/"), environment: &own.collect(), user: None };
            let inside = environment_in_guest(surroundings, variant);
            let shown: Vec<String> = inside.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(shown.join(" "), expected);
        };
        let path = ("PATH", "/bin:x");
        check(&[path], None, "HOME=/tmp LD_LIBRARY_PATH=/loads/lib PATH=/loads/bin");
        let text = "[[load]]\nworkload = 'getppid'\n[[variant]]\nname = 'b'\nenvironment = { HOME = '/b' }\n";
        let experiment = Experiment::read(text).unwrap();
        let variant = experiment.variants.first();
        check(&[path], variant, "HOME=/b LD_LIBRARY_PATH=/loads/lib PATH=/loads/bin");
        check(
            &[path, ("HOME", "/root"), ("LD_LIBRARY_PATH", "/opt")],
            variant,
            "HOME=/root LD_LIBRARY_PATH=/loads/lib PATH=/loads/bin",
        );
    }

    #[test]
    fn every_program_that_a_daemon_starts_is_in_the_guest() {
        check(
            "run = \"sh -c 'ls -l'\"\nready = { command = 'cat up' }\nstop = 'rm \"a b\"'",
            &["/loads/bin/sh -c ls -l", "/loads/bin/cat up", "/loads/bin/rm a b"],
            &["/bin/ls"],
        );
        check("run = ['ls']\nstop = ['SIGINT']", &["/loads/bin/ls"], &[]);
    }
}
