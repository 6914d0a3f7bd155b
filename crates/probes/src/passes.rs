//! Counts how often tasks pass a place in a program, with uprobes through perf. The kernel puts a breakpoint
//! there in every process that maps the file: a pass takes about 1 us longer.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use perf_data::probe_sites;
use records::ProgramProbe;

use crate::perf_event::{self, EventAttributes};

/// Counts from now on, on some CPUs.
pub struct Passes(Vec<File>);

/// Bits 32 to 63 of the configuration: where the counter is that enables a static tracepoint.
const ENABLER_SHIFT: u32 = 32;

impl Passes {
    /// Begins to count the passes of all tasks on these CPUs. An error says what is missing.
    pub fn begin(file: &Path, probe: &ProgramProbe, cpus: &[u32]) -> Result<Passes, String> {
        let failed = |why: String| format!("counting operations by {probe}: {why}");
        Passes::open(file, probe, cpus).map_err(failed)
    }

    fn open(file: &Path, probe: &ProgramProbe, cpus: &[u32]) -> Result<Passes, String> {
        const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";
        let kind = fs::read_to_string(KIND).map_err(|e| format!("{KIND}: {e}"))?;
        let kind = kind.trim().parse().map_err(|_| format!("{KIND} is no number"))?;
        let sites = probe_sites(file, &probe.place).map_err(|why| format!("{why:#}"))?;
        let path = CString::new(file.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        let mut events = Vec::new();
        for site in sites {
            let configuration = site.enabler << ENABLER_SHIFT;
            let event = EventAttributes::new(kind, configuration, 0, 0).at(&path, site.offset);
            for cpu in cpus {
                let opened = perf_event::open(&event, (-1, *cpu as i32));
                let opened = opened.map_err(|why| {
                    format!(
                        "{why} (a probe needs root; otherwise say how many operations there are)"
                    )
                })?;
                events.push(File::from(opened));
            }
        }
        Ok(Passes(events))
    }

    /// How many passes there were.
    pub fn count(&mut self) -> Result<u64, String> {
        let mut sum = 0;
        for event in &mut self.0 {
            let mut count = [0; 8];
            event.read_exact(&mut count).map_err(|e| format!("reading a probe's count: {e}"))?;
            sum += u64::from_ne_bytes(count);
        }
        Ok(sum)
    }
}
