//! Counted instructions by function, of programs and of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use guests::counted::CountedProgram;
use guests::tracer::Trace;
use perf_data::{Symbols, functions_of};

/// What code in no file is called, such as that of a JIT.
const NO_FILE: &str = "code in no file";

/// The instructions that a program executed in each function, which is called `FUNCTION@FILE`; code without symbols is
/// called by its file. Names are demangled. A file that has changed since, or is gone, has no symbols.
pub fn by_function(program: &CountedProgram) -> BTreeMap<String, u64> {
    let mut instructions = BTreeMap::new();
    for (number, path) in program.objects.iter().enumerate() {
        let of_object = || program.blocks.iter().filter(|block| block.object == number);
        let offsets: BTreeSet<u64> = of_object().map(|block| block.offset).collect();
        let offsets: Vec<u64> = offsets.into_iter().collect();
        let names = if path.is_empty() {
            vec![None; offsets.len()]
        } else {
            functions_of(Path::new(path), &offsets)
        };
        let object = match path.rsplit('/').next() {
            Some("") | None => NO_FILE,
            Some(name) => name,
        };
        let names: BTreeMap<u64, Option<String>> = offsets.into_iter().zip(names).collect();
        for block in of_object() {
            let function = names.get(&block.offset).and_then(Option::as_deref).map(without_version);
            let name = match function {
                Some(function) => format!("{function}@{object}"),
                None => object.to_string(),
            };
            *instructions.entry(name).or_default() += block.instructions * block.executions;
        }
    }
    instructions
}

/// The instructions that an operation executes in each function of the kernel: the mean of all windows, which have so many
/// `operations`. What a compiler split off a function (`.part.0`, `.cold`) or specialised (`.constprop.0`) counts as the
/// function, since another compiler splits elsewhere.
pub fn by_kernel_function(
    trace: &Trace,
    symbols: &Symbols,
    operations: f64,
) -> BTreeMap<String, f64> {
    let mut instructions = BTreeMap::new();
    for execution in &trace.executions {
        let function = symbols.function(execution.instruction).map(|(name, _)| name);
        let name = function.map_or("unknown", |name| name.split('.').next().unwrap_or(name));
        *instructions.entry(name.to_string()).or_default() += execution.count as f64 / operations;
    }
    instructions
}

/// Libraries keep several versions of a function: `pthread_mutex_lock@@GLIBC_2.2.5`.
pub(crate) fn without_version(function: &str) -> &str {
    function.split('@').next().unwrap_or(function)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use guests::counted::CountedBlock;

    use super::*;

    fn program(objects: &[&str], blocks: &[(usize, u64, u64, u64)]) -> CountedProgram {
        let block = |&(object, offset, instructions, executions): &(usize, u64, u64, u64)| {
            CountedBlock { object, offset, instructions, executions }
        };
        CountedProgram {
            objects: objects.iter().map(ToString::to_string).collect(),
            blocks: blocks.iter().map(block).collect(),
            system_calls: BTreeMap::new(),
            status: ExitStatus::from_raw(0),
            output: Vec::new(),
            lost: 0,
            uncounted: 0,
            uncounted_paths: Vec::new(),
        }
    }

    #[test]
    fn code_without_symbols_is_called_by_its_file() {
        let program =
            program(&["", "/gone/lib.so"], &[(0, 0, 3, 10), (1, 64, 2, 5), (1, 80, 1, 1)]);
        let expected = [(NO_FILE.to_string(), 30), ("lib.so".to_string(), 11)];
        assert_eq!(by_function(&program), BTreeMap::from(expected));
    }
}
