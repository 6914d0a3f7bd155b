//! The BPF programs of a look where the kernel runs them: some as long as the look lasts, those of switches not in its pauses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use libbpf_rs::{Link, Object, OpenObject};

use super::online;
use crate::ledger::programs::root_of;
use crate::libbpf_log::with_log;
use crate::live::bpf_object::program;
use crate::perf_event::{self, EventAttributes};

/// The programs that see rare events, which a look must not miss: a child that is not marked is never followed.
const ALWAYS: [&str; 3] = ["live_fork", "live_contention_end", "live_contention_begin"];
/// Those that see each switch: what wakes before what it remembers is used.
const SWITCHES: [&str; 2] = ["live_waking", "live_switch"];
const FORK: &str = "live_fork";
const SAMPLER: &str = "live_sample";
/// The programs on functions of Go's runtime.
const GO: [&str; 2] = ["go_waits", "go_wakes"];

/// Attached programs. Dropping a link detaches its program.
pub struct Attached {
    /// Links of the programs that stay attached in pauses.
    pub always: Vec<Link>,
    switches: Vec<Link>,
    go: Vec<GoProgram>,
    /// Device and number of the files that were looked at for Go's runtime.
    seen: BTreeSet<(u64, u64)>,
}

impl Attached {
    /// Attaches all programs but those that walk threads; those without which something is seen may be missing.
    ///
    /// # Errors
    /// The kernel refuses one without which there is nothing to see.
    pub fn begin(
        object: &Object,
        hertz: u32,
        missing: &mut BTreeMap<String, String>,
    ) -> Result<Attached, String> {
        let mut always = Vec::new();
        for name in ALWAYS {
            match attach(object, name) {
                Ok(link) => always.push(link),
                Err(why) if name == FORK => return Err(why),
                Err(why) => drop(missing.insert(name.to_string(), why)),
            }
        }
        if let Err(why) = sample(object, hertz, &mut always) {
            missing.insert("samples".to_string(), why);
        }
        let mut attached =
            Attached { always, switches: Vec::new(), go: Vec::new(), seen: BTreeSet::new() };
        attached.attach_switches(object)?;
        Ok(attached)
    }

    /// Detaches what sees switches.
    pub fn pause(&mut self) {
        self.switches.clear();
    }

    /// Attaches it again.
    ///
    /// # Errors
    /// The kernel refuses it now; then nothing of it is attached.
    pub fn resume(&mut self, object: &Object) -> Result<(), String> {
        let all_go = (0..self.go.len()).try_for_each(|which| self.attach_go(object, which));
        let attached = all_go.and_then(|()| self.attach_switches(object));
        attached.inspect_err(|_| self.switches.clear())
    }

    /// Watches the programs of these processes that are of Go: at once, or after the pause.
    ///
    /// # Errors
    /// The kernel refuses one; it is not tried again.
    pub fn add_go(
        &mut self,
        object: &Object,
        processes: &[u32],
        is_paused: bool,
    ) -> Result<(), String> {
        for process in processes {
            let Ok(file) = fs::metadata(format!("/proc/{process}/exe")) else { continue };
            if !self.seen.insert((file.dev(), file.ino())) {
                continue;
            }
            let Some(go) = GoProgram::of(*process) else { continue };
            self.go.push(go);
            if !is_paused && let Err(why) = self.attach_go(object, self.go.len() - 1) {
                self.go.pop();
                return Err(why);
            }
        }
        Ok(())
    }

    fn attach_switches(&mut self, object: &Object) -> Result<(), String> {
        for name in SWITCHES {
            self.switches.push(attach(object, name)?);
        }
        Ok(())
    }

    /// Watches one of the programs of Go, in whatever process it runs.
    fn attach_go(&mut self, object: &Object, which: usize) -> Result<(), String> {
        const ANY_PROCESS: i32 = -1;
        let go = &self.go[which];
        let attach = |(name, place): (&&str, &u64)| {
            let program = program(object, name)?;
            let link = program.attach_uprobe(false, ANY_PROCESS, &go.path, *place as usize);
            link.map_err(|e| with_log("attaching to Go's runtime", &e))
        };
        let links: Result<Vec<Link>, String> = GO.iter().zip(&go.places).map(attach).collect();
        self.switches.extend(links?);
        Ok(())
    }
}

fn attach(object: &Object, name: &str) -> Result<Link, String> {
    program(object, name)?.attach().map_err(|e| format!("attaching {name}: {e}"))
}

/// Takes samples on every CPU that is online.
fn sample(object: &Object, hertz: u32, links: &mut Vec<Link>) -> Result<(), String> {
    let attributes = EventAttributes::new(
        perf_event::TYPE_SOFTWARE,
        perf_event::COUNT_SW_CPU_CLOCK,
        u64::from(hertz),
        perf_event::FREQUENCY,
    );
    let program = program(object, SAMPLER)?;
    for cpu in online()? {
        // From here on the link owns the event, and closes it.
        let event = perf_event::open(&attributes, (-1, cpu as i32))?.into_raw_fd();
        let link = program.attach_perf_event(event);
        links.push(link.map_err(|e| format!("sampling CPU {cpu}: {e}"))?);
    }
    Ok(())
}

/// Has the programs on Go's runtime loaded where they can read its registers.
pub fn load_go(open: &mut OpenObject) {
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if GO.contains(&name.as_str()) {
            program.set_autoload(cfg!(target_arch = "x86_64"));
        }
    }
}

/// A program of Go, with the places of the functions in which goroutines begin to wait and are made ready.
struct GoProgram {
    path: PathBuf,
    places: Vec<u64>,
}

impl GoProgram {
    /// The program of a process, if it is one of Go. The probes read Go's registers of amd64 alone.
    fn of(process: u32) -> Option<GoProgram> {
        // runtime/sema.go: the only ways in and out of a queue.
        const FUNCTIONS: [&str; 2] = ["runtime.semacquire1", "runtime.readyWithTime"];
        let path = fs::read_link(format!("/proc/{process}/exe")).ok()?;
        let path = PathBuf::from(format!("{}{}", root_of(process), path.display()));
        let places = perf_data::function_places(&path, &FUNCTIONS).ok()?;
        let places: Vec<u64> = places.into_iter().flatten().collect();
        (cfg!(target_arch = "x86_64") && places.len() == GO.len())
            .then_some(GoProgram { path, places })
    }
}
