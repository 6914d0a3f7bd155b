//! The image of an experiment: a file system that is made, filled by a workload, unmounted and
//! checked once in a session. Each run of a command that names `{image}` gets a copy beside its
//! scratch directory, so that no run can change what the next one finds.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use host::terminal::talk;
use plan::commands;
use records::{
    Event, Filled, Form, Image, Job, NativeJob, PROTOCOL, Pass, Point, Record, Storage, Until,
    Work, parse,
};
use setup::file_systems::sparse_copy::copy_sparse;
use setup::file_systems::{
    FileSystems, MountedFileSystem, check_file_system, kinds, make_directory, mount,
};
use setup::journal::Journal;

use crate::places::process;

/// Name of the image itself, in a session's directory.
const PRISTINE: &str = "pristine";

/// Refuses an image that makes no sense on any host, or that no command uses.
pub fn check_words(record: &Record) -> Result<()> {
    let Some(image) = &record.experiment.image else { return Ok(()) };
    check_file_system(&image.file_system).context("file system of the image")?;
    parse::bytes(&image.size.0).context("size of the image")?;
    let kind = kinds::kind(&image.file_system.kind)?;
    ensure!(kind.tools.is_some(), "{} has no image: it is in memory", kind.name);
    values(image).context("the workload that fills the image")?;
    ensure!(
        record.commands.values().any(|command| commands::uses(command).contains(commands::IMAGE)),
        "the experiment has an [image], but none of its commands uses {{image}}"
    );
    Ok(())
}

fn values(image: &Image) -> Result<BTreeMap<String, String>> {
    let workload = plan::workload(&image.workload)?;
    let given = image.parameters.iter().map(|(name, word)| (name.clone(), word.0.clone()));
    let values = workloads::Values::new(workload, &given.collect());
    Ok(values.map_err(anyhow::Error::msg)?.as_map().clone())
}

/// The images of one session, a directory each.
#[derive(Default)]
pub struct Images {
    made: Vec<(PathBuf, PathBuf)>,
}

impl Images {
    /// Makes the images, before anything is measured. Returns early if a signal asks knee to end.
    pub fn make(&mut self, journal: &mut Journal, record: &mut Record) -> Result<()> {
        let Some(image) = record.experiment.image.clone() else { return Ok(()) };
        let dirs: Vec<PathBuf> = commands::image_directories(record);
        mount::unshare_mounts()?;
        for dir in dirs {
            let directory = journal.directory(&dir, &record.id)?;
            let time_s = record.experiment.timeout_s;
            let made = make(journal, &directory, &image, time_s)
                .with_context(|| format!("making the image, {} filled", image.file_system))?;
            let Some(filled) = made else { break };
            talk(format_args!(
                "made the image in {:.1} s: {}, {} operations of {}, {} MiB of data",
                filled.seconds,
                image.file_system,
                filled.operations,
                image.workload,
                filled.bytes_used >> 20
            ));
            record.image = Some(filled);
            self.made.push((dir, directory.join(PRISTINE)));
        }
        Ok(())
    }

    /// Makes the copy for a run in `directory`, if its command uses one. The inner error is the run's.
    pub fn copy(
        &self,
        record: &Record,
        point: &Point,
        directory: &Path,
    ) -> Result<Result<Option<ImageCopy>>> {
        if !commands::needs_image(record, point) {
            return Ok(Ok(None));
        }
        let made = self.made.iter().find(|(dir, _)| *dir == point.dir);
        let (_, pristine) = made.context("there is no image for this directory")?;
        let path = directory.join(commands::IMAGE);
        Ok(copy_sparse(pristine, &path).map(|_| Some(ImageCopy(path))))
    }
}

/// A run's copy of the image, which is removed when this is dropped. After a crash, the next start
/// removes it with its directory.
pub struct ImageCopy(PathBuf);

impl Drop for ImageCopy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes, fills, unmounts and checks an image. Returns `None` if a signal interrupted it.
fn make(
    journal: &mut Journal,
    directory: &Path,
    image: &Image,
    time_s: f64,
) -> Result<Option<Filled>> {
    let since = Instant::now();
    let on = "loop".to_string();
    let storage = Storage { on, size: image.size.clone(), ..Storage::default() };
    let bytes = parse::bytes(&image.size.0)?;
    let time = Duration::from_secs_f64(time_s);
    let maker = FileSystems::on_storage(storage, bytes, time);
    // In a directory of its own: file systems that are kept have the same names.
    let filling = directory.join("filling");
    make_directory(&filling)?;
    let made = maker.make(journal, &filling, &image.file_system)?;
    let Some(operations) = fill(&made, image, time)? else { return Ok(None) };
    journal.undo_to(made.steps_before_mount)?;
    if let Some(complaint) = maker.complaint(&made) {
        bail!("after filling and unmounting it: {complaint}");
    }
    let shown = made.check_path.as_ref().context("an image lies in a file")?;
    let pristine = directory.join(PRISTINE);
    // Undoing the loop device removes the file's first name; this second one stays.
    fs::hard_link(shown, &pristine).with_context(|| format!("keeping {}", pristine.display()))?;
    journal.undo_to(made.steps_before)?;
    let metadata = fs::metadata(&pristine).with_context(|| format!("{}", pristine.display()))?;
    Ok(Some(Filled {
        operations,
        seconds: since.elapsed().as_secs_f64(),
        bytes_used: metadata.blocks() * 512,
        file_system: made.mounted,
    }))
}

/// Runs the workload in the mounted file system, and keeps its files. Returns how many operations it
/// did, or `None` if a signal interrupted it.
fn fill(made: &MountedFileSystem, image: &Image, time: Duration) -> Result<Option<u64>> {
    let workload = plan::workload(&image.workload)?;
    let cpus = probes::limits(Path::new("/")).cpus_allowed.map_err(anyhow::Error::msg)?;
    let job = Job {
        protocol: PROTOCOL,
        work: Work::Workload(NativeJob {
            name: workload.name.to_string(),
            semantics: workload.spec.semantics,
            parameters: values(image)?,
        }),
        form: Form::Processes,
        tasks: image.tasks,
        cpus: cpus.into_iter().collect(),
        until: Until::OperationsPerTask(image.operations_per_task),
        pass: Pass::Rate,
        profile: None,
        scratch: made.root.join("filled"),
        keep: true,
        beside: None,
        together: false,
        allocations: false,
        traced: false,
        daemon: None,
        stop_grace_s: 10.0,
    };
    let end = process::run(&job, None, time, |_| ())?;
    if end.interrupted {
        return Ok(None);
    }
    let reason = end.events.iter().find_map(|event| match event {
        Event::Failed { reason } => Some(reason.clone()),
        _ => None,
    });
    ensure!(
        end.events.last() == Some(&Event::Finished),
        "filling it with {}: {}",
        workload.name,
        reason.unwrap_or_else(|| format!("the worker {}", end.exit))
    );
    let operations = end.events.iter().map(|event| match event {
        Event::Task(task) => task.operations,
        _ => 0,
    });
    Ok(Some(operations.sum()))
}
