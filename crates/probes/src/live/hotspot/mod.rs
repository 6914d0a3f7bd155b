//! Stacks of programs in Java: HotSpot, the virtual machine of OpenJDK, compiles methods while it runs, or interprets them.
//! It describes its own structures to debuggers, and so its tables are read from the memory of the process, which
//! itself runs nothing for that and is not stopped.
//!
//!     libjvm.so ─vm_structs─→ where members lie
//!     pc ─code_cache─→ blob ─frames─→ its caller's registers
//!                       └─scopes─→ methods ─methods─→ names
//!
//! Whatever is read may be gone already: each address is checked, each loop is bounded.

mod code_cache;
mod frames;
mod memory;
mod methods;
mod scopes;
mod vm_structs;

use std::collections::HashMap;
use std::rc::Rc;

use code_cache::CodeCache;
pub use frames::{Inner, Registers, Stack};
use memory::Memory;
use methods::Methods;
use scopes::{At, Scopes};
use vm_structs::VmStructs;

/// The versions whose tables are known.
const VERSIONS: std::ops::RangeInclusive<i32> = 17..=25;

/// The library that is the virtual machine.
pub const LIBRARY: &str = "libjvm.so";
/// What the names of the variables begin with that lead to its tables.
pub const EXPORTED: &str = "gHotSpotVM";
/// Stands in stacks where a thread enters a monitor: virtual machines are stripped of the names of their own functions.
const MONITORENTER: &str = "monitorenter";

/// The virtual machine of a process.
pub struct Hotspot {
    code: CodeCache,
    methods: Methods,
    scopes: Scopes,
    /// Methods at places of compiled code, each with the method that was compiled, and the compilation.
    known: HashMap<(u64, At, u64, i32), Vec<Rc<str>>>,
    monitorenter: Rc<str>,
}

impl Hotspot {
    /// Finds the tables of the virtual machine in a process. `exported` gives the address of a variable that its library
    /// exports.
    ///
    /// # Errors
    /// Says why methods of this process have no names.
    pub fn find(process: u32, exported: &dyn Fn(&str) -> Option<u64>) -> Result<Hotspot, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("knee walks its stacks on x86-64 alone".to_string());
        }
        let memory = Memory(process);
        let structs = VmStructs::read(memory, exported)?;
        let version = structs.member("Abstract_VM_Version._vm_major_version")?;
        let version = memory.int(version).ok_or("its version cannot be read")?;
        if !VERSIONS.contains(&version) {
            let (first, last) = (VERSIONS.start(), VERSIONS.end());
            return Err(format!("it is version {version}, and knee knows {first} to {last}"));
        }
        Ok(Hotspot {
            code: CodeCache::find(memory, &structs)?,
            methods: Methods::new(memory, &structs)?,
            scopes: Scopes::new(memory, &structs, version)?,
            known: HashMap::new(),
            monitorenter: MONITORENTER.into(),
        })
    }

    /// Whether an address may be code of this virtual machine's making.
    pub fn covers(&self, address: u64) -> bool {
        self.code.covers(address)
    }
}
