//! The accesses of C code, given to the machine.

use machine::{Atom, CodeSite, Field, Machine, Op, Ordering, Until, Value};

use super::Task;

/// Words that one instruction may read and write: of 16 bytes, five if they are not aligned.
pub const PENDING_MAX: usize = 16;

/// Bytes of a task's stack: plain accesses there are its own affair.
pub const STACK: usize = 128 << 10;

/// Distinguishes a task that waits from one that loads, and one whose write is pending.
const WAITS: u64 = 0x3A17;
const WRITES: u64 = 0x3217;

/// An access whose hook has been called.
#[derive(Clone, Copy)]
pub enum Pending {
    None,
    /// Memory that the code has written since, and what it held before. Of a volatile access, the state before it.
    Write {
        place: Place,
        value: u64,
        site: CodeSite,
        volatile: Option<u64>,
    },
    /// Memory that shows the task its own buffered store, and what it holds for others.
    Shown {
        place: Place,
        old: u64,
    },
}

/// A word whose access the machine has, or gets once it is done.
#[derive(Clone, Copy)]
pub struct Announced {
    place: Place,
    writes: bool,
    /// Whether the code has come to it.
    met: bool,
}

/// A word of the region.
#[derive(Clone, Copy)]
pub struct Place {
    pub address: usize,
    pub size: u8,
}

/// Calls a method with the type of a word of this size.
macro_rules! with_size {
    ($size:expr, $self:ident.$method:ident($($argument:expr),*)) => {
        match $size {
            1 => $self.$method::<u8>($($argument),*),
            2 => $self.$method::<u16>($($argument),*),
            4 => $self.$method::<u32>($($argument),*),
            _ => $self.$method::<u64>($($argument),*),
        }
    };
}

pub(super) use with_size;

impl<M: Machine> Task<'_, M> {
    /// Only the task's state matters of everything that it has read.
    pub(super) fn forget(&self, state: u64) {
        self.hooks_called.set(0);
        self.m.forget_history(self.mark, self.with_flow(state));
    }

    pub(super) fn atom<T: Value>(&self, place: Place) -> &Atom<T> {
        // SAFETY: `shared` and `is_shared` have found it within the region, and aligned. Accesses of several sizes
        // overlap, which Rust leaves open for atomics; x86 and Arm do what C code expects.
        unsafe { &*(place.address as *const Atom<T>) }
    }

    fn field<T: Value>(&self, place: Place) -> &Field<T> {
        // SAFETY: as for `atom`.
        unsafe { &*(place.address as *const Field<T>) }
    }

    pub(super) fn is_shared(&self, address: usize, bytes: usize) -> bool {
        let (start, end) = self.instance.region;
        start <= address && last(address, bytes) < end
    }

    /// A word that tasks may share, or a fault.
    pub(super) fn shared(&self, address: usize, size: u8) -> Place {
        self.comes_to_place(Place { address, size });
        if !self.is_shared(address, size.into()) {
            self.refuse_foreign_stack(address);
            self.fail(
                "an atomic access to memory that is neither in the lock, nor in a static variable, nor in a _Thread_local one, nor \
                 allocated"
                    .to_string(),
            );
        }
        if self.instance.program.parts.has_wide(address - self.instance.region.0) {
            self.refuse(
                "an atomic access to a part of what others access with 16 bytes",
                "access it with 16 bytes each time, or plainly where no other task does",
            );
        }
        if !address.is_multiple_of(usize::from(size)) {
            self.fail(format!("an atomic access of {size} bytes that is not aligned to them"));
        }
        Place { address, size }
    }

    /// An address that was computed from what the task has read orders the access, where the code relies on that: that of a
    /// thread-local variable, or of another task's stack. So does what it has read in its own thread-local variables before it
    /// writes there again.
    pub(super) fn depend(&self, place: Place) {
        let of_stack = || {
            let stacks = self.instance.apart.as_ref()?;
            stacks.owner(place.address).filter(|(task, _)| *task != self.m.task())
        };
        let is_found = self.instance.owner(place.address).is_some() || of_stack().is_some();
        if self.instance.program.has_dependencies && is_found {
            with_size!(place.size, self.depend_on(place));
        }
    }

    fn depend_on<T: Value>(&self, place: Place) {
        self.m.depend(self.atom::<T>(place));
    }

    fn op<T: Value>(&self, place: Place, op: Op<u64>, ordering: Ordering) -> u64 {
        let narrow = |value: u64| T::from_bits(value);
        let op = match op {
            Op::Load => Op::Load,
            Op::Store(value) => Op::Store(narrow(value)),
            Op::Swap(value) => Op::Swap(narrow(value)),
            Op::CompareExchange(old, new) => Op::CompareExchange(narrow(old), narrow(new)),
            Op::Add(value) => Op::Add(narrow(value)),
            Op::Or(value) => Op::Or(narrow(value)),
            Op::And(value) => Op::And(narrow(value)),
            Op::Xor(value) => Op::Xor(narrow(value)),
        };
        self.m.op(self.atom::<T>(place), op, ordering).bits()
    }

    fn await_other<T: Value>(&self, place: Place, value: u64, ordering: Ordering) -> u64 {
        let until = Until::differs(T::from_bits(value));
        self.m.await_until(self.atom::<T>(place), until, ordering).bits()
    }

    pub(super) fn get<T: Value>(&self, place: Place) -> u64 {
        self.m.get(self.field::<T>(place)).bits()
    }

    pub(super) fn set<T: Value>(&self, place: Place, value: u64) {
        self.m.set(self.field::<T>(place), T::from_bits(value));
    }

    /// Loads. A task that comes back to the state of its last load, and has read the same, would do so for ever: it waits
    /// until the word changes.
    pub(super) fn load(&self, place: Place, ordering: Ordering, state: u64) -> u64 {
        if let Some(value) = self.own_atomic(place, Op::Load, 0, state) {
            return value;
        }
        if let Some(value) = self.finds_again(place, Op::Load, state) {
            return value;
        }
        let place = self.shared(place.address, place.size);
        let ordering = match ordering {
            Ordering::Release => Ordering::Relaxed,
            Ordering::AcqRel => Ordering::Acquire,
            other => other,
        };
        self.depend(place);
        self.comes_round(state);
        self.tells_dependencies();
        let value = match self.last_load.get() {
            Some((before, value)) if before == state => {
                self.forget(mix(state, WAITS));
                with_size!(place.size, self.await_other(place, value, ordering))
            }
            _ => {
                self.forget(state);
                with_size!(place.size, self.op(place, Op::Load, ordering))
            }
        };
        self.last_load.set(Some((state, value)));
        self.tried(self.last_try.get(), place.address, Op::Load, state, value);
        self.notes_read();
        // Others have run meanwhile.
        self.comes_to_place(place);
        value
    }

    /// An atomic access that writes.
    pub(super) fn modify(&self, place: Place, op: Op<u64>, order: u64, state: u64) -> u64 {
        if let Some(old) = self.own_atomic(place, op, order, state) {
            return old;
        }
        if let Some(old) = self.finds_again(place, op, state) {
            return old;
        }
        let place = self.shared(place.address, place.size);
        let (before, rounds) = (self.last_try.get(), self.rounds.get());
        self.ends_wait();
        self.depend(place);
        if !matches!(op, Op::Store(_)) {
            self.comes_round(state);
        }
        self.forget(state);
        let ordering = match (op, ordering(order)) {
            (Op::Store(_), Ordering::Acquire) => Ordering::Relaxed,
            (Op::Store(_), Ordering::AcqRel) => Ordering::Release,
            (_, ordering) => ordering,
        };
        self.tells_dependencies();
        let old = with_size!(place.size, self.op(place, op, ordering));
        if op.written(old, place.size).is_some() {
            self.has_effect();
        }
        if !matches!(op, Op::Store(_)) {
            self.notes_read();
            if op.written(old, place.size).is_none_or(|new| new == old) {
                self.rounds.set(rounds);
                self.tried(before, place.address, op, state, old);
            }
        }
        self.comes_to_place(place);
        old
    }

    /// A plain access to shared memory that is about to happen. With a state, it is one access of each kind, in the order of a
    /// volatile one.
    pub(super) fn plain(
        &self,
        address: usize,
        bytes: usize,
        reads: bool,
        writes: bool,
        once: Option<u64>,
    ) {
        if !writes {
            // A loop that also reads this is no wait for the word of its load alone.
            self.ends_wait();
        }
        let (mut at, end) = (address, address + bytes);
        while at < end {
            let place = Place { address: at, size: piece(at, end) };
            self.comes_to_place(place);
            self.depend(place);
            let value = reads.then(|| match once {
                Some(state) => self.load(place, self.volatile_order(Ordering::Acquire), state),
                None => {
                    self.tells_dependencies();
                    let value = with_size!(place.size, self.get(place));
                    self.notes_read();
                    value
                }
            });
            // First what memory holds for others, then what the task sees there.
            if writes {
                self.writes(place, once);
            }
            if let Some(value) = value {
                self.show(place, value);
            }
            at += usize::from(place.size);
        }
    }

    /// Whether the machine has been given this access by the call before, or will be once it is done.
    pub(super) fn is_announced(&self, address: usize, bytes: usize, writes: bool) -> bool {
        let Some(announced) = self.announced.get() else { return false };
        let Place { address: start, size } = announced.place;
        let is_within = start <= address && address + bytes <= start + usize::from(size);
        let is_it = is_within && (announced.writes || !writes);
        if is_it {
            self.announced.set(Some(Announced { met: true, ..announced }));
        }
        is_it
    }

    /// A word that the code accesses itself, after this call.
    pub(super) fn announce(&self, place: Place, writes: bool) {
        self.announced.set(Some(Announced { place, writes, met: false }));
    }

    /// The order of a volatile access: that of x86 where the file asks for it.
    fn volatile_order(&self, of_x86: Ordering) -> Ordering {
        if self.instance.program.has_x86_order { of_x86 } else { Ordering::Relaxed }
    }

    /// A volatile access that is about to happen: an atomic one.
    pub(super) fn volatile(&self, place: Place, writes: bool, state: u64) {
        if self.is_own(place.address, place.size.into(), writes) {
            return;
        }
        if writes {
            self.writes(self.shared(place.address, place.size), Some(state));
        } else {
            let value = self.load(place, self.volatile_order(Ordering::Acquire), state);
            self.show(place, value);
        }
        self.announce(place, writes);
    }

    /// Whether no other task can reach this memory: the task's stack, or a constant. Memory that is neither this nor
    /// shared is a fault.
    pub(super) fn is_own(&self, address: usize, bytes: usize, writes: bool) -> bool {
        if self.is_shared(address, bytes) {
            return false;
        }
        let (top, last) = (self.base.get(), last(address, bytes));
        let errno = self.errno.as_ptr() as usize;
        let is_own = self.end.get() <= address && last < top && top - address < STACK
            || (errno..errno + 4).contains(&address) && bytes <= 4;
        let is_constant = [address, last].iter().all(|end| self.instance.is_constant(*end));
        if !is_own && (writes || !is_constant) {
            self.refuse_foreign_stack(address);
            let does = if writes { "writes" } else { "reads" };
            self.fail(format!(
                "it {does} memory at {address:#x} ({bytes} bytes), which is not the lock's (a local variable of another task must \
                 be static _Thread_local)"
            ));
        }
        true
    }

    /// The stack of a coroutine is no part of the memory that a search restores: the next one has stacks that are.
    fn refuse_foreign_stack(&self, address: usize) {
        if self.instance.is_on_stack_of_another(self.m.task(), address) {
            self.instance.program.stacks.set_apart();
            self.refuse(
                "tasks share a local variable of one of them (a waiter on its stack), which a search does not see",
                "make it static _Thread_local, or a part of the lock's own type",
            );
        }
    }

    /// An atomic access to the task's own stack, which no other task sees: the word's old value. `None` elsewhere.
    fn own_atomic(&self, place: Place, op: Op<u64>, order: u64, state: u64) -> Option<u64> {
        let Place { address, size } = place;
        let writes = !matches!(op, Op::Load);
        if self.is_shared(address, size.into()) || !self.is_own(address, size.into(), writes) {
            return None;
        }
        // SAFETY: the task's own stack, or a constant that is only read.
        let old = unsafe { read(address, size) };
        if let Some(new) = op.written(old, size) {
            // SAFETY: as above.
            unsafe { write(address, size, new) };
        }
        self.last_try.set(None);
        if op == Op::Load && self.last_load.replace(Some((state, old))) == Some((state, old)) {
            self.instance.program.stacks.set_apart();
            self.refuse(
                "a task waits for a local variable of its own, which a search does not see change",
                "make it static _Thread_local, or a part of the lock's own type",
            );
        }
        if writes {
            self.ends_wait();
        }
        let is_barrier =
            writes && !matches!(op, Op::Store(_)) && ordering(order) == Ordering::SeqCst;
        if is_barrier {
            self.forget(state);
            self.m.fence(Ordering::SeqCst);
        }
        Some(old)
    }

    /// An access to memory of a search's own: to what lives there, in whole words.
    pub(super) fn comes_to_place(&self, place: Place) {
        self.comes_to_heap(place);
        self.comes_to_stack(place);
        self.comes_to_words(place);
    }

    /// Where loads may read old values, accesses are to whole words: what is accessed by parts has smaller ones.
    fn comes_to_words(&self, place: Place) {
        let Some(edges) = self.instance.edges.get().filter(|_| self.m.reads_old_values()) else {
            return;
        };
        let offset = place.address.wrapping_sub(self.instance.region.0);
        if let Some((array, within)) = edges.cut_by(offset, place.size.into()) {
            self.instance.program.parts.cut(array, within, place.size.into());
            self.refuse("the parts of a variable became known too late", "check it again");
        }
    }

    /// An access to a stack in the region: of another task, only to what lives there.
    fn comes_to_stack(&self, place: Place) {
        let Place { address, size } = place;
        let Some(stacks) = &self.instance.apart else { return };
        let Some((owner, offset)) = stacks.owner(address) else { return };
        if owner != self.m.task() && !self.instance.is_live_local(stacks, owner, address) {
            self.fail(format!(
                "it comes to a place on the stack of t{owner} that is no local variable there any more"
            ));
        }
        if !stacks.is_whole(offset, size.into()) {
            self.instance.program.stacks.cut(offset, size.into());
            self.refuse("the parts of a local variable became known too late", "check it again");
        }
    }

    /// The value of a word that a compare-exchange expects, in a local variable.
    pub(super) fn expected(&self, place: Place) -> u64 {
        if self.is_shared(place.address, place.size.into()) {
            self.comes_to_place(place);
            return with_size!(place.size, self.get(place));
        }
        if !self.is_own(place.address, place.size.into(), true) {
            self.refuse(
                "the expected value of a compare-exchange is no local variable",
                "copy it into one",
            );
        }
        // SAFETY: the C code's own variable, of the size of the word.
        unsafe { read(place.address, place.size) }
    }

    /// Writes the value that a compare-exchange found into the variable that said what it expects.
    pub(super) fn set_expected(&self, place: Place, value: u64) {
        if self.is_shared(place.address, place.size.into()) {
            self.ends_wait();
            return with_size!(place.size, self.set(place, value));
        }
        // SAFETY: as in `expected`, which has come before.
        unsafe { write(place.address, place.size, value) };
    }

    fn writes(&self, place: Place, volatile: Option<u64>) {
        self.has_effect();
        self.ends_wait();
        // SAFETY: a word of the region.
        let old = unsafe { read(place.address, place.size) };
        self.add(Pending::Write { place, value: old, site: self.site.get(), volatile });
    }

    /// Lets the code read what the task sees, where its own store is still buffered.
    fn show(&self, place: Place, value: u64) {
        // SAFETY: a word of the region; no other task runs before `settle` takes it back.
        unsafe {
            let old = read(place.address, place.size);
            if old != value {
                write(place.address, place.size, value);
                self.add(Pending::Shown { place, old });
            }
        }
    }

    fn add(&self, new: Pending) {
        let mut pending = self.pending.get();
        let Some(free) = pending.iter_mut().find(|pending| matches!(pending, Pending::None)) else {
            self.refuse(
                &format!("one instruction that accesses more than {PENDING_MAX} words"),
                "copy in parts",
            )
        };
        *free = new;
        self.pending.set(pending);
    }

    /// Gives the machine what the code has written since the last hook.
    pub(super) fn settle(&self) {
        if let Some(Announced { writes: true, met: false, .. }) = self.announced.take() {
            self.refuse(
                "the compiler has moved a volatile write away from its call",
                "use an atomic one",
            );
        }
        let mut pending = self.pending.replace([Pending::None; PENDING_MAX]);
        // First all memory is as others know it: a write may wait, and others run meanwhile.
        for one in &mut pending {
            match one {
                Pending::None => break,
                Pending::Shown { place, old } => {
                    // SAFETY: a word of the region.
                    unsafe { write(place.address, place.size, *old) };
                }
                Pending::Write { place, value, .. } => {
                    // SAFETY: a word of the region; no other task has run since the code wrote it.
                    let new = unsafe { read(place.address, place.size) };
                    // SAFETY: as above.
                    unsafe { write(place.address, place.size, *value) };
                    *value = new;
                }
            }
        }
        for one in pending {
            let Pending::Write { place, value, site, volatile } = one else { continue };
            self.m.at(Some(site));
            self.tells_dependencies_of_write();
            if let Some(state) = volatile {
                self.forget(mix(mix(state, WRITES), value));
                let order = self.volatile_order(Ordering::Release);
                with_size!(place.size, self.op(place, Op::Store(value), order));
            } else {
                with_size!(place.size, self.set(place, value));
            }
        }
    }
}

/// The address of the last of so many bytes.
fn last(address: usize, bytes: usize) -> usize {
    address.saturating_add(bytes.max(1) - 1)
}

/// The largest aligned word from here that ends before the end.
fn piece(address: usize, end: usize) -> u8 {
    let fits = |size: &u8| {
        let size = usize::from(*size);
        address.is_multiple_of(size) && address + size <= end
    };
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// The ordering that the compiler passes as a number.
pub fn ordering(number: u64) -> Ordering {
    match number as u32 {
        0 => Ordering::Relaxed,
        1 | 2 => Ordering::Acquire,
        3 => Ordering::Release,
        4 => Ordering::AcqRel,
        _ => Ordering::SeqCst,
    }
}

/// All bits of a word of this size.
pub fn ones(size: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(size))
}

pub fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 29
}

/// Reads a word.
///
/// # Safety
/// The address has this many bytes to read.
pub unsafe fn read(address: usize, size: u8) -> u64 {
    // SAFETY: as the caller says.
    unsafe {
        match size {
            1 => u64::from(*(address as *const u8)),
            2 => u64::from((address as *const u16).read_unaligned()),
            4 => u64::from((address as *const u32).read_unaligned()),
            _ => (address as *const u64).read_unaligned(),
        }
    }
}

/// Writes a word.
///
/// # Safety
/// The address has this many bytes to write.
pub unsafe fn write(address: usize, size: u8, value: u64) {
    // SAFETY: as the caller says.
    unsafe {
        match size {
            1 => *(address as *mut u8) = value as u8,
            2 => (address as *mut u16).write_unaligned(value as u16),
            4 => (address as *mut u32).write_unaligned(value as u32),
            _ => (address as *mut u64).write_unaligned(value),
        }
    }
}
