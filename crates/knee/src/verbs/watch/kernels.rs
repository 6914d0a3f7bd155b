//! A line of kernels: `knee watch` counts exactly what knee's workloads execute in each of them.

mod counting;
mod page;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::{panic, thread};

use anyhow::{Context, Result, ensure};
use bisector::kernel_line::{
    BOOTS, Kernel, KernelEvent, KernelLineAnswer, KernelLineFile, KernelLinePaths, LineOf,
    OpenKernelLine,
};
use host::durable::Seal;
use host::terminal::{hint, talk};
use host::{affinity, counted, given_file, job_control, signals};
use pages::{Purpose, html};

use self::counting::{Counting, Target};
use super::{AckArguments, AddArguments, InitArguments, LENGTH, ViewFlags, say_open, write_line};
use crate::flags::kernel;

/// A kernel file is not larger.
const IMAGE: host::Limit = host::Limit { bytes: 1 << 30, what: "a kernel" };

/// Operations of each task in the first window, if the user does not say.
const OPERATIONS: u64 = 64;

/// The line that a file begins, if it is one of kernels.
pub fn opened(path: &Path) -> Result<Option<KernelLinePaths>> {
    let text = given_file::read_text(path, LENGTH)
        .with_context(|| format!("reading the line {}", path.display()))?;
    let is_of_kernels = text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("of"));
    if !is_of_kernels {
        return Ok(None);
    }
    let file: KernelLineFile = toml::from_str(&text)
        .with_context(|| format!("{} is not the file of a line of kernels", path.display()))?;
    check(&file).with_context(|| format!("reading {}", path.display()))?;
    Ok(Some(KernelLinePaths { path: path.to_path_buf(), file }))
}

fn check(file: &KernelLineFile) -> Result<()> {
    ensure!(!file.cpus.is_empty(), "cpus is empty: name numbers of CPUs, such as 1,2");
    ensure!(
        file.cpus.iter().all(|cpus| (1..=64).contains(cpus)),
        "cpus must be numbers from 1 to 64: each CPU is an emulated one"
    );
    ensure!((1..=100_000).contains(&file.operations), "operations must be from 1 to 100000");
    ensure!(file.smallest_effect >= 0.0, "smallest_effect must not be negative");
    ensure!(!file.workloads.is_empty(), "workloads is empty: name some, or begin with all");
    words::loads(&file.workloads).map(drop)
}

/// Begins a line of kernels.
pub fn init(arguments: &InitArguments) -> Result<ExitCode> {
    let cpus = match arguments.runs.cpus.as_str() {
        "all" => "1,2",
        given => given,
    };
    let number = |word: &str| word.trim().parse::<u32>();
    let cpus = cpus.split(',').map(number).collect::<Result<_, _>>();
    let cpus = cpus.with_context(|| {
        format!("--cpus '{}': name numbers of emulated CPUs, such as 1,2", arguments.runs.cpus)
    })?;
    let file = KernelLineFile {
        of: LineOf::Kernels,
        cpus,
        operations: arguments.operations.unwrap_or(OPERATIONS),
        smallest_effect: arguments.smallest_effect,
        workloads: words::expand(&arguments.workloads)?,
    };
    check(&file)?;
    let text = toml::to_string_pretty(&file).context("writing the line as TOML")?;
    write_line(&arguments.line, &text)?;
    talk(format_args!(
        "{} begins a line of kernels with {}: knee watch add {0} NAME=VMLINUZ",
        arguments.line.display(),
        counted(file.workloads.len(), "workload")
    ));
    Ok(ExitCode::SUCCESS)
}

/// Counts kernels, and says what changed.
pub fn add(arguments: &AddArguments, paths: &KernelLinePaths) -> Result<ExitCode> {
    ensure!(
        arguments.every.is_none(),
        "--every is of a line of commits: name kernels, or their folder with --images"
    );
    let kernels = named(arguments)?;
    signals::catch();
    job_control::follow_terminal();
    let kernels = arguments.build.images(&kernels, arguments.yes)?;
    let line = Mutex::new(paths.open()?);
    let before = answer(paths)?;
    let mut added = ExitCode::SUCCESS;
    for (name, image) in &kernels {
        let Some(new) = NewKernel::begin(name, image, paths, &line)? else { continue };
        if let Err(why) = new.count(paths, &line) {
            if signals::received().is_some() {
                talk("interrupted: the same command goes on");
                return Ok(ExitCode::from(130));
            }
            talk(format_args!("{name} is not counted: {why:#}"));
            added = ExitCode::FAILURE;
        }
    }
    drop(line);
    let answer = answer(paths)?;
    for sentence in page::news(&before, &answer) {
        talk(sentence);
    }
    Ok(added)
}

/// The kernels that were asked for: words, and images in a folder.
fn named(arguments: &AddArguments) -> Result<Vec<(String, PathBuf)>> {
    let words = arguments.commits.iter().map(|word| kernel(word));
    let mut kernels: Vec<(String, PathBuf)> = words.collect::<Result<_>>()?;
    if let Some(folder) = &arguments.images {
        let images = words::images(folder)?;
        ensure!(!images.is_empty(), "{} has no file called vmlinuz… or bzImage", folder.display());
        kernels.extend(images);
    }
    ensure!(
        !kernels.is_empty(),
        "name kernels: NAME=VMLINUZ, a revision of --git, or a folder with --images"
    );
    for (name, _) in &kernels {
        ensure!(
            !name.is_empty() && !name.contains('/') && !name.contains(char::is_whitespace),
            "'{name}' cannot be a kernel's name: write NAME=WHAT without slashes and spaces in NAME"
        );
    }
    Ok(kernels)
}

/// A kernel that has something to count.
struct NewKernel {
    name: String,
    image: PathBuf,
    sha256: String,
}

impl NewKernel {
    /// `None` of a kernel that has all its counts, and of one whose image is that of an earlier kernel, which then has its
    /// place in the line.
    fn begin(
        name: &str,
        image: &Path,
        paths: &KernelLinePaths,
        line: &Mutex<OpenKernelLine>,
    ) -> Result<Option<NewKernel>> {
        let looking = || format!("looking for {}", image.display());
        let image = image.canonicalize().with_context(looking)?;
        let sha256 = Seal::for_bytes(&given_file::read(&image, IMAGE)?).sha256;
        let mut open = counting::locked(line);
        if let Some(known) = open.line.kernel(name) {
            ensure!(
                known.sha256 == sha256,
                "the line has another kernel called {name}, {}: choose another name",
                known.release
            );
            let own = known.same_as.clone().unwrap_or(name.to_string());
            let is_whole =
                (1..=BOOTS).all(|boot| open.line.missing(&paths.file, &own, boot).is_empty());
            if is_whole {
                hint(format_args!("{name} is a kernel of the line already"));
                return Ok(None);
            }
            return Ok(Some(NewKernel { name: own, image, sha256 }));
        }
        let name = name.to_string();
        let Some(same) = open.line.with_image(&sha256).cloned() else {
            return Ok(Some(NewKernel { name, image, sha256 }));
        };
        hint(format_args!("{name} is the image of {}: it shares its counts", same.name));
        let at = jiff::Timestamp::now();
        let kernel = Kernel { name, image, at, same_as: Some(same.name.clone()), ..same };
        open.append(KernelEvent::Kernel(kernel))?;
        Ok(None)
    }

    /// Counts in all boots, at the same time where there are CPUs.
    fn count(&self, paths: &KernelLinePaths, line: &Mutex<OpenKernelLine>) -> Result<()> {
        let cpus = affinity::get().context("reading the CPU affinity")?;
        let count = |boot: u8| {
            let target = Target {
                name: self.name.clone(),
                image: self.image.clone(),
                sha256: self.sha256.clone(),
                boot,
                host_cpu: cpus.get(usize::from(boot - 1) % cpus.len().max(1)).copied(),
            };
            Counting::new(target, &paths.file)?.count_all(line)
        };
        if cpus.len() < usize::from(BOOTS) {
            return (1..=BOOTS).try_for_each(count);
        }
        let ended: Vec<Result<()>> = thread::scope(|scope| {
            let count = &count;
            let boots: Vec<_> = (1..=BOOTS).map(|boot| scope.spawn(move || count(boot))).collect();
            let joined = boots.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(|ended| ended.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
        });
        ended.into_iter().collect()
    }
}

fn answer(paths: &KernelLinePaths) -> Result<KernelLineAnswer> {
    Ok(paths.read()?.answer(paths))
}

/// Shows what changed from kernel to kernel.
pub fn show(
    paths: &KernelLinePaths,
    html_file: Option<&Path>,
    view: ViewFlags,
) -> Result<ExitCode> {
    let answer = answer(paths)?;
    view.print(|| Ok(&answer), || Ok(page::page(&answer)))?;
    if let Some(path) = html_file {
        fs::write(path, html(&page::page(&answer), Purpose::File))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Accepts a change, or all of a kernel.
pub fn ack(arguments: &AckArguments, paths: &KernelLinePaths) -> Result<ExitCode> {
    let why = arguments.why.trim();
    let ids = paths.ack(&arguments.change, why, arguments.is_false)?;
    let is = match (arguments.is_false, ids.len()) {
        (false, 1) => "is accepted",
        (false, _) => "are accepted",
        (true, 1) => "is declared to be none",
        (true, _) => "are declared to be none",
    };
    let what = match &ids[..] {
        [id] => id.clone(),
        ids => format!("{} of {}", counted(ids.len(), "change"), arguments.change),
    };
    talk(format_args!("{what} {is}: {why}"));
    Ok(ExitCode::SUCCESS)
}

/// Exits with status 3 while a change for the worse is open.
pub fn check_open(paths: &KernelLinePaths) -> Result<ExitCode> {
    let answer = answer(paths)?;
    let open: Vec<String> = answer.open().map(page::sentence).collect();
    Ok(say_open(&answer.line, &open))
}
