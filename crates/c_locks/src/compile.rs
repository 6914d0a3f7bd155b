//! From a C file to a [`Program`]: assembly by the host's compiler, the table of lines, an object file.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use engines::Unsupported;
use own_loads::{Compiler, Scratch, Source};
use setup::foreign::Permitted;

use crate::assembly::annotate;
use crate::equivalent;
use crate::instance::Instance;
use crate::program::Program;

/// The header that says which functions are the lock's.
pub const HEADER: &str = include_str!("../c/knee_lock.h");
/// The header with the kernel's words.
pub const KERNEL_HEADER: &str = include_str!("../c/knee_kernel.h");
/// A lock that compiles, for a user to begin with.
pub const EXAMPLE: &str = include_str!("../c/example.c");

/// Largest file that is read as a lock.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Flags for all compilers. Without sibling calls, every call has a return address in its own line. Without a red zone, calls
/// may stand where the compiler knows of none.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-fPIC",
    "-fsanitize=thread",
    "-fno-stack-protector",
    "-fno-optimize-sibling-calls",
    "-mno-red-zone",
    "-fno-tree-vectorize",
    "-fcf-protection=none",
    "-ftls-model=global-dynamic",
    // What no function of the lock leads to is left out, whatever it calls.
    "-ffunction-sections",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    "-Wno-tsan",
];
const GCC_FLAGS: &[&str] = &[
    "-mtls-dialect=gnu",
    "-fno-reorder-blocks-and-partition",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
];
/// After the user's flags: calls between instructions keep registers of 16 bytes, not wider ones.
const LAST_FLAGS: &[&str] = &["-mno-avx"];
const CLANG_FLAGS: &[&str] =
    &["-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-distinguish-volatile=1"];

/// Compiles the lock in a file, whose code then runs in this process. `flags` are the user's own, for the compiler. The
/// error is an [`Unsupported`] where the file is a lock, and only a search of it is not possible.
pub fn compile(file: &Permitted<PathBuf>, flags: &[String]) -> Result<Program> {
    compiled(file, flags).map_err(|error| {
        let context = if error.is::<Unsupported>() {
            format!("{}: not checked", file.display())
        } else {
            format!("{}: no lock that can be checked", file.display())
        };
        error.context(context)
    })
}

fn compiled(file: &Path, flags: &[String]) -> Result<Program> {
    ensure!(cfg!(target_arch = "x86_64"), "locks in C are checked on x86-64 only");
    let found = fs::metadata(file).context("looking for the file")?;
    ensure!(found.is_file(), "it is not a file");
    ensure!(found.len() <= FILE_BYTES_MAX, "it has more than {FILE_BYTES_MAX} bytes");
    let path = file.canonicalize().context("resolving its path")?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let compiler = Compiler::for_file(file)?;
    let folder = Scratch::new()?;
    write_headers(folder.path())?;
    let folder = folder.path();
    let mut arguments: Vec<OsString> = FLAGS.iter().map(OsString::from).collect();
    let own = if compiler.version()?.contains("clang") { CLANG_FLAGS } else { GCC_FLAGS };
    arguments.extend(own.iter().map(OsString::from));
    let (assembly, object) = (folder.join("lock.s"), folder.join("lock.o"));
    arguments.extend(["-S".into(), "-o".into(), assembly.clone().into()]);
    arguments.extend(["-I".into(), folder.into()]);
    arguments.extend(flags.iter().map(OsString::from));
    arguments.extend(LAST_FLAGS.iter().map(OsString::from));
    arguments.push(path.clone().into());
    // The user's flags may name folders from here.
    let here = Path::new(".");
    compiler.call(here, &arguments).context("compiling it")?;
    let text = fs::read(&assembly).context("reading the compiler's assembly")?;
    let annotated = annotate(&String::from_utf8_lossy(&text));
    fs::write(&assembly, &annotated.text).context("writing assembly")?;
    let assemble: [OsString; 4] =
        ["-c".into(), "-o".into(), object.clone().into(), assembly.into()];
    compiler.call(here, &assemble).context("assembling it")?;
    let object = fs::read(&object).context("reading the object file")?;
    let mut program = Program::parse(&name, &object, &annotated)?;
    program.sources = sources(&annotated.files, folder);
    program.equivalent = equivalent::read(&program.sources)?;
    program.file = file.to_path_buf();
    Instance::try_once(&program)?;
    Ok(program)
}

/// The files that a lock includes, whose code would be compiled with it: those of the system and knee's headers are left out.
pub fn included(file: &Path, flags: &[String]) -> Vec<PathBuf> {
    let kernel_asm = ["asm/spinlock.h", "asm/spinlock_types.h"];
    let provided =
        ["knee_lock.h", "knee_kernel.h"].iter().chain(KERNEL_INCLUDES).chain(&kernel_asm);
    let provided: Vec<&str> = provided.copied().collect();
    own_loads::included(Source::read(file).into_iter().collect(), flags, &provided)
}

/// The user's own files: neither those of the system nor knee's headers.
fn sources(files: &[String], folder: &Path) -> Vec<(String, String)> {
    let is_own = |path: &&String| {
        !path.is_empty() && !path.starts_with("/usr/") && !Path::new(path).starts_with(folder)
    };
    let text = |path: &String| Some((format!("/{path}"), fs::read_to_string(path).ok()?));
    let mut sources: Vec<_> = files.iter().filter(is_own).filter_map(text).collect();
    sources.sort();
    sources.dedup();
    sources
}

/// Headers of the kernel that the files of its locks include: all stand for knee's.
const KERNEL_INCLUDES: &[&str] = &[
    "asm/barrier.h",
    "asm/byteorder.h",
    "asm/processor.h",
    "linux/atomic.h",
    "linux/bitops.h",
    "linux/bug.h",
    "linux/build_bug.h",
    "linux/cache.h",
    "linux/compiler.h",
    "linux/cpumask.h",
    "linux/export.h",
    "linux/hardirq.h",
    "linux/init.h",
    "linux/irqflags.h",
    "linux/kernel.h",
    "linux/list.h",
    "linux/lockdep.h",
    "linux/minmax.h",
    "linux/module.h",
    "linux/mutex.h",
    "linux/percpu.h",
    "linux/preempt.h",
    "linux/prefetch.h",
    "linux/processor.h",
    "linux/rcupdate.h",
    "linux/sched.h",
    "linux/sched/debug.h",
    "linux/sched/rt.h",
    "linux/sched/signal.h",
    "linux/sched/task.h",
    "linux/sched/wake_q.h",
    "linux/smp.h",
    "linux/spinlock.h",
    "linux/spinlock_types.h",
    "linux/stddef.h",
    "linux/threads.h",
    "linux/topology.h",
    "linux/types.h",
    "trace/events/lock.h",
];

/// Headers of an architecture for which the kernel has a generic one, which the user's flags may name.
const GENERIC_INCLUDES: &[&str] = &["mcs_spinlock.h", "qrwlock.h", "qspinlock.h"];

/// The architecture's spin lock, which is the queued one where a file checks that.
const ARCH_SPINLOCK: &str = "#include <knee_kernel.h>
#if !defined(KNEE_ARCH_SPINLOCK) && !defined(__ASM_GENERIC_QSPINLOCK_TYPES_H)
#define KNEE_ARCH_SPINLOCK
typedef struct knee_spinlock arch_spinlock_t;
#define __ARCH_SPIN_LOCK_UNLOCKED { 0 }
#define arch_spin_lock(lock) knee_spin_lock(lock)
#define arch_spin_trylock(lock) knee_spin_trylock(lock)
#define arch_spin_unlock(lock) knee_spin_unlock(lock)
#define arch_spin_is_locked(lock) READ_ONCE((lock)->locked)
#endif
";

/// A header that a file of the kernel and one of user space may both include: the system's own, if it has one, unless the file
/// has the kernel's words or the user's flags name a kernel tree.
fn stands_for_kernel(name: &str) -> String {
    format!(
        "#if defined(KNEE_KERNEL_H) || !__has_include_next(<{name}>) || __has_include(<linux/compiler_types.h>)
#include <knee_kernel.h>
#else
#include_next <{name}>
#endif
"
    )
}

fn write_headers(folder: &Path) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let parent = path.parent().context("a header has a folder")?;
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("writing {name}"))
    };
    write("knee_lock.h", HEADER)?;
    write("knee_kernel.h", KERNEL_HEADER)?;
    for name in KERNEL_INCLUDES {
        write(name, &stands_for_kernel(name))?;
    }
    for name in ["asm/spinlock.h", "asm/spinlock_types.h"] {
        write(name, ARCH_SPINLOCK)?;
    }
    for name in GENERIC_INCLUDES {
        let generic = format!("<asm-generic/{name}>");
        write(
            &format!("asm/{name}"),
            &format!(
                "#include <knee_kernel.h>\n#if __has_include({generic})\n#include {generic}\n#endif\n"
            ),
        )?;
    }
    Ok(())
}
