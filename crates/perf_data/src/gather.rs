//! From records to samples: applies each record, and finds the location of each sample as addresses in
//! objects. `resolve` adds the names.

use std::hash::BuildHasher;

use anyhow::{Context, Result, bail, ensure};
use hashbrown::{DefaultHashBuilder, HashTable};
use records::CpuMode;

use crate::attribute::{Attribute, Sampled, SamplingRate};
use crate::container::{Container, until_zero};
use crate::events::{Events, Record};
use crate::order::ByteOrder;
use crate::spaces::{Mapping, Spaces};
use records::recording::{Chains, Loss, Object, PerfSample, Recording, SampledEvent};

use crate::{Map, damaged, printable};

/// Types of the kernel's records (`PERF_RECORD_*` in include/uapi/linux/perf_event.h).
const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const KSYMBOL: u32 = 17;

/// Bits of a record's `misc` (`PERF_RECORD_MISC_*`); their meaning depends on the record.
const CPU_MODE: u16 = 7;
const OF_KERNEL: u16 = 1;
const OF_USER: u16 = 2;
const OF_HYPERVISOR: u16 = 3;
const OF_GUEST_KERNEL: u16 = 4;
const OF_GUEST_USER: u16 = 5;
const DATA: u16 = 1 << 13;
const EXEC: u16 = 1 << 13;
const HAS_BUILD_ID: u16 = 1 << 14;

/// Marks among the addresses of a chain (`CONTEXT_*`), down to the lowest.
const CONTEXT_HYPERVISOR: u64 = -32_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
const CONTEXT_GUEST: u64 = -2048_i64 as u64;
const CONTEXT_GUEST_KERNEL: u64 = -2176_i64 as u64;
const CONTEXT_GUEST_USER: u64 = -2560_i64 as u64;
const CONTEXT_LOWEST: u64 = -4095_i64 as u64;

/// Index of the kernel in the objects. Code in guests is the second object, and the third is for
/// addresses in no known object.
pub const KERNEL: u32 = 0;
const GUEST: u32 = 1;
const NOWHERE: u32 = 2;

/// A recording whose locations have no functions yet.
#[derive(Debug, Default)]
pub struct Gathered {
    pub recording: Recording,
    /// Code addresses of all locations.
    pub sites: Vec<CodeSite>,
    /// The addresses of the kernel and its modules in the file.
    pub kernel: KernelMap,
    /// Paths and build ids, as the file lists them.
    pub build_ids: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An address in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeSite {
    pub object: u32,
    pub address: u64,
}

/// The kernel's addresses in the file.
#[derive(Debug, Default)]
pub struct KernelMap {
    /// A symbol of the kernel and its address: `_text`, `_stext`.
    pub reference: Option<(String, u64)>,
    /// Start, end and name of the kernel and its modules.
    pub mappings: Vec<(u64, u64, String)>,
    /// Start, end and name of code that was created during the recording, such as BPF programs.
    pub symbols: Vec<(u64, u64, String)>,
}

/// Reads all records of a container.
pub fn gather(container: Container) -> Result<Gathered> {
    let mut inflated = Vec::new();
    let events = Events::read(container, &mut inflated)?;
    let mut gathering = Gathering::new(events.attributes.len(), events.order);
    for (time_ns, event, record) in events.records() {
        if record.kind == SAMPLE {
            match events.attributes[event].sample(record.body) {
                Some(sample) => gathering.sample(event, time_ns, mode(record.misc), &sample)?,
                None => gathering.broken += 1,
            }
        } else if gathering.take(time_ns, &record)?.is_none() {
            gathering.broken += 1;
        }
    }
    gathering.finish(events)
}

/// Whether all CPUs were recorded: perf's command line has the option, or there are samples of the idle
/// task, which only such recordings have.
fn all_cpus(recording: &Recording) -> bool {
    let has_option = recording.origin.command.iter().any(|word| {
        matches!(word.as_str(), "-a" | "--all-cpus" | "-C" | "--cpu")
            || word.starts_with("-C")
            || word.starts_with("--cpu=")
    });
    has_option || recording.samples.iter().any(|sample| sample.tid == 0)
}

/// The recording so far, while records are read.
struct Gathering {
    order: ByteOrder,
    /// Samples of each event.
    samples: Vec<Vec<PerfSample>>,
    recording: Recording,
    kernel: KernelMap,
    spaces: Spaces,
    objects: Map<(Vec<u8>, Vec<u8>), u32>,
    tasks: Map<Vec<u8>, u32>,
    task_of: Map<i32, u32>,
    sites: Vec<CodeSite>,
    site_index: Map<CodeSite, u32>,
    chains: ChainIndex,
    /// Buffers, for the key of the current chain (space and addresses) and for its locations.
    key: Vec<u64>,
    located: Vec<u32>,
    /// Records that could not be read.
    broken: u64,
}

impl Gathering {
    fn new(events: usize, order: ByteOrder) -> Gathering {
        let object = |path: &str| Object { path: path.to_string(), build_id: Vec::new() };
        let objects = vec![object("[kernel]"), object("[guest]"), object("[unknown]")];
        Gathering {
            order,
            samples: vec![Vec::new(); events],
            recording: Recording { objects, ..Recording::default() },
            kernel: KernelMap::default(),
            spaces: Spaces::default(),
            objects: Map::default(),
            tasks: Map::default(),
            task_of: Map::default(),
            sites: Vec::new(),
            site_index: Map::default(),
            chains: ChainIndex::default(),
            key: Vec::new(),
            located: Vec::new(),
            broken: 0,
        }
    }

    /// Applies any record except a sample; `None` if it is too short for its kind.
    fn take(&mut self, time_ns: u64, record: &Record) -> Result<Option<()>> {
        let (order, body) = (self.order, record.body);
        let id = |at| order.u32_at(body, at).map(|id| id as i32);
        let number = |at| order.u64_at(body, at);
        match record.kind {
            MMAP | MMAP2 => return self.take_map(record),
            COMM => {
                let (Some(pid), Some(tid)) = (id(0), id(4)) else { return Ok(None) };
                let task = self.task(&body[8..])?;
                self.task_of.insert(tid, task);
                if record.misc & EXEC != 0 {
                    self.spaces.exec(pid);
                }
            }
            FORK => {
                let (Some(pid), Some(parent)) = (id(0), id(4)) else { return Ok(None) };
                let (Some(tid), Some(parent_tid)) = (id(8), id(12)) else { return Ok(None) };
                if let Some(task) = self.task_of.get(&parent_tid).copied() {
                    self.task_of.insert(tid, task);
                }
                self.spaces.fork(parent, pid);
            }
            LOST | LOST_SAMPLES => {
                let at = if record.kind == LOST { 8 } else { 0 };
                let Some(samples) = number(at) else { return Ok(None) };
                self.loss(time_ns, samples);
            }
            THROTTLE => self.recording.throttled += 1,
            KSYMBOL => return Ok(self.kernel_symbol(body)),
            _ => {}
        }
        Ok(Some(()))
    }

    /// Applies the mapping of a file; only code matters.
    fn take_map(&mut self, record: &Record) -> Result<Option<()>> {
        let (order, body) = (self.order, record.body);
        let number = |at| order.u64_at(body, at);
        let (Some(pid), Some(start)) = (order.u32_at(body, 0), number(8)) else { return Ok(None) };
        let (Some(length), Some(offset)) = (number(16), number(24)) else { return Ok(None) };
        let (path, is_code, build_id) = match record.kind {
            MMAP => (body.get(32..), record.misc & DATA == 0, Vec::new()),
            _ => {
                let Some(protection) = order.u32_at(body, 56) else { return Ok(None) };
                let id = if record.misc & HAS_BUILD_ID != 0 {
                    body[36..36 + usize::from(body[32]).min(20)].to_vec()
                } else {
                    Vec::new()
                };
                (body.get(64..), protection & 4 != 0, id)
            }
        };
        let Some(path) = path else { return Ok(None) };
        if is_code {
            let range = (start, length, offset);
            self.map(pid as i32, record.misc & CPU_MODE, range, path, build_id)?;
        }
        Ok(Some(()))
    }

    fn loss(&mut self, time_ns: u64, samples: u64) {
        if samples > 0 {
            self.recording.losses.push(Loss { time_ns, samples });
        }
    }

    /// Applies a kernel symbol: address, length, type, flags, name.
    fn kernel_symbol(&mut self, body: &[u8]) -> Option<()> {
        let start = self.order.u64_at(body, 0)?;
        let length = self.order.u32_at(body, 8)?;
        let name = until_zero(body.get(16..)?);
        if !name.is_empty() {
            let end = start.saturating_add(u64::from(length));
            self.kernel.symbols.push((start, end, printable(name)));
        }
        Some(())
    }

    fn map(
        &mut self,
        pid: i32,
        mode: u16,
        (start, length, offset): (u64, u64, u64),
        path: &[u8],
        build_id: Vec<u8>,
    ) -> Result<()> {
        let path = until_zero(path);
        let end = start.saturating_add(length);
        match mode {
            OF_KERNEL => {
                self.map_kernel(start, end, offset, path);
                Ok(())
            }
            OF_USER => {
                let object = self.object(path, build_id)?;
                let mapping = Mapping { end, object, shift: offset.wrapping_sub(start) };
                self.spaces.map(pid, start, mapping)
            }
            _ => Ok(()),
        }
    }

    /// Maps the kernel or a module. `[kernel.kallsyms]_text`: the offset is the address of the symbol after
    /// the bracket.
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

    fn sample(
        &mut self,
        event: usize,
        time_ns: u64,
        (mode, mark): (CpuMode, u64),
        sample: &Sampled,
    ) -> Result<()> {
        let (pid, tid) = (sample.pid.unwrap_or(-1), sample.tid.unwrap_or(-1));
        let task = match self.task_of.get(&tid).copied() {
            Some(task) => task,
            None if tid == 0 => self.task(b"swapper")?,
            None => self.task(b"[unknown]")?,
        };
        let chain = self.chain(pid, mark, sample)?;
        self.samples[event].push(PerfSample {
            time_ns,
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

    /// The chain of a sample: the earlier one, if the same addresses in the same space were seen before.
    fn chain(&mut self, pid: i32, mark: u64, sample: &Sampled) -> Result<u32> {
        let version = self.spaces.get(pid).map_or(0, |space| space.version);
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend([version, mark]);
        match sample.chain {
            [] => key.extend(sample.ip),
            chain => key.extend(self.order.u64s(chain)),
        }
        let chain = match self.chains.recorded_before(&key) {
            Some(chain) => chain,
            None => {
                let chain = self.new_chain(pid, &key[1..])?;
                self.chains.keep(&key, chain).context("it has too many call chains")?;
                chain
            }
        };
        self.key = key;
        Ok(chain)
    }

    /// The chain of these addresses. Marks between them tell the mode of the following addresses.
    fn new_chain(&mut self, pid: i32, addresses: &[u64]) -> Result<u32> {
        let mut mode = CONTEXT_USER;
        let mut locations = std::mem::take(&mut self.located);
        locations.clear();
        let mut kernel_frames = 0;
        for &address in addresses {
            if address >= CONTEXT_LOWEST {
                mode = address;
                continue;
            }
            // A caller's address is that of the instruction after the call, which may be the first
            // of another function.
            let at = if locations.is_empty() { address } else { address.saturating_sub(1) };
            let site = match mode {
                CONTEXT_KERNEL | CONTEXT_HYPERVISOR => CodeSite { object: KERNEL, address: at },
                CONTEXT_GUEST | CONTEXT_GUEST_KERNEL | CONTEXT_GUEST_USER => {
                    CodeSite { object: GUEST, address: 0 }
                }
                _ => self.user_site(pid, at),
            };
            kernel_frames += u32::from(mode == CONTEXT_KERNEL);
            locations.push(self.location(site)?);
        }
        let chains = &mut self.recording.chains;
        let chain = self.chains.same_or_new(chains, &locations, kernel_frames);
        self.located = locations;
        chain.context("it has too many call chains")
    }

    fn user_site(&self, pid: i32, address: u64) -> CodeSite {
        let found = self.spaces.get(pid).and_then(|space| space.find(address));
        // Wild addresses mean nothing, and each would become a row of its own.
        let (object, address) = found.unwrap_or((NOWHERE, 0));
        CodeSite { object, address }
    }

    fn location(&mut self, site: CodeSite) -> Result<u32> {
        if let Some(index) = self.site_index.get(&site) {
            return Ok(*index);
        }
        let index = u32::try_from(self.sites.len()).context("it has too many addresses")?;
        self.sites.push(site);
        self.site_index.insert(site, index);
        Ok(index)
    }

    /// Chooses the event: of the clocks, else of all events, the one with most samples.
    fn finish(mut self, events: Events) -> Result<Gathered> {
        let Events { attributes, features, traces_bytes, foreign_bytes, .. } = events;
        let event = |index: usize| event(&attributes[index], features.event_names.get(index));
        let events: Vec<SampledEvent> = (0..attributes.len()).map(event).collect();
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
            bail!("it has no samples: was a task running, and may this user sample it?");
        }
        let others = events.iter().zip(&self.samples).filter(|(_, samples)| !samples.is_empty());
        self.recording.other_events =
            others.map(|(event, samples)| (event.name.clone(), samples.len() as u64)).collect();
        self.recording.samples = with_periods(samples, &attributes[chosen]);
        self.recording.event = events[chosen].clone();
        self.recording.origin = features.origin;
        self.recording.all_cpus = all_cpus(&self.recording);
        if traces_bytes > 0 {
            self.recording.warnings.push("Its hardware traces were left out.".to_string());
        }
        if foreign_bytes > 0 {
            let text = format!(
                "Its last {foreign_bytes} bytes are no records and were left out: the program printed into perf's pipe."
            );
            self.recording.warnings.push(text);
        }
        if self.broken > 0 {
            let text = format!("{} records could not be read and were left out.", self.broken);
            self.recording.warnings.push(text);
        }
        Ok(Gathered {
            recording: self.recording,
            sites: self.sites,
            kernel: self.kernel,
            build_ids: features.build_ids,
        })
    }
}

/// Finds equal chains in two steps: by the recorded space and addresses, and by their locations. Processes
/// of one program have different addresses, but equal locations.
#[derive(Default)]
struct ChainIndex {
    state: DefaultHashBuilder,
    /// Recorded keys, one after the other; for each key its end and its chain.
    keys: Vec<u64>,
    ends: Vec<(usize, u32)>,
    /// Indices into `ends`, and into the chains.
    recorded: HashTable<u32>,
    by_locations: HashTable<u32>,
}

impl ChainIndex {
    fn recorded_before(&self, key: &[u64]) -> Option<u32> {
        let is_key = |index: &u32| nth(&self.keys, &self.ends, *index) == key;
        let found = self.recorded.find(self.state.hash_one(key), is_key)?;
        Some(self.ends[*found as usize].1)
    }

    fn keep(&mut self, key: &[u64], chain: u32) -> Option<()> {
        let index = u32::try_from(self.ends.len()).ok()?;
        self.keys.extend_from_slice(key);
        self.ends.push((self.keys.len(), chain));
        let (state, keys, ends) = (&self.state, &self.keys, &self.ends);
        let hash = |index: &u32| state.hash_one(nth(keys, ends, *index));
        self.recorded.insert_unique(state.hash_one(key), index, hash);
        Some(())
    }

    fn same_or_new(&mut self, chains: &mut Chains, locations: &[u32], kernel: u32) -> Option<u32> {
        let state = &self.state;
        let hash_of = |chains: &Chains, chain: u32| {
            state.hash_one((chains.locations(chain), chains.kernel_frames(chain)))
        };
        let hash = state.hash_one((locations, kernel as usize));
        let is_same = |chain: &u32| {
            chains.locations(*chain) == locations && chains.kernel_frames(*chain) == kernel as usize
        };
        if let Some(chain) = self.by_locations.find(hash, is_same) {
            return Some(*chain);
        }
        let chain = chains.push(locations.iter().copied(), kernel)?;
        self.by_locations.insert_unique(hash, chain, |chain| hash_of(chains, *chain));
        Some(chain)
    }
}

fn nth<'a>(keys: &'a [u64], ends: &[(usize, u32)], index: u32) -> &'a [u64] {
    let start = index.checked_sub(1).map_or(0, |before| ends[before as usize].0);
    &keys[start..ends[index as usize].0]
}

/// The mode of the CPU, and the mark for a chain that begins without one.
fn mode(misc: u16) -> (CpuMode, u64) {
    match misc & CPU_MODE {
        OF_USER => (CpuMode::User, CONTEXT_USER),
        OF_GUEST_USER => (CpuMode::User, CONTEXT_GUEST),
        OF_GUEST_KERNEL => (CpuMode::Kernel, CONTEXT_GUEST),
        OF_HYPERVISOR => (CpuMode::Kernel, CONTEXT_HYPERVISOR),
        _ => (CpuMode::Kernel, CONTEXT_KERNEL),
    }
}

fn event(attribute: &Attribute, name: Option<&String>) -> SampledEvent {
    let is_clock = attribute.is_clock();
    let hertz = match attribute.rate() {
        SamplingRate::Hertz(hertz) => Some(hertz),
        SamplingRate::Period(period) if is_clock => Some(1_000_000_000 / period.max(1)),
        _ => None,
    };
    let name = name.filter(|name| !name.is_empty()).cloned();
    let name = name.unwrap_or_else(|| attribute.name().to_string());
    SampledEvent { name, is_clock, hertz }
}

/// The samples with their periods. They are recorded only if they vary; else the attribute has the period
/// of all samples.
fn with_periods(mut samples: Vec<PerfSample>, attribute: &Attribute) -> Vec<PerfSample> {
    /// The most that a sample can stand for: about a minute. Sums of more could overflow.
    const PERIOD_MAX: u64 = 1 << 36;
    let constant = match attribute.rate() {
        SamplingRate::Period(period) => period,
        SamplingRate::Hertz(hertz) => 1_000_000_000 / hertz.max(1),
        SamplingRate::Never => 1,
    };
    let recorded = attribute.has_periods();
    for sample in &mut samples {
        sample.period = if recorded { sample.period } else { constant }.clamp(1, PERIOD_MAX);
    }
    samples
}
