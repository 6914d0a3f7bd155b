//! From records to samples: what each record changes, and where each sample was, as addresses
//! in objects. Names come later.

use std::collections::HashMap;
use std::io::{Read, Seek};

use anyhow::{Context, Result, anyhow, bail, ensure};
use linux_perf_data::linux_perf_event_reader::constants::{
    PERF_CONTEXT_GUEST, PERF_CONTEXT_GUEST_KERNEL, PERF_CONTEXT_GUEST_USER, PERF_CONTEXT_HV,
    PERF_CONTEXT_KERNEL, PERF_CONTEXT_MAX, PERF_CONTEXT_USER,
};
use linux_perf_data::linux_perf_event_reader::{
    CpuMode, EventRecord, Mmap2FileId, PerfEventType, RecordType, SampleFormat, SampleRecord,
    SamplingPolicy, SoftwareCounterType,
};
use linux_perf_data::{AttributeDescription, PerfFileReader, PerfFileRecord};

use super::container::{Container, u32_at, u64_at, until_zero};
use super::spaces::{Mapping, Spaces};
use super::stream::Stream;
use super::{Chains, Loss, Object, Recording, Sample, SampledEvent, damaged, printable};
use crate::look::Mode;

/// The kernel is the first object; what runs in guests the second; the third is what lies in no
/// known object.
pub const KERNEL: u32 = 0;
const GUEST: u32 = 1;
const NOWHERE: u32 = 2;

/// A recording whose locations have no functions yet.
#[derive(Debug, Default)]
pub struct Gathered {
    pub recording: Recording,
    /// Places of all locations.
    pub places: Vec<Place>,
    /// Where the file says that the kernel and its modules lie.
    pub kernel: KernelMap,
    /// Build ids by path, as the file lists them.
    pub build_ids: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A place in the code: an object, and the address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub object: u32,
    pub address: u64,
}

/// What the file says about the kernel's addresses.
#[derive(Debug, Default)]
pub struct KernelMap {
    /// A symbol of the kernel and where it was: `_text`, `_stext`.
    pub reference: Option<(String, u64)>,
    /// Start, end and name of the kernel and its modules.
    pub mappings: Vec<(u64, u64, String)>,
    /// Start, end and name of code that was made while recording, such as BPF programs.
    pub symbols: Vec<(u64, u64, String)>,
}

/// Reads a whole file.
pub fn gather(mut source: impl Read + Seek) -> Result<Gathered> {
    let container = Container::read(&mut source)?;
    let (stream, met) = Stream::new(source, container);
    // What the stream has to say is better than what the parser makes of the end of it.
    let failure = || met.borrow().failure.clone().map(anyhow::Error::msg);
    let reader = PerfFileReader::parse_pipe(stream);
    let reader = reader.map_err(|e| failure().unwrap_or_else(|| explained(e)))?;
    let PerfFileReader { mut perf_file, mut record_iter } = reader;
    let mut gathering = Gathering::new(perf_file.event_attributes().to_vec());
    loop {
        let record = record_iter.next_record(&mut perf_file);
        match record.map_err(|e| failure().unwrap_or_else(|| explained(e)))? {
            Some(PerfFileRecord::EventRecord { attr_index, record }) => {
                gathering.take(attr_index, &record)?;
            }
            Some(PerfFileRecord::UserRecord(_)) => {}
            None => break,
        }
    }
    if let Some(failure) = failure() {
        return Err(failure);
    }
    let met = met.take();
    let mut gathered = gathering.finish(&met.features.event_names)?;
    gathered.recording.origin = met.features.origin;
    gathered.build_ids = met.features.build_ids;
    gathered.recording.all_cpus = all_cpus(&gathered.recording);
    if met.traces_bytes > 0 {
        gathered.recording.doubts.push("Traces of hardware in it were left out.".to_string());
    }
    Ok(gathered)
}

/// What the parser says, as the end of a sentence.
fn explained(error: linux_perf_data::Error) -> anyhow::Error {
    use linux_perf_data::Error;
    match error {
        Error::NoIdentifierDespiteMultiEvent(_)
        | Error::InconsistentSampleIdAllWithMultiEvent(_) => {
            anyhow!("it has several events that cannot be told apart: record one event")
        }
        Error::NoAttributes => damaged("it has no events"),
        other => damaged(other),
    }
}

/// Whether the recording was of all CPUs: only such have samples of the idle task, and perf was
/// told so.
fn all_cpus(recording: &Recording) -> bool {
    let told = recording.origin.command.iter().any(|word| {
        matches!(word.as_str(), "-a" | "--all-cpus" | "-C" | "--cpu")
            || word.starts_with("-C")
            || word.starts_with("--cpu=")
    });
    told || recording.samples.iter().any(|sample| sample.tid == 0)
}

/// What was gathered so far.
struct Gathering {
    attributes: Vec<AttributeDescription>,
    /// Samples of each event.
    samples: Vec<Vec<Sample>>,
    /// Ids of counters to events.
    recording: Recording,
    kernel: KernelMap,
    spaces: Spaces,
    objects: HashMap<(Vec<u8>, Vec<u8>), u32>,
    tasks: HashMap<Vec<u8>, u32>,
    task_of: HashMap<i32, u32>,
    places: Vec<Place>,
    place_index: HashMap<Place, u32>,
    chain_index: HashMap<Vec<u64>, u32>,
    /// Space and addresses of the chain at hand.
    key: Vec<u64>,
    /// Records that could not be read.
    broken: u64,
}

impl Gathering {
    fn new(attributes: Vec<AttributeDescription>) -> Gathering {
        let object = |path: &str| Object { path: path.to_string(), build_id: Vec::new() };
        let objects = vec![object("[kernel]"), object("[guest]"), object("[unknown]")];
        Gathering {
            samples: vec![Vec::new(); attributes.len()],
            attributes,
            recording: Recording { objects, ..Recording::default() },
            kernel: KernelMap::default(),
            spaces: Spaces::default(),
            objects: HashMap::new(),
            tasks: HashMap::new(),
            task_of: HashMap::new(),
            places: Vec::new(),
            place_index: HashMap::new(),
            chain_index: HashMap::new(),
            key: Vec::new(),
            broken: 0,
        }
    }

    fn take(
        &mut self,
        event: usize,
        record: &linux_perf_data::linux_perf_event_reader::RawEventRecord,
    ) -> Result<()> {
        let Ok(parsed) = record.parse() else {
            self.broken += 1;
            return Ok(());
        };
        match parsed {
            EventRecord::Sample(sample) => return self.sample(event, &sample),
            EventRecord::Comm(comm) => {
                let task = self.task(&comm.name.as_slice())?;
                self.task_of.insert(comm.tid, task);
                if comm.is_execve {
                    self.spaces.exec(comm.pid);
                }
            }
            EventRecord::Fork(fork) => {
                if let Some(task) = self.task_of.get(&fork.ptid).copied() {
                    self.task_of.insert(fork.tid, task);
                }
                self.spaces.fork(fork.ppid, fork.pid);
            }
            EventRecord::Mmap(map) if map.is_executable => {
                let range = (map.address, map.length, map.page_offset);
                self.map(map.pid, map.cpu_mode, range, &map.path.as_slice(), Vec::new())?;
            }
            EventRecord::Mmap2(map) if map.protection & 4 != 0 => {
                let id = match map.file_id {
                    Mmap2FileId::BuildId(id) => id,
                    Mmap2FileId::InodeAndVersion(_) => Vec::new(),
                };
                let range = (map.address, map.length, map.page_offset);
                self.map(map.pid, map.cpu_mode, range, &map.path.as_slice(), id)?;
            }
            EventRecord::Lost(lost) => self.loss(record.timestamp(), lost.count),
            EventRecord::Throttle(_) => self.recording.throttled += 1,
            EventRecord::Raw(raw) if raw.record_type == RecordType::LOST_SAMPLES => {
                let count = u64_at(&raw.data.as_slice(), 0).unwrap_or(0);
                self.loss(record.timestamp(), count);
            }
            EventRecord::Raw(raw) if raw.record_type == RecordType::KSYMBOL => {
                self.kernel_symbol(&raw.data.as_slice());
            }
            _ => {}
        }
        Ok(())
    }

    fn loss(&mut self, time_ns: Option<u64>, samples: u64) {
        if samples > 0 {
            self.recording.losses.push(Loss { time_ns: time_ns.unwrap_or(0), samples });
        }
    }

    /// Address, length, type, flags, name.
    fn kernel_symbol(&mut self, body: &[u8]) {
        let (Ok(start), Ok(length)) = (u64_at(body, 0), u32_at(body, 8)) else { return };
        let Some(name) = body.get(16..).map(until_zero).filter(|name| !name.is_empty()) else {
            return;
        };
        let end = start.saturating_add(u64::from(length));
        self.kernel.symbols.push((start, end, printable(name)));
    }

    fn map(
        &mut self,
        pid: i32,
        mode: CpuMode,
        (start, length, offset): (u64, u64, u64),
        path: &[u8],
        build_id: Vec<u8>,
    ) -> Result<()> {
        let path = until_zero(path);
        let end = start.saturating_add(length);
        match mode {
            CpuMode::Kernel => {
                self.map_kernel(start, end, offset, path);
                Ok(())
            }
            CpuMode::User => {
                let object = self.object(path, build_id)?;
                let mapping = Mapping { end, object, shift: offset.wrapping_sub(start) };
                self.spaces.map(pid, start, mapping)
            }
            _ => Ok(()),
        }
    }

    /// `[kernel.kallsyms]_text`: the symbol behind the bracket was at the offset.
    fn map_kernel(&mut self, start: u64, end: u64, offset: u64, path: &[u8]) {
        let name = printable(path);
        if let Some(symbol) = name.strip_prefix("[kernel.kallsyms]") {
            if !symbol.is_empty() && self.kernel.reference.is_none() {
                self.kernel.reference = Some((symbol.to_string(), offset));
            }
            self.kernel.mappings.push((start, end, "[kernel]".to_string()));
            return;
        }
        let file = name.rsplit('/').next().unwrap_or(&name);
        let module = file.split(".ko").next().unwrap_or(file).trim_matches(['[', ']']);
        self.kernel.mappings.push((start, end, format!("[{module}]")));
    }

    fn object(&mut self, path: &[u8], build_id: Vec<u8>) -> Result<u32> {
        let key = (path.to_vec(), build_id);
        if let Some(index) = self.objects.get(&key) {
            return Ok(*index);
        }
        let index = u32::try_from(self.recording.objects.len()).context("too many files")?;
        let path = printable(path);
        self.recording.objects.push(Object { path, build_id: key.1.clone() });
        self.objects.insert(key, index);
        Ok(index)
    }

    fn task(&mut self, name: &[u8]) -> Result<u32> {
        let name = until_zero(name);
        if let Some(index) = self.tasks.get(name) {
            return Ok(*index);
        }
        let index = u32::try_from(self.recording.tasks.len()).context("too many tasks")?;
        self.recording.tasks.push(printable(name));
        self.tasks.insert(name.to_vec(), index);
        Ok(index)
    }

    fn sample(&mut self, event: usize, sample: &SampleRecord) -> Result<()> {
        let mode = match sample.cpu_mode {
            CpuMode::User | CpuMode::GuestUser => Mode::User,
            _ => Mode::Kernel,
        };
        let (pid, tid) = (sample.pid.unwrap_or(-1), sample.tid.unwrap_or(-1));
        let task = match self.task_of.get(&tid).copied() {
            Some(task) => task,
            None if tid == 0 => self.task(b"swapper")?,
            None => self.task(b"[unknown]")?,
        };
        let chain = self.chain(pid, sample)?;
        let samples = self.samples.get_mut(event).ok_or_else(|| damaged("an unknown event"))?;
        samples.push(Sample {
            time_ns: sample.timestamp.unwrap_or(0),
            cpu: sample.cpu.unwrap_or(0),
            pid,
            tid,
            task,
            chain,
            period: sample.period.unwrap_or(0),
            mode,
        });
        Ok(())
    }

    /// The chain of a sample: found again where the same addresses meant the same before.
    fn chain(&mut self, pid: i32, sample: &SampleRecord) -> Result<u32> {
        let version = self.spaces.of(pid).map_or(0, |space| space.version);
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend([version, context(sample.cpu_mode)]);
        match &sample.callchain {
            Some(chain) if !chain.is_empty() => {
                key.extend((0..chain.len()).filter_map(|i| chain.get(i)));
            }
            _ => key.extend(sample.ip),
        }
        let chain = match self.chain_index.get(&key) {
            Some(chain) => *chain,
            None => {
                let chain = self.new_chain(pid, &key[1..])?;
                self.chain_index.insert(key.clone(), chain);
                chain
            }
        };
        self.key = key;
        Ok(chain)
    }

    /// Addresses with marks between them that say of which mode the following ones are.
    fn new_chain(&mut self, pid: i32, addresses: &[u64]) -> Result<u32> {
        let mut mode = PERF_CONTEXT_USER;
        let mut locations = Vec::with_capacity(addresses.len());
        let mut kernel_frames = 0;
        for &address in addresses {
            if address >= PERF_CONTEXT_MAX {
                mode = address;
                continue;
            }
            // A caller's address is that of the instruction after the call, which may be
            // another function's first.
            let at = if locations.is_empty() { address } else { address.saturating_sub(1) };
            let place = match mode {
                PERF_CONTEXT_KERNEL | PERF_CONTEXT_HV => Place { object: KERNEL, address: at },
                PERF_CONTEXT_GUEST | PERF_CONTEXT_GUEST_KERNEL | PERF_CONTEXT_GUEST_USER => {
                    Place { object: GUEST, address: 0 }
                }
                _ => self.user_place(pid, at),
            };
            kernel_frames += u32::from(mode == PERF_CONTEXT_KERNEL);
            locations.push(self.location(place)?);
        }
        let chains: &mut Chains = &mut self.recording.chains;
        chains.push(locations.into_iter(), kernel_frames).context("it has too many call chains")
    }

    fn user_place(&self, pid: i32, address: u64) -> Place {
        let found = self.spaces.of(pid).and_then(|space| space.find(address));
        // Nothing is said by a wild address, and each would be a row.
        let (object, address) = found.unwrap_or((NOWHERE, 0));
        Place { object, address }
    }

    fn location(&mut self, place: Place) -> Result<u32> {
        if let Some(index) = self.place_index.get(&place) {
            return Ok(*index);
        }
        let index = u32::try_from(self.places.len()).context("it has too many addresses")?;
        self.places.push(place);
        self.place_index.insert(place, index);
        Ok(index)
    }

    /// The event to go on with: of the clocks, else of all, the one with most samples.
    fn finish(mut self, names: &[String]) -> Result<Gathered> {
        let event = |index: usize| event(&self.attributes[index], names.get(index));
        let events: Vec<SampledEvent> = (0..self.attributes.len()).map(event).collect();
        let rank = |&index: &usize| {
            let samples = self.samples[index].len();
            (events[index].is_clock && samples > 0, samples, std::cmp::Reverse(index))
        };
        let chosen = (0..events.len()).max_by_key(rank).context("it has no events")?;
        let samples = std::mem::take(&mut self.samples[chosen]);
        ensure!(
            !samples.is_empty() || self.broken == 0,
            damaged(format!("none of {} records could be read", self.broken))
        );
        if samples.is_empty() {
            bail!("it has no samples: was anything running, and allowed to be seen?");
        }
        let others = events.iter().zip(&self.samples).filter(|(_, samples)| !samples.is_empty());
        self.recording.other_events =
            others.map(|(event, samples)| (event.name.clone(), samples.len() as u64)).collect();
        self.recording.samples = with_periods(samples, &self.attributes[chosen]);
        self.recording.samples.sort_by_key(|sample| sample.time_ns);
        if self.broken > 0 {
            let text = format!("{} records could not be read and were left out.", self.broken);
            self.recording.doubts.push(text);
        }
        self.recording.event = events[chosen].clone();
        Ok(Gathered {
            recording: self.recording,
            places: self.places,
            kernel: self.kernel,
            build_ids: Vec::new(),
        })
    }
}

/// The mark that a chain without marks would begin with.
fn context(mode: CpuMode) -> u64 {
    match mode {
        CpuMode::Kernel | CpuMode::Unknown => PERF_CONTEXT_KERNEL,
        CpuMode::Hypervisor => PERF_CONTEXT_HV,
        CpuMode::GuestKernel | CpuMode::GuestUser => PERF_CONTEXT_GUEST,
        _ => PERF_CONTEXT_USER,
    }
}

fn event(attribute: &AttributeDescription, name: Option<&String>) -> SampledEvent {
    let is_clock = matches!(
        attribute.attr.type_,
        PerfEventType::Software(SoftwareCounterType::CpuClock | SoftwareCounterType::TaskClock)
    );
    let hertz = match attribute.attr.sampling_policy {
        SamplingPolicy::Frequency(hertz) => Some(hertz),
        SamplingPolicy::Period(period) if is_clock => Some(1_000_000_000 / period.get().max(1)),
        _ => None,
    };
    let known = match attribute.attr.type_ {
        PerfEventType::Software(SoftwareCounterType::CpuClock) => "cpu-clock".to_string(),
        PerfEventType::Software(SoftwareCounterType::TaskClock) => "task-clock".to_string(),
        PerfEventType::Hardware(id, _) => format!("{id:?}"),
        _ => "an event without a name".to_string(),
    };
    let name = name.filter(|name| !name.is_empty()).cloned().unwrap_or(known);
    SampledEvent { name, is_clock, hertz }
}

/// Periods are recorded only where they vary; else the attribute has the one of all samples.
fn with_periods(mut samples: Vec<Sample>, attribute: &AttributeDescription) -> Vec<Sample> {
    /// No sample stands for more than a minute, or for that many events; sums of more would not
    /// fit their numbers.
    const PERIOD_MAX: u64 = 1 << 36;
    let recorded = attribute.attr.sample_format.contains(SampleFormat::PERIOD);
    let constant = match attribute.attr.sampling_policy {
        SamplingPolicy::Period(period) => period.get(),
        SamplingPolicy::Frequency(hertz) => 1_000_000_000 / hertz.max(1),
        SamplingPolicy::NoSampling => 1,
    };
    for sample in &mut samples {
        sample.period = if recorded { sample.period } else { constant }.clamp(1, PERIOD_MAX);
    }
    samples
}
