//! Interrupts natively: signals to the threads that stand for CPUs. The kernel sends a thread
//! that runs elsewhere an interrupt, upon which that CPU enters the kernel and then the
//! handler, on the thread's own stack, wherever the thread was.
//!
//!     interrupt(cpu) ─tgkill→ reschedule interrupt ─→ signal frame ─→ handler
//!                                                         masked? ─→ pending, run at its end
//!
//! So an interrupt costs its sender a system call for each target, one after the other, and
//! its target an entry to the kernel and a signal frame: more than in a kernel, but in the same
//! places. What is masked is a flag of the thread, as cheap as the kernel's.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, compiler_fence};
use std::sync::{Arc, Once};

use crate::{Array, Atom, IpiTarget, Region};

/// Nothing happens to a thread that has no handler for it, and nobody else here uses it.
const SIGNAL: libc::c_int = libc::SIGURG;

/// The threads that stand for CPUs, wherever they are: of one process or of several.
#[derive(Clone, Debug)]
pub struct Peers(Arc<Array<Atom<u64>>>);

impl Peers {
    /// So many CPUs, for which nobody stands yet.
    pub fn new(region: &Region, cpus: usize) -> Peers {
        Peers(Arc::new(region.array("peer", cpus)))
    }

    /// The calling thread stands for this CPU and does `handler` when interrupted, until what
    /// is returned is dropped, which must happen on the same thread. A thread stands for one
    /// CPU at a time. The handler may use atomics and system calls, and must not allocate.
    pub fn attend<'a>(&self, cpu: usize, handler: impl Fn() + 'a) -> Attending<'a> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let handler: *mut Handler<'a> = Box::into_raw(Box::new(Box::new(handler)));
        STATE.with(|state| state.handler.store(handler.cast(), Relaxed));
        // SAFETY: no preconditions.
        let (process, thread) = unsafe { (libc::getpid() as u64, libc::gettid() as u64) };
        self.0[cpu].cell().store(process << 32 | thread, SeqCst);
        Attending { peers: self.clone(), cpu, handler, of_this_thread: PhantomData }
    }

    pub(crate) fn send_ipi(&self, own: usize, whom: IpiTarget) {
        match whom {
            IpiTarget::One(cpu) => signal(self.0[cpu].cell()),
            IpiTarget::Others => {
                let others = self.0.iter().enumerate().filter(|(cpu, _)| *cpu != own);
                others.for_each(|(_, peer)| signal(peer.cell()));
            }
        }
    }
}

/// A thread that can be interrupted, for as long as this lives.
pub struct Attending<'a> {
    peers: Peers,
    cpu: usize,
    handler: *mut Handler<'a>,
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        self.peers.0[self.cpu].cell().store(0, SeqCst);
        STATE.with(|state| state.handler.store(ptr::null_mut(), Relaxed));
        compiler_fence(SeqCst);
        // SAFETY: made by `Box::into_raw`, and no signal finds it any more.
        drop(unsafe { Box::from_raw(self.handler) });
    }
}

impl std::fmt::Debug for Attending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Attending as CPU {}", self.cpu)
    }
}

type Handler<'a> = Box<dyn Fn() + 'a>;

/// Of one thread, and of the signals that interrupt it.
struct State {
    /// How many sections deep it is not to be interrupted.
    masked: AtomicU32,
    pending: AtomicBool,
    handler: AtomicPtr<Handler<'static>>,
}

thread_local! {
    static STATE: State = const {
        State {
            masked: AtomicU32::new(0),
            pending: AtomicBool::new(false),
            handler: AtomicPtr::new(ptr::null_mut()),
        }
    };
}

/// Does something during which the thread is not interrupted.
#[inline(always)]
pub(crate) fn masked<R>(body: impl FnOnce() -> R) -> R {
    STATE.with(|state| {
        let depth = state.masked.load(Relaxed);
        state.masked.store(depth + 1, Relaxed);
        compiler_fence(SeqCst);
        let done = body();
        compiler_fence(SeqCst);
        state.masked.store(depth, Relaxed);
        compiler_fence(SeqCst);
        if depth == 0 && state.pending.load(Relaxed) {
            state.handle();
        }
        done
    })
}

impl State {
    /// Handles what has come, and what comes meanwhile.
    #[cold]
    fn handle(&self) {
        self.masked.store(1, Relaxed);
        loop {
            self.pending.store(false, Relaxed);
            compiler_fence(SeqCst);
            // SAFETY: null, or the handler of an `Attending` of this very thread, which
            // takes it back before it frees it.
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
            // SAFETY: the thread's own, always there. Kept for the code that was interrupted.
            unsafe {
                let errno = *libc::__errno_location();
                state.handle();
                *libc::__errno_location() = errno;
            }
        }
    });
}

fn install() {
    // SAFETY: plain data; the handler touches the thread's state and what `attend` was given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(SIGNAL, &action, ptr::null_mut());
    }
}

/// A signal to whoever stands there. One that has gone needs none.
fn signal(peer: &AtomicU64) {
    let peer = peer.load(Relaxed);
    if peer != 0 {
        // SAFETY: a signal that does nothing where nobody attends.
        unsafe { libc::syscall(libc::SYS_tgkill, peer >> 32, peer & 0xFFFF_FFFF, SIGNAL) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Field, Line, Machine, Native, Ordering, Patient, Until, image};

    image! {
        struct Words {
            asked: Atom<u32>,
            answered: Atom<u32>,
            inside: Field<u32>,
        }
    }

    /// Two threads interrupt each other and wait for the answer: each is interrupted while it
    /// waits, and never in a section that must not be.
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
                    let m = Patient(Native::new(cpu, 0).with_peers(peers));
                    let own = &words[cpu];
                    let attending = peers.attend(cpu, || {
                        let m = Native::new(cpu, 0);
                        assert_eq!(own.inside.get(&m), 0, "interrupted where it must not be");
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
                    drop(attending);
                });
            }
        });
    }
}
