//! What of an object file a check comes to: the sections that the functions of KNEE_LOCK and the like lead to. The rest is left
//! out, whatever it calls.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use object::read::elf::ElfFile64;
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionFlags, SectionIndex, SymbolIndex,
};

use crate::headers::GIVEN;

/// The functions of KNEE_LOCK and the like.
const ENTRIES: [&str; 8] = [
    "knee_lock",
    "knee_unlock",
    "knee_read_lock",
    "knee_read_unlock",
    "knee_operate",
    "knee_check",
    "knee_prepare",
    "knee_at_rest",
];

/// The section with the unwind table.
pub const UNWIND_TABLE: &str = ".eh_frame";

/// The functions of the C library that the file does not define and knee gives, by their own name.
pub fn given(file: &ElfFile64<object::Endianness>) -> BTreeMap<String, SymbolIndex> {
    let given = file.symbols().filter_map(|symbol| {
        symbol.section_index()?;
        Some((symbol.name().ok()?.strip_prefix(GIVEN)?.to_string(), symbol.index()))
    });
    given.collect()
}

/// The functions that a file calls and does not define.
pub fn undefined(bytes: &[u8]) -> Result<Vec<String>> {
    let file = ElfFile64::<object::Endianness>::parse(bytes).context("reading the object file")?;
    let undefined = file.symbols().filter(|symbol| symbol.is_undefined());
    Ok(undefined.filter_map(|symbol| Some(symbol.name().ok()?.to_string())).collect())
}

/// The sections that the functions of KNEE_LOCK and the like lead to, and the unwind table. With them, where the constructors are
/// that set variables of these, which run before all else.
pub fn reached(
    file: &ElfFile64<object::Endianness>,
    given: &BTreeMap<String, SymbolIndex>,
) -> Result<(BTreeSet<usize>, Vec<Constructor>)> {
    let entries =
        file.symbols().filter(|symbol| symbol.name().is_ok_and(|name| ENTRIES.contains(&name)));
    let mut reached =
        follow(file, given, entries.filter_map(|symbol| symbol.section_index()).collect());
    let mut needed = Vec::new();
    for constructor in constructors(file)? {
        let own = follow(file, given, vec![SectionIndex(constructor.section)]);
        if own.intersection(&reached).any(|section| is_writable(file, *section)) {
            reached.extend(own);
            needed.push(constructor);
        }
    }
    reached.extend(file.section_by_name(UNWIND_TABLE).map(|section| section.index().0));
    Ok((reached, needed))
}

/// A function that runs before all others: its section, and where it begins there.
#[derive(Debug)]
pub struct Constructor {
    pub section: usize,
    pub offset: usize,
}

fn constructors(file: &ElfFile64<object::Endianness>) -> Result<Vec<Constructor>> {
    /// Those of ThreadSanitizer.
    const UNNEEDED: [&str; 2] = ["_sub_I_00099", "tsan.module_ctor"];
    let mut constructors = Vec::new();
    for section in file.sections() {
        let name = section.name()?;
        if ![".init_array", ".ctors", ".preinit_array"].iter().any(|start| name.starts_with(start))
        {
            continue;
        }
        for (_, relocation) in section.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(index)?;
            let Some(SectionIndex(section)) = symbol.section_index() else { continue };
            let offset = (symbol.address() as i64 + relocation.addend()) as usize;
            let is_unneeded = file.symbols().any(|other| {
                other.section_index() == Some(SectionIndex(section))
                    && other.address() as usize == offset
                    && other
                        .name()
                        .is_ok_and(|name| UNNEEDED.iter().any(|start| name.starts_with(start)))
            });
            if !is_unneeded {
                constructors.push(Constructor { section, offset });
            }
        }
    }
    Ok(constructors)
}

fn is_writable(file: &ElfFile64<object::Endianness>, section: usize) -> bool {
    let section = file.section_by_index(SectionIndex(section));
    section.is_ok_and(|section| match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & object::elf::SHF_WRITE.0 != 0,
        _ => false,
    })
}

/// The sections that these lead to, and they themselves.
fn follow(
    file: &ElfFile64<object::Endianness>,
    given: &BTreeMap<String, SymbolIndex>,
    mut to_follow: Vec<SectionIndex>,
) -> BTreeSet<usize> {
    let mut reached: BTreeSet<usize> = to_follow.iter().map(|section| section.0).collect();
    while let Some(section) = to_follow.pop() {
        let Ok(section) = file.section_by_index(section) else { continue };
        for (_, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
            let Ok(symbol) = file.symbol_by_index(symbol) else { continue };
            let is_given = symbol.name().ok().and_then(|name| given.get(name));
            let is_given = is_given.filter(|_| symbol.is_undefined());
            let symbol =
                is_given.and_then(|given| file.symbol_by_index(*given).ok()).unwrap_or(symbol);
            let target = symbol.section_index().filter(|section| reached.insert(section.0));
            to_follow.extend(target);
        }
    }
    reached
}
