//! `knee remote`: measures blocks for a knee on another host, which started this one over ssh. What both
//! say is in `fleet::remote`.

use std::fs;
use std::io::{BufWriter, Write, stdin, stdout};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fleet::remote::{Answer, Mirror, Request, read_line, send};
use fleet::why_full;
use host::signals;
use records::Experiment;
use runner::{End, Options, measure};
use setup::foreign::Permitted;
use store::Store;

use super::chunk;

/// Where this knee lies.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of this knee's own, which the shell around it removes
    directory: PathBuf,
}

/// Answers until standard input ends.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    signals::catch();
    remove_own_binary(&arguments.directory);
    let (asked, requests) = channel();
    thread::Builder::new()
        .spawn(move || listen(&asked))
        .context("starting the thread that listens to the other side")?;
    serve(&arguments.directory, &requests)?;
    Ok(ExitCode::SUCCESS)
}

/// A running program needs no name. However this one ends, its binary is gone then.
fn remove_own_binary(directory: &Path) {
    let path = directory.join("knee");
    if fs::read_link("/proc/self/exe").is_ok_and(|own| own == path) {
        let _ = fs::remove_file(path);
    }
}

/// Passes on what is asked. When the other side asks to stop or is gone, ends this process as a signal does:
/// the run in progress ends, and what was changed on this host is put back.
fn listen(asked: &Sender<Request>) {
    signals::block(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]);
    let mut stdin = stdin().lock();
    while let Ok(Some(request)) = read_line(&mut stdin) {
        if matches!(request, Request::Stop) || asked.send(request).is_err() {
            break;
        }
    }
    // SAFETY: a plain call; the handler only sets a flag.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
}

fn serve(directory: &Path, requests: &Receiver<Request>) -> Result<()> {
    // Not locked: pieces are sent by the thread that computed them.
    let mut out = BufWriter::new(stdout());
    let mut plan = None;
    let mut shares = 0;
    while signals::received().is_none() {
        match requests.recv_timeout(Duration::from_millis(200)) {
            Ok(Request::Check { plan: asked }) => {
                let refusal = chunk::refusal(&asked);
                let answer = match refusal.map(|why| why.or_else(|| why_full(directory))) {
                    Ok(None) => Answer::Fit,
                    Ok(Some(why)) => Answer::Unfit { why },
                    Err(why) => Answer::Unfit { why: format!("{why:#}") },
                };
                send(&mut out, &answer)?;
                plan = Some(*asked);
            }
            Ok(Request::Measure { blocks }) => {
                let plan = plan.as_ref().context("blocks are asked for before a plan")?;
                let records = directory.join(format!("records-{shares}"));
                shares += 1;
                let answer = measure_share(&plan.experiment, blocks, &records, &mut out)?;
                send(&mut out, &answer)?;
            }
            Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => (),
        }
    }
    Ok(())
}

/// Measures blocks, and sends the record while it grows.
fn measure_share(
    experiment: &Experiment,
    blocks: Vec<u32>,
    records: &Path,
    out: &mut impl Write,
) -> Result<Answer> {
    let options = Options { blocks: Some(blocks), ..Options::default() };
    let mut mirror = Mirror::new(records);
    let (mut runs, mut sent) = (0, Ok(()));
    let store = Store::at(records.to_path_buf());
    // The user of this account asks, who can start any program here: a knee over ssh is the way here.
    let experiment = Permitted::typed(experiment.clone());
    let measured = measure(experiment, options, &store, &mut |_, run| {
        runs += 1;
        // The reader of a closed stream is gone, and soon this process too.
        if sent.is_ok() {
            let failed = !run.finished();
            sent = mirror.send(out).and_then(|()| send(out, &Answer::Run { runs, failed }));
        }
        ControlFlow::Continue(())
    });
    sent?;
    mirror.send(out)?;
    Ok(match measured {
        Ok(measured) => Answer::Ended { interrupted: measured.end == End::Interrupted },
        Err(why) => Answer::Broke { why: format!("{why:#}") },
    })
}
