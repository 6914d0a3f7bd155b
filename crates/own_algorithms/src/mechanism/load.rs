//! A mechanism as a load: its design, choices and settings are parameters.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use algorithms::mechanisms::{ListedMechanism, Mechanism, Settings};
use machine::{IpiHandler, Native, Peers, Region, Yielding};

use crate::load::{Parameter, Text, machine, value};

/// Defines the symbols of knee.h for a mechanism, with the name of its program:
/// `own_algorithms::mechanism_load!(MyPath, "my_path")`.
#[macro_export]
macro_rules! mechanism_load {
    ($mechanism:ty, $name:literal) => {
        $crate::load_symbols!(
            mechanism,
            $mechanism,
            concat!("The mechanism ", $name, ", which checks itself at the end.\0")
        );
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_operation: $crate::expansion::Text = $crate::expansion::Text::none();
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_parameters: [$crate::expansion::Parameter;
            $crate::expansion::mechanism::parameters::<$mechanism>() + 1] =
            [const { $crate::expansion::Parameter::none() };
                $crate::expansion::mechanism::parameters::<$mechanism>() + 1];

        /// Runs before knee's harness reads both.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static FILL: extern "C" fn() = {
            extern "C" fn fill() {
                $crate::expansion::mechanism::fill::<$mechanism>(&knee_operation, &knee_parameters)
            }
            fill
        };

        #[unsafe(no_mangle)]
        extern "C" fn knee_verify(
            task: *mut ::std::ffi::c_void,
            _operations: ::std::ffi::c_ulonglong,
        ) -> ::std::ffi::c_int {
            // SAFETY: the task that knee_task made, which operates no more.
            unsafe { $crate::expansion::mechanism::finish::<$mechanism>(task) };
            0
        }
    };
}

/// The number of parameters of the load.
pub const fn parameters<X: Mechanism>() -> usize {
    1 + X::CHOICES.len() + X::SETTINGS.len()
}

/// Says what the operation and the parameters are.
pub fn fill<X: Mechanism>(operation: &Text, parameters: &[Parameter]) {
    operation.set(X::OPERATION);
    let mechanism = ListedMechanism::new::<X>("");
    let designs = mechanism.designs();
    let mut rows = vec![("design", designs[0].to_string(), designs.join(","), "design")];
    for choice in X::CHOICES {
        rows.push((choice.name, choice.words[0].to_string(), choice.words.join(","), choice.about));
    }
    for setting in X::SETTINGS {
        let range = format!("{}..{}", setting.min, setting.max);
        rows.push((setting.name, setting.default.to_string(), range, setting.about));
    }
    for (parameter, (name, value, choices, about)) in parameters.iter().zip(rows) {
        parameter.name.set(name);
        parameter.value.set(&value);
        parameter.choices.set(&choices);
        parameter.about.set(about);
    }
}

/// What all tasks share.
struct Load<X> {
    mechanism: X,
    peers: Peers,
}

/// The load of this program, which has one.
static LOAD: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the mechanism; processes inherit it.
pub fn prepare<X: Mechanism>(tasks: c_uint) -> i32 {
    let tasks = tasks as usize;
    if tasks > X::TASKS_MAX {
        eprintln!("{tasks} tasks: {} supports at most {}", X::NAME, X::TASKS_MAX);
        return -1;
    }
    let design = value("design");
    let Some((_, design)) = X::DESIGNS.iter().find(|(name, _)| *name == design) else {
        eprintln!("{} has no design {design:?}", X::NAME);
        return -1;
    };
    let settings = Settings::new(
        &ListedMechanism::new::<X>(""),
        |setting| value(setting.name).parse().unwrap_or(setting.default),
        |choice| {
            let given = value(choice.name);
            choice.words.iter().find(|word| **word == given).unwrap_or(&choice.words[0])
        },
    );
    let bytes = X::bytes(tasks, &settings) + tasks * 64;
    let region = match Region::new(bytes) {
        Ok(region) => region,
        Err(why) => {
            eprintln!("mapping {bytes} bytes for what the tasks share: {why}");
            return -1;
        }
    };
    let mechanism = X::new(&region, *design, tasks, &settings);
    let load = Box::new(Load { mechanism, peers: Peers::new(&region, tasks) });
    LOAD.store(Box::into_raw(load).cast(), Ordering::Release);
    0
}

fn load<X: Mechanism>() -> &'static Load<X> {
    // SAFETY: `prepare` has stored a load of this type, and it is never freed.
    unsafe { &*LOAD.load(Ordering::Acquire).cast::<Load<X>>() }
}

struct Operator<X: Mechanism> {
    mechanism: &'static X,
    machine: Native<Yielding>,
    task: X::Task,
    /// While this value exists, other tasks can interrupt this one.
    _ipi_handler: Option<IpiHandler<'static>>,
}

/// One task.
pub fn task<X: Mechanism>(index: c_uint) -> *mut c_void {
    let Load { mechanism, peers } = load::<X>();
    let own_machine = move || machine(index).with_peers(peers);
    let _ipi_handler = X::INTERRUPTS.then(|| {
        // A machine of its own: an interrupt may come while the task's machine is in use.
        let m = own_machine();
        peers.handle_ipis(index as usize, move || mechanism.handle_ipi(&m))
    });
    let machine = own_machine();
    let task = mechanism.start(&machine, index as usize);
    Box::into_raw(Box::new(Operator { mechanism, machine, task, _ipi_handler })).cast()
}

/// One operation.
///
/// # Safety
/// `task` comes from [`task`] for this mechanism, and one thread uses it.
#[inline(always)]
pub unsafe fn operate<X: Mechanism>(task: *mut c_void) {
    // SAFETY: as the caller says.
    let Operator { mechanism, machine, task, .. } = unsafe { &mut *task.cast::<Operator<X>>() };
    mechanism.operate(machine, task);
}

/// Ends a task.
///
/// # Safety
/// As for [`operate`], and the task operates no more.
pub unsafe fn finish<X: Mechanism>(task: *mut c_void) {
    // SAFETY: as the caller says.
    let Operator { mechanism, machine, task, .. } = unsafe { &mut *task.cast::<Operator<X>>() };
    mechanism.finish(machine, task);
}

/// Lets the mechanism check itself: 0, or -1.
pub fn verify<X: Mechanism>(operations: u64) -> i32 {
    let Load { mechanism, peers } = load::<X>();
    match mechanism.check(&machine(0).with_peers(peers), operations) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why}");
            -1
        }
    }
}
