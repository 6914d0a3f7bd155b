//! What lies at an address of what was traced: of a kernel, or of a program.

use perf_data::ProgramMember;

use crate::names::Namer;

/// Names addresses.
pub trait Image {
    /// What lies at an address; `is_user` says whether it was accessed by a user address.
    fn place(&self, is_user: bool, address: u64) -> Place;
    /// The function that holds an instruction.
    fn function(&self, address: u64) -> Option<String>;
    /// The line of an instruction in the source, as `FILE:LINE`.
    fn source(&self, _address: u64) -> Option<String> {
        None
    }
    /// Whether the types that the code at an address uses are known: not those of a module without BTF.
    fn has_types(&self, _address: u64) -> bool {
        true
    }
    /// The member of a program's variable at an offset; `None` where the program does not say it.
    fn member(&self, _place: &Place, _offset: u64) -> Option<ProgramMember> {
        None
    }
    /// What names members of the kernel; `None` where only variables are named.
    fn namer(&self) -> Option<&Namer<'_>>;
}

/// What lies at an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A variable of the image, or what follows one.
    Variable { name: String, start: u64, bytes: u64 },
    /// A per-CPU variable, and whose.
    PerCpu { name: String, cpu: usize, start: u64, bytes: u64 },
    /// An object of a slab cache, and whether all of its cache's begin at lines.
    Object { cache: String, start: u64, bytes: u64, begins_at_line: bool },
    /// The description of a page.
    Page { start: u64 },
    /// The content of a page that is in no slab.
    Content,
    /// Mapped by vmalloc: stacks of tasks, tables, memory of modules.
    Vmalloc,
    /// Memory of a guest's program.
    User,
    /// Memory of a program that is no variable: its heap, a stack, a file.
    Mapping { name: String },
    /// Nothing that is known.
    Unknown,
}

impl Place {
    /// Where it starts, where that is known.
    pub fn start(&self) -> Option<u64> {
        match self {
            Place::Variable { start, .. }
            | Place::PerCpu { start, .. }
            | Place::Object { start, .. }
            | Place::Page { start } => Some(*start),
            _ => None,
        }
    }
}
