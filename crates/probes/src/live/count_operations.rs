//! Counts operations of followed tasks by BPF: at places in their programs, or at an event of the kernel.

use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, Object, TracepointCategory, UprobeOpts};

use super::bpf_object::{map, program, word};
use super::operations::PassedFile;
use crate::libbpf_log::with_log;

/// Begins to count. `links` keep the probes.
///
/// # Errors
/// The kernel cannot put a probe there.
pub fn attach(
    object: &Object,
    places: &[PassedFile],
    event: Option<(&str, &str)>,
    links: &mut Vec<Link>,
) -> Result<(), String> {
    const ANY_PROCESS: i32 = -1;
    let pass = program(object, "count_pass")?;
    for PassedFile { path, sites } in places {
        for site in sites {
            // The kernel counts the enabler up while the probe is there: without it, the program does not come by.
            let options =
                UprobeOpts { ref_ctr_offset: site.enabler as usize, ..UprobeOpts::default() };
            let link =
                pass.attach_uprobe_with_opts(ANY_PROCESS, path, site.offset as usize, options);
            links.push(link.map_err(|e| with_log(&format!("probing {}", path.display()), &e))?);
        }
    }
    if let Some((system, name)) = event {
        check_event(system, name)?;
        let category = TracepointCategory::Custom(system.to_string());
        let link = program(object, "count_event")?.attach_tracepoint(category, name);
        links.push(link.map_err(|e| with_log(&format!("tracing {system}:{name}"), &e))?);
    }
    Ok(())
}

/// Refuses an event that the kernel does not have.
fn check_event(system: &str, name: &str) -> Result<(), String> {
    const FOLDERS: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    let Some(events) = FOLDERS.into_iter().find(|folder| Path::new(folder).is_dir()) else {
        return Err("/sys/kernel/tracing is empty: mount -t tracefs tracefs /sys/kernel/tracing"
            .to_string());
    };
    let is_known = Path::new(events).join(system).join(name).is_dir();
    let why = || format!("the kernel has no event {system}:{name}: ls {events}/{system}");
    is_known.then_some(()).ok_or_else(why)
}

/// How often followed tasks have passed.
pub fn passes(object: &Object) -> Result<u64, String> {
    let counts = map(object, "passes")?.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let counts = counts.map_err(|e| format!("reading the count of operations: {e}"))?;
    Ok(counts.into_iter().flatten().filter_map(|bytes| word(&bytes, 0)).sum())
}
