//! Native interrupts: signals to the threads that stand for CPUs. If the target thread runs on
//! another CPU, the kernel sends that CPU an interrupt. The CPU enters the kernel and then the
//! signal handler, on the thread's own stack, wherever the thread was.
//!
//!     send_ipi(cpu) ─tgkill→ reschedule interrupt ─→ signal frame ─→ handler
//!                                            interrupts off? ─→ pending, runs when they are on
//!
//! So an interrupt costs its sender one system call per target, one after the other. It costs its
//! target a kernel entry and a signal frame. That is more than in a kernel, but in the same
//! places. Masking interrupts sets a flag of the thread, as cheap as the kernel's.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, compiler_fence};
use std::sync::{Arc, Once};

use crate::{Array, Atom, IpiTarget, Region};

/// A thread without a handler ignores this signal, and nothing else in this program uses it.
const SIGNAL: libc::c_int = libc::SIGURG;

/// The threads that stand for CPUs. They may belong to one process or to several.
#[derive(Clone, Debug)]
pub struct Peers(Arc<Array<Atom<u64>>>);

impl Peers {
    /// A table for this many CPUs, without threads yet.
    pub fn new(region: &Region, cpus: usize) -> Peers {
        Peers(Arc::new(region.array("peer", cpus)))
    }

    /// Makes the calling thread stand for this CPU and run `handler` when it is interrupted. That
    /// ends when the returned guard is dropped, which must happen on the same thread. A thread
    /// stands for one CPU at a time. The handler may use atomics and system calls; it must not
    /// allocate.
    pub fn handle_ipis<'a>(&self, cpu: usize, handler: impl Fn() + 'a) -> IpiHandler<'a> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let handler: *mut Handler<'a> = Box::into_raw(Box::new(Box::new(handler)));
        STATE.with(|state| state.handler.store(handler.cast(), Relaxed));
        // SAFETY: no preconditions.
        let (process, thread) = unsafe { (libc::getpid() as u64, libc::gettid() as u64) };
        self.0[cpu].cell().store(process << 32 | thread, SeqCst);
        IpiHandler { peers: self.clone(), cpu, handler, not_send: PhantomData }
    }

    pub(crate) fn send_ipi(&self, sender: usize, target: IpiTarget) {
        match target {
            IpiTarget::One(cpu) => signal(self.0[cpu].cell()),
            IpiTarget::Others => {
                let others = self.0.iter().enumerate().filter(|(cpu, _)| *cpu != sender);
                others.for_each(|(_, peer)| signal(peer.cell()));
            }
        }
    }
}

/// Keeps a thread interruptible for as long as this guard lives.
pub struct IpiHandler<'a> {
    peers: Peers,
    cpu: usize,
    handler: *mut Handler<'a>,
    not_send: PhantomData<*const ()>,
}

impl Drop for IpiHandler<'_> {
    fn drop(&mut self) {
        self.peers.0[self.cpu].cell().store(0, SeqCst);
        STATE.with(|state| state.handler.store(ptr::null_mut(), Relaxed));
        compiler_fence(SeqCst);
        // SAFETY: made by `Box::into_raw`, and no signal handler can load it any more.
        drop(unsafe { Box::from_raw(self.handler) });
    }
}

impl std::fmt::Debug for IpiHandler<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "IpiHandler of CPU {}", self.cpu)
    }
}

type Handler<'a> = Box<dyn Fn() + 'a>;

/// The interrupt state of one thread, shared with its signal handler.
struct InterruptState {
    /// How many nested sections mask interrupts.
    masked: AtomicU32,
    pending: AtomicBool,
    handler: AtomicPtr<Handler<'static>>,
}

thread_local! {
    static STATE: InterruptState = const {
        InterruptState {
            masked: AtomicU32::new(0),
            pending: AtomicBool::new(false),
            handler: AtomicPtr::new(ptr::null_mut()),
        }
    };
}

/// Runs `body` with interrupts masked on the calling thread.
#[inline(always)]
pub(crate) fn masked<R>(body: impl FnOnce() -> R) -> R {
    STATE.with(|state| {
        let depth = state.masked.load(Relaxed);
        state.masked.store(depth + 1, Relaxed);
        compiler_fence(SeqCst);
        let result = body();
        compiler_fence(SeqCst);
        state.masked.store(depth, Relaxed);
        compiler_fence(SeqCst);
        if depth == 0 && state.pending.load(Relaxed) {
            state.handle();
        }
        result
    })
}

impl InterruptState {
    /// Runs the handler for what is pending, and again for what arrives in the meantime.
    #[cold]
    fn handle(&self) {
        self.masked.store(1, Relaxed);
        loop {
            self.pending.store(false, Relaxed);
            compiler_fence(SeqCst);
            // SAFETY: null, or the handler of an `IpiHandler` of this very thread, which
            // clears the pointer before it frees the handler.
            if let Some(handler) = unsafe { self.handler.load(Relaxed).as_ref() } {
                handler();
            }
            compiler_fence(SeqCst);
            self.masked.store(0, Relaxed);
            compiler_fence(SeqCst);
            if !self.pending.load(Relaxed) {
                return;
            }
            self.masked.store(1, Relaxed);
        }
    }
}

extern "C" fn interrupted(_: libc::c_int) {
    STATE.with(|state| {
        state.pending.store(true, Relaxed);
        if state.masked.load(Relaxed) == 0 {
            // SAFETY: errno is thread-local and always valid. Saved for the interrupted code.
            unsafe {
                let errno = *libc::__errno_location();
                state.handle();
                *libc::__errno_location() = errno;
            }
        }
    });
}

fn install() {
    // SAFETY: plain data; the handler uses the thread's state and what `handle_ipis` was given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(SIGNAL, &action, ptr::null_mut());
    }
}

/// Signals the thread that stands for a CPU. A thread that has left needs no signal.
fn signal(peer: &AtomicU64) {
    let process_and_thread = peer.load(Relaxed);
    if process_and_thread != 0 {
        let (process, thread) = (process_and_thread >> 32, process_and_thread & 0xFFFF_FFFF);
        // SAFETY: a thread without a handler ignores the signal.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Field, Line, Machine, Native, Ordering, Until, image};

    image! {
        struct Words {
            asked: Atom<u32>,
            answered: Atom<u32>,
            inside: Field<u32>,
        }
    }

    /// Two threads interrupt each other and wait for the answer. Each is interrupted while it
    /// waits, but never while it masks interrupts.
    #[test]
    fn threads_that_wait_for_each_others_answer_both_get_it() {
        const TURNS: u32 = 2000;
        let region = Region::new(8192).unwrap();
        let (peers, words) = (Peers::new(&region, 2), region.per_cpu::<Line<Words>>("words", 2));
        let ready = &region.array::<Atom<u32>>("ready", 1)[0];
        thread::scope(|scope| {
            for cpu in 0..2 {
                let (peers, words) = (&peers, &words);
                scope.spawn(move || {
                    let m = Native::new(cpu, 0).with_peers(peers).yielding();
                    let own = &words[cpu];
                    let handler = peers.handle_ipis(cpu, || {
                        let m = Native::new(cpu, 0);
                        assert_eq!(own.inside.get(&m), 0, "interrupted with interrupts masked");
                        let asked = own.asked.load(&m, Ordering::Acquire);
                        own.answered.store(&m, asked, Ordering::Release);
                    });
                    ready.fetch_add(&m, 1, Ordering::Release);
                    m.await_until(ready, Until::equals(2), Ordering::Acquire);
                    let other = &words[1 - cpu];
                    for turn in 1..=TURNS {
                        m.with_irqs_off(|| {
                            own.inside.set(&m, 1);
                            m.cpu_relax(10);
                            own.inside.set(&m, 0);
                        });
                        other.asked.store(&m, turn, Ordering::Release);
                        m.send_ipi(IpiTarget::One(1 - cpu));
                        m.await_until(&other.answered, Until::equals(turn), Ordering::Acquire);
                    }
                    ready.fetch_add(&m, 1, Ordering::Release);
                    m.await_until(ready, Until::equals(4), Ordering::Acquire);
                    drop(handler);
                });
            }
        });
    }
}
