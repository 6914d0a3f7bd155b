//! Stacks of Python functions, and how they lie in stacks of C functions.
//!
//! One call of `_PyEval_EvalFrameDefault` runs a Python function and those that it calls, until C code calls back:
//!
//!     C stack                       Python functions
//!     _PyEval_EvalFrameDefault      sort key, begins here
//!     list_sort
//!     _PyEval_EvalFrameDefault      rank, called by serve, begins here

use records::live::TracedFunction;

use super::layout::Layout;
use super::memory::Memory;

/// `PYTHON_FRAMES` of cpython.bpf.h.
pub const PYTHON_FRAMES: usize = 32;

/// The Python functions that a thread is in, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonStack<Function = Option<u32>> {
    /// The functions that each C function runs; one that could not be read is `None`.
    pub runs: Vec<Vec<Function>>,
    /// Whether these are all.
    pub is_whole: bool,
}

impl PythonStack<u64> {
    /// Reads the words of cpython.bpf.h: addresses of code, and 1 more where a C function began.
    pub fn of_words(words: &[u64]) -> PythonStack<u64> {
        let mut runs = vec![Vec::new()];
        for word in words {
            let code = word & !1;
            runs.last_mut().expect("there is one").extend((code != 0).then_some(code));
            if word & 1 == 1 {
                runs.push(Vec::new());
            }
        }
        if runs.last().is_some_and(Vec::is_empty) {
            runs.pop();
        }
        PythonStack { runs, is_whole: words.len() < PYTHON_FRAMES }
    }
}

/// The frames of a thread that waits, in the words of cpython.bpf.h.
pub fn words(memory: Memory, layout: &Layout, thread: u64) -> Vec<u64> {
    let first = memory.member(thread, layout.thread.frame);
    let mut frame = match layout.thread.current {
        Some(current) => first.and_then(|c_frame| memory.member(c_frame, current)),
        None => first,
    };
    let mut words = Vec::new();
    while let Some(address) = frame.filter(|address| *address != 0 && words.len() < PYTHON_FRAMES) {
        let mut members = [0; FRAME_WORDS];
        let Some(()) = memory.words(address, &mut members) else { break };
        let at = &layout.frame;
        let member = |offset: u64| members.get(offset as usize / 8).copied();
        let entry = member(at.entry).map(|word| word.to_ne_bytes()[at.entry as usize % 8]);
        let is_entry = entry == Some(at.is_entry);
        let code = if is_entry && !at.has_code { Some(0) } else { member(at.code) };
        words.push(code.unwrap_or(0) & !1 | u64::from(is_entry));
        frame = member(at.previous);
    }
    words
}

/// Words of a frame that hold all that is read of it.
const FRAME_WORDS: usize = 9;

/// A stack of C functions with the Python functions that they run, innermost first.
pub fn joined(
    stack: Vec<TracedFunction>,
    is_whole: bool,
    python: &PythonStack,
    functions: &[TracedFunction],
) -> Vec<TracedFunction> {
    let calls = stack.iter().filter(|function| is_interpreter(function)).count();
    let mut runs = python.runs.iter();
    let mut skipped = 0;
    let mut surplus = 0;
    if is_whole && python.is_whole {
        // A call that has just begun has no frame yet; the parts of a function that the compiler split have no name.
        skipped = calls.saturating_sub(runs.len());
        surplus = runs.len().saturating_sub(calls);
    }
    let mut joined = Vec::new();
    for function in stack {
        let is_call = is_interpreter(&function);
        if !is_call || skipped > 0 {
            skipped -= usize::from(is_call);
            joined.push(function);
            continue;
        }
        let of_call: Vec<TracedFunction> =
            runs.by_ref().take(1 + surplus).flat_map(|run| named(run, functions)).collect();
        surplus = 0;
        if of_call.is_empty() {
            joined.push(function);
        }
        joined.extend(of_call);
    }
    // The walk along the C stack broke off.
    joined.extend(runs.flat_map(|run| named(run, functions)));
    joined
}

fn is_interpreter(function: &TracedFunction) -> bool {
    function.name.starts_with("_PyEval_EvalFrameDefault")
}

/// The functions of a call; none if none of them could be read.
fn named(run: &[Option<u32>], functions: &[TracedFunction]) -> Vec<TracedFunction> {
    if run.iter().all(Option::is_none) {
        return Vec::new();
    }
    let unread = || TracedFunction {
        name: "a Python function that could not be read".to_string(),
        object: "py:".to_string(),
        is_named: true,
    };
    let function = |index: &Option<u32>| index.and_then(|index| functions.get(index as usize));
    run.iter().map(|index| function(index).cloned().unwrap_or_else(unread)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> TracedFunction {
        TracedFunction { name: name.to_string(), is_named: true, ..TracedFunction::default() }
    }

    /// Joins a C stack, in which E is a call of the interpreter, with runs of functions, each a letter; - could not be read.
    fn check(c: &str, is_whole: bool, runs: &[&str], expected: &str) {
        let functions: Vec<TracedFunction> =
            ('a'..='z').map(|letter| function(&letter.to_string())).collect();
        let written = c.replace('E', "_PyEval_EvalFrameDefault");
        let stack = written.split(' ').map(function).collect();
        let run = |run: &&str| {
            let index = |letter: char| letter.is_ascii_lowercase().then(|| letter as u32 - 97);
            run.chars().map(index).collect()
        };
        let python = PythonStack { runs: runs.iter().map(run).collect(), is_whole: true };
        let joined = joined(stack, is_whole, &python, &functions);
        let names: Vec<&str> = joined.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names.join(" ").replace("_PyEval_EvalFrameDefault", "E"), expected, "{c}");
    }

    #[test]
    fn each_call_of_the_interpreter_has_the_functions_that_it_runs() {
        check("futex E sort E main", true, &["k", "rs"], "futex k sort r s main");
        check("futex E sort E", false, &["k", "rs", "t"], "futex k sort r s t");
        check("E E main", true, &["k"], "E k main");
        check("E sort main", true, &["k", "r"], "k r sort main");
        check("E sort E main", true, &["-", "r"], "E sort r main");
        check("futex main", true, &[], "futex main");
        check("E main", true, &["k-"], "k a Python function that could not be read main");
    }

    #[test]
    fn words_end_runs_with_code_and_without() {
        let runs = |words: &[u64]| PythonStack::of_words(words).runs;
        assert_eq!(runs(&[0x10, 0x21, 0x31]), [vec![0x10, 0x20], vec![0x30]]);
        assert_eq!(runs(&[0x10, 0x20, 1, 0x30, 1]), [vec![0x10, 0x20], vec![0x30]]);
        assert_eq!(runs(&[0x10]), [vec![0x10]]);
        assert!(runs(&[]).is_empty());
        assert!(!PythonStack::of_words(&[0x10; PYTHON_FRAMES]).is_whole);
    }
}
