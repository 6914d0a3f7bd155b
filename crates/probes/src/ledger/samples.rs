//! Samples of where the CPUs are: taken by a perf event on each CPU's clock, brought over in a
//! ring, named and put together afterwards.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::IntoRawFd;
use std::rc::Rc;

use libbpf_rs::{Link, MapCore, Object, RingBuffer, RingBufferBuilder};
use records::{Base, CpuMode, CpuState, SampledStacks, Stack};

use super::calls;
use super::load::SAMPLER;
use super::programs::{Place, Programs};
use super::symbols::Symbols;
use crate::perf_event::{self, Attributes};

/// One sample as it came, `struct sample` of `samples.bpf.h`.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    base: Base,
    state: CpuState,
    mode: CpuMode,
    /// Frames in the kernel, the innermost first.
    pub kernel: Vec<u64>,
    process: u32,
    user: Vec<u64>,
    /// Where the frames of the user lie, once somebody has looked.
    places: Vec<Place>,
    /// The lock that is waited for, where this is no sample but a wait.
    pub lock: Option<u64>,
    /// How an interrupt was sent to another CPU, where it is neither: the number of a count.
    pub sent: Option<u64>,
    /// The number of the system call that the task was in.
    call: Option<u64>,
}

/// Takes samples for as long as it lives.
pub struct Sampler {
    ring: RingBuffer<'static>,
    arrived: Rc<RefCell<Vec<Raw>>>,
    programs: RefCell<Programs>,
    /// Samples of those that arrived whose programs are known.
    placed: Cell<usize>,
    _links: Vec<Link>,
}

impl Sampler {
    /// Starts to sample these CPUs; with 0 Hz it only brings over what other programs send.
    pub fn start(object: &Object, cpus: &[u32], hertz: u32) -> Result<Sampler, String> {
        let ring = object.maps().find(|map| map.name() == "samples");
        let ring = ring.ok_or("knee's own mistake: no map brings samples")?;
        let arrived = Rc::new(RefCell::new(Vec::new()));
        let into = arrived.clone();
        let mut builder = RingBufferBuilder::new();
        let read = move |bytes: &[u8]| {
            into.borrow_mut().extend(Raw::read(bytes));
            0
        };
        builder.add(&ring, read).map_err(|e| format!("the ring of samples: {e}"))?;
        let ring = builder.build().map_err(|e| format!("the ring of samples: {e}"))?;
        if hertz == 0 {
            return Ok(Sampler::of(ring, arrived, Vec::new()));
        }
        let program = object.progs_mut().find(|program| program.name() == SAMPLER);
        let program = program.ok_or("knee's own mistake: no program takes samples")?;
        let attributes = Attributes::new(
            perf_event::TYPE_SOFTWARE,
            perf_event::COUNT_SW_CPU_CLOCK,
            u64::from(hertz),
            perf_event::FREQUENCY,
        );
        let attach = |cpu: &u32| {
            // The link owns the event from here on, and closes it.
            let event = perf_event::open(&attributes, (-1, *cpu as i32))?.into_raw_fd();
            program.attach_perf_event(event).map_err(|e| format!("sampling CPU {cpu}: {e}"))
        };
        let links = cpus.iter().map(attach).collect::<Result<_, String>>()?;
        Ok(Sampler::of(ring, arrived, links))
    }

    fn of(ring: RingBuffer<'static>, arrived: Rc<RefCell<Vec<Raw>>>, links: Vec<Link>) -> Sampler {
        let programs = RefCell::new(Programs::default());
        Sampler { ring, arrived, programs, placed: Cell::new(0), _links: links }
    }

    /// Brings over what has come, and looks where it lies while its processes live.
    pub fn drain(&self) {
        // What cannot be read now is read next time, or counted as lost.
        let _ = self.ring.consume();
        let mut fresh = BTreeSet::new();
        let mut arrived = self.arrived.borrow_mut();
        let mut programs = self.programs.borrow_mut();
        for raw in &mut arrived[self.placed.get()..] {
            raw.places = programs.places(raw.process, &raw.user, &mut fresh);
        }
        self.placed.set(arrived.len());
    }

    /// The samples that came since this was last asked.
    pub fn take(&self) -> Vec<Raw> {
        self.drain();
        self.placed.set(0);
        std::mem::take(&mut *self.arrived.borrow_mut())
    }

    /// The programs that were sampled.
    pub fn programs(self) -> Programs {
        self.programs.into_inner()
    }
}

impl Raw {
    fn read(bytes: &[u8]) -> Option<Raw> {
        const HEAD_BYTES: usize = 40;
        // Larger numbers are what a signal or a debugger left.
        const CALL_MAX: u64 = 1000;
        const WAIT: u32 = 3;
        const SEND: u32 = 4;
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let kernel_frames = word(12)? as usize;
        let frames = bytes.get(HEAD_BYTES..)?.chunks_exact(8);
        let mut frames = frames.map(|f| u64::from_ne_bytes(f.try_into().unwrap_or_default()));
        let kernel = frames.by_ref().take(kernel_frames).collect();
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let what = long(24);
        let mode = match word(8)? {
            WAIT | SEND => 0,
            mode => mode,
        };
        Some(Raw {
            base: *Base::ALL.get(word(0)? as usize)?,
            state: *CpuState::ALL.get(word(4)? as usize)?,
            mode: *[CpuMode::Kernel, CpuMode::User, CpuMode::AfterSystemCall].get(mode as usize)?,
            kernel,
            process: word(20)?,
            user: frames.take(word(16)? as usize).collect(),
            places: Vec::new(),
            lock: what.filter(|_| word(8) == Some(WAIT)),
            sent: what.filter(|_| word(8) == Some(SEND)),
            call: long(32).filter(|number| *number < CALL_MAX),
        })
    }
}

/// Names the samples of one window and puts equal ones together.
pub fn folded(
    raw: &[Raw],
    hertz: u32,
    lost: u64,
    symbols: &Symbols,
    programs: &Programs,
) -> SampledStacks {
    let mut functions = Functions::default();
    type Key = (Base, CpuState, CpuMode, Vec<u32>, u32, u64, Option<u32>);
    let mut stacks: BTreeMap<Key, u64> = BTreeMap::new();
    let of_users = programs.named(&raw.iter().flat_map(|raw| &raw.places).copied().collect());
    for sample in raw {
        let name = |address: &u64| match symbols.find(*address) {
            Some((name, offset)) => (name.to_string(), offset),
            None => ("[unknown]".to_string(), 0),
        };
        let named: Vec<(String, u64)> = sample.kernel.iter().map(name).collect();
        let offset = named.first().map_or(0, |(_, offset)| *offset);
        let mut frames: Vec<u32> =
            named.into_iter().map(|(name, _)| functions.index(name, String::new())).collect();
        let kernel_frames = frames.len() as u32;
        let users = sample.places.iter().filter_map(|place| of_users.get(place).cloned());
        frames.extend(users.map(|(name, object)| functions.index(name, object)));
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

/// Names by index, each once, with the file that they are of; none for the kernel.
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
        let longs = [0xabc_u64, 72].into_iter().flat_map(u64::to_ne_bytes);
        let words = words.iter().flat_map(|w| w.to_ne_bytes()).chain(longs);
        words.chain(frames.iter().flat_map(|f| f.to_ne_bytes())).collect()
    }

    #[test]
    fn a_sample_reads_as_the_program_wrote_it() {
        let raw = Raw::read(&bytes([1, 0, 0, 2, 1, 77], &[10, 11, 12])).unwrap();
        assert_eq!((&raw.kernel[..], &raw.user[..]), (&[10, 11][..], &[12][..]));
        assert_eq!(Raw::read(&bytes([1, 0, 9, 0, 0, 0], &[])), None);
        assert_eq!(Raw::read(&[1, 2, 3]), None);
        assert_eq!((raw.lock, raw.call), (None, Some(72)));
        let none = Raw { call: None, ..raw.clone() };
        let mut faulted = bytes([1, 0, 0, 2, 1, 77], &[10, 11, 12]);
        faulted[32..40].copy_from_slice(&(-1_i64).to_ne_bytes());
        assert_eq!(Raw::read(&faulted), Some(none));
        let wait = Raw::read(&bytes([1, 1, 3, 1, 0, 0], &[10])).unwrap();
        assert_eq!((wait.lock, wait.sent, wait.kernel), (Some(0xabc), None, vec![10]));
        let sent = Raw::read(&bytes([1, 0, 4, 1, 0, 0], &[10])).unwrap();
        assert_eq!((sent.lock, sent.sent), (None, Some(0xabc)));
        let short = Raw::read(&bytes([1, 0, 2, 0, 3, 0], &[5])).unwrap();
        assert_eq!((short.mode, short.user), (CpuMode::AfterSystemCall, vec![5]));
    }
}
