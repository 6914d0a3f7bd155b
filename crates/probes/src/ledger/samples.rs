//! Samples of what the CPUs execute: taken by a perf event on each CPU's clock, passed through a
//! ring buffer, named and folded after the run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::IntoRawFd;
use std::rc::Rc;

use libbpf_rs::{Link, MapCore, Object, RingBuffer, RingBufferBuilder};
use records::{Base, CpuMode, CpuState, SampledStacks, Stack};

use super::load::SAMPLER;
use super::programs::{CodeLocation, Programs};
use super::{calls, raw};
use crate::perf_event::{self, EventAttributes};
use perf_data::Symbols;

/// One `struct sample` of `samples.bpf.h`: a sample, a wait for a lock, or an IPI sent.
#[derive(Clone, Debug, PartialEq)]
pub struct RawSample {
    base: Base,
    state: CpuState,
    mode: CpuMode,
    /// Frames in the kernel, innermost first.
    pub kernel: Vec<u64>,
    process: u32,
    /// Frames in user mode, innermost first.
    user: Vec<u64>,
    /// The first words of the callers' stack, if the innermost frame is in the vdso.
    stack: Vec<u64>,
    /// The locations of the user frames, filled in by [`StackSampler::drain`].
    user_locations: Vec<CodeLocation>,
    /// The address of the lock, if this is a wait.
    pub lock: Option<u64>,
    /// The number of its count (how it was sent), if this is an IPI sent.
    pub sent: Option<u64>,
    /// The number of the system call that the task was in. Of a wait: the task that had the lock.
    call: Option<u64>,
    /// Who had the lock, if this is a wait for one that knows.
    pub holder: Option<Holder>,
}

/// Who has a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Tasks that read.
    Readers,
    /// A task of the workload.
    Work,
    /// Another task, by name.
    Other(String),
}

impl RawSample {
    /// Who had the lock, and in which call: "pwrite64", "kworker", "readers". `None` if this is no wait, or for a
    /// lock that does not know.
    pub fn held_by(&self) -> Option<String> {
        let call = self.call.map(calls::name);
        Some(match (self.holder.as_ref()?, call) {
            (Holder::Readers, _) => "readers".to_string(),
            (Holder::Work, Some(call)) => call,
            (Holder::Work, None) => "the workload, in no call".to_string(),
            (Holder::Other(name), Some(call)) => format!("{name} in {call}"),
            (Holder::Other(name), None) => name.clone(),
        })
    }
}

/// Takes samples until it is dropped.
pub struct StackSampler {
    ring: RingBuffer<'static>,
    arrived: Rc<RefCell<Vec<RawSample>>>,
    programs: RefCell<Programs>,
    /// The number of arrived samples whose user frames have locations.
    located: Cell<usize>,
    _links: Vec<Link>,
}

impl StackSampler {
    /// Starts to sample these CPUs. With 0 Hz it only receives what other programs send.
    pub fn start(object: &Object, cpus: &[u32], hertz: u32) -> Result<StackSampler, String> {
        let ring = object.maps().find(|map| map.name() == "samples");
        let ring = ring.ok_or("internal error: no BPF map of samples")?;
        let arrived = Rc::new(RefCell::new(Vec::new()));
        let into = arrived.clone();
        let mut builder = RingBufferBuilder::new();
        let read = move |bytes: &[u8]| {
            into.borrow_mut().extend(RawSample::read(bytes));
            0
        };
        builder.add(&ring, read).map_err(|e| format!("opening the ring of samples: {e}"))?;
        let ring = builder.build().map_err(|e| format!("opening the ring of samples: {e}"))?;
        if hertz == 0 {
            return Ok(StackSampler::new(ring, arrived, Vec::new()));
        }
        let program = object.progs_mut().find(|program| program.name() == SAMPLER);
        let program = program.ok_or("internal error: no BPF program takes samples")?;
        let attributes = EventAttributes::new(
            perf_event::TYPE_SOFTWARE,
            perf_event::COUNT_SW_CPU_CLOCK,
            u64::from(hertz),
            perf_event::FREQUENCY,
        );
        let attach = |cpu: &u32| {
            // From here on the link owns the event, and closes it.
            let event = perf_event::open(&attributes, (-1, *cpu as i32))?.into_raw_fd();
            program.attach_perf_event(event).map_err(|e| format!("sampling CPU {cpu}: {e}"))
        };
        let links = cpus.iter().map(attach).collect::<Result<_, String>>()?;
        Ok(StackSampler::new(ring, arrived, links))
    }

    fn new(
        ring: RingBuffer<'static>,
        arrived: Rc<RefCell<Vec<RawSample>>>,
        links: Vec<Link>,
    ) -> StackSampler {
        let programs = RefCell::new(Programs::default());
        StackSampler { ring, arrived, programs, located: Cell::new(0), _links: links }
    }

    /// Empties the ring, and locates user frames while their processes live.
    pub fn drain(&self) {
        // Samples that cannot be read now are read next time, or counted as lost.
        let _ = self.ring.consume();
        let mut fresh = BTreeSet::new();
        let mut arrived = self.arrived.borrow_mut();
        let mut programs = self.programs.borrow_mut();
        for sample in &mut arrived[self.located.get()..] {
            let locations = programs.locations(sample.process, &sample.user, &mut fresh);
            sample.user_locations = match sample.stack.as_slice() {
                [] => locations,
                stack => programs.with_callers_of_vdso(sample.process, locations, stack),
            };
        }
        self.located.set(arrived.len());
    }

    /// The samples that arrived since the last call.
    pub fn take(&self) -> Vec<RawSample> {
        self.drain();
        self.located.set(0);
        std::mem::take(&mut *self.arrived.borrow_mut())
    }

    /// The programs that were sampled.
    pub fn programs(self) -> Programs {
        self.programs.into_inner()
    }
}

impl RawSample {
    fn read(bytes: &[u8]) -> Option<RawSample> {
        const HEAD_BYTES: usize = 64;
        // Larger numbers were left by a signal or a debugger.
        const CALL_MAX: u64 = 1000;
        const WAIT: u32 = 3;
        const SEND: u32 = 4;
        const USER_FRAMES: usize = 16;
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let kernel_frames = word(12)? as usize;
        let words = |bytes: &[u8]| -> Vec<u64> {
            let words = bytes.chunks_exact(8);
            words.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())).collect()
        };
        let frames = words(bytes.get(HEAD_BYTES..)?);
        let stack_words = word(44)? as usize;
        let stack = frames.iter().skip(USER_FRAMES).take(stack_words).copied().collect();
        let mut frames = frames.into_iter();
        let kernel = frames.by_ref().take(kernel_frames).collect();
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let lock_or_count = long(24);
        let holder = match word(40)? {
            1 => Some(Holder::Readers),
            2 => Some(Holder::Work),
            3 => Some(Holder::Other(raw::name(bytes.get(48..64)?, "a task without a name"))),
            _ => None,
        };
        let mode = match word(8)? {
            WAIT | SEND => 0,
            mode => mode,
        };
        Some(RawSample {
            base: *Base::ALL.get(word(0)? as usize)?,
            state: *CpuState::ALL.get(word(4)? as usize)?,
            mode: *[CpuMode::Kernel, CpuMode::User, CpuMode::AfterSystemCall].get(mode as usize)?,
            kernel,
            process: word(20)?,
            user: frames.take(word(16)? as usize).collect(),
            stack,
            user_locations: Vec::new(),
            lock: lock_or_count.filter(|_| word(8) == Some(WAIT)),
            sent: lock_or_count.filter(|_| word(8) == Some(SEND)),
            call: long(32).filter(|number| *number < CALL_MAX),
            holder: holder.filter(|_| word(8) == Some(WAIT)),
        })
    }
}

/// Names the frames of a window's samples and merges equal stacks.
pub fn folded(
    samples: &[RawSample],
    hertz: u32,
    lost: u64,
    symbols: &Symbols,
    programs: &Programs,
) -> SampledStacks {
    let mut functions = Functions::default();
    type StackKey = (Base, CpuState, CpuMode, Vec<u32>, u32, u64, Option<u32>);
    let mut stacks: BTreeMap<StackKey, u64> = BTreeMap::new();
    let locations = samples.iter().flat_map(|sample| &sample.user_locations).copied().collect();
    let user_functions = programs.functions(&locations);
    for sample in samples {
        let name = |address: &u64| match symbols.function(*address) {
            Some((name, offset)) => (name.to_string(), offset),
            None => ("[unknown]".to_string(), 0),
        };
        let named: Vec<(String, u64)> = sample.kernel.iter().map(name).collect();
        let in_file = sample.user_locations.first().map(|(_, offset)| *offset);
        let offset = match (named.first(), sample.mode) {
            (Some((_, offset)), _) => *offset,
            (None, CpuMode::User) => in_file.unwrap_or(0),
            (None, _) => 0,
        };
        let mut frames: Vec<u32> =
            named.into_iter().map(|(name, _)| functions.index(name, String::new())).collect();
        let kernel_frames = frames.len() as u32;
        let user_frames = sample.user_locations.iter().filter_map(|at| user_functions.get(at));
        frames.extend(
            user_frames.map(|(name, object)| functions.index(name.clone(), object.clone())),
        );
        let call = sample.call.map(|number| functions.index(calls::name(number), String::new()));
        let key = (sample.base, sample.state, sample.mode, frames, kernel_frames, offset, call);
        *stacks.entry(key).or_default() += 1;
    }
    let stack = |((base, state, mode, frames, kernel_frames, offset, call), count)| Stack {
        base,
        state,
        mode,
        frames,
        kernel_frames,
        offset,
        call,
        count,
    };
    let (functions, objects) = functions.names.into_iter().unzip();
    let stacks = stacks.into_iter().map(stack).collect();
    SampledStacks { hertz, lost, functions, objects, stacks }
}

/// Function names by index, each once, with the file that contains the function: empty for the
/// kernel.
#[derive(Default)]
struct Functions {
    names: Vec<(String, String)>,
    known: BTreeMap<(String, String), u32>,
}

impl Functions {
    fn index(&mut self, name: String, object: String) -> u32 {
        let next = self.names.len() as u32;
        let index = *self.known.entry((name.clone(), object.clone())).or_insert(next);
        if index == next {
            self.names.push((name, object));
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: [u32; 6], frames: &[u64]) -> Vec<u8> {
        let longs = [0xabc_u64, 72, 3].into_iter().flat_map(u64::to_ne_bytes);
        let words = words.iter().flat_map(|w| w.to_ne_bytes()).chain(longs);
        let words = words.chain(*b"kworker/0:1\0\0\0\0\0");
        words.chain(frames.iter().flat_map(|f| f.to_ne_bytes())).collect()
    }

    #[test]
    fn a_sample_reads_as_the_program_wrote_it() {
        let raw = RawSample::read(&bytes([1, 0, 0, 2, 1, 77], &[10, 11, 12])).unwrap();
        assert_eq!((&raw.kernel[..], &raw.user[..]), (&[10, 11][..], &[12][..]));
        assert_eq!(RawSample::read(&bytes([1, 0, 9, 0, 0, 0], &[])), None);
        assert_eq!(RawSample::read(&[1, 2, 3]), None);
        assert_eq!((raw.lock, raw.call), (None, Some(72)));
        let none = RawSample { call: None, ..raw.clone() };
        let mut faulted = bytes([1, 0, 0, 2, 1, 77], &[10, 11, 12]);
        faulted[32..40].copy_from_slice(&(-1_i64).to_ne_bytes());
        assert_eq!(RawSample::read(&faulted), Some(none));
        let wait = RawSample::read(&bytes([1, 1, 3, 1, 0, 0], &[10])).unwrap();
        assert_eq!(wait.held_by().as_deref(), Some("kworker in fcntl"));
        assert_eq!((wait.lock, wait.sent, wait.kernel), (Some(0xabc), None, vec![10]));
        let sent = RawSample::read(&bytes([1, 0, 4, 1, 0, 0], &[10])).unwrap();
        assert_eq!((sent.lock, sent.sent), (None, Some(0xabc)));
        let short = RawSample::read(&bytes([1, 0, 2, 0, 3, 0], &[5])).unwrap();
        assert_eq!((short.mode, short.user), (CpuMode::AfterSystemCall, vec![5]));
    }
}
