//! Variables of programs, by the addresses of their ELF files.

use std::path::Path;

use anyhow::Result;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::caught;
use crate::elf::{Elf, Question, SYMBOLS_MAX, name_of, with};

/// A variable in a program's or library's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its address in the file, before the file is loaded.
    pub address: u64,
    pub bytes: u64,
    pub name: String,
}

/// What a file puts into memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// By address.
    pub variables: Vec<Variable>,
    /// What is loaded of the file: addresses, and where they begin in the file.
    pub segments: Vec<(std::ops::Range<u64>, u64)>,
    /// The first address that is loaded, and the first behind all.
    pub start: u64,
    pub end: u64,
}

/// The variables of a program's or library's file; a stripped one has none.
pub fn variables(path: &Path) -> Result<Variables> {
    read(path, |elf| {
        let symbols = elf.symbols().chain(elf.dynamic_symbols()).take(SYMBOLS_MAX);
        let mut variables: Vec<Variable> = symbols.filter(is_variable).map(variable).collect();
        variables.sort_by_key(|variable| variable.address);
        variables.dedup_by_key(|variable| variable.address);
        variables
    })
}

/// The variables of these names that a file shows to others, which a stripped one does too.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn exported(path: &Path, names: &[&str]) -> Result<Variables> {
    read(path, |elf| {
        let symbols = elf.dynamic_symbols().take(SYMBOLS_MAX);
        symbols.filter(|s| is_variable(s) && is_called(s, names)).map(variable).collect()
    })
}

/// The variables of these names that a file has, whether it shows them to others or not.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn named(path: &Path, names: &[&str]) -> Result<Variables> {
    read(path, |elf| {
        let symbols = elf.symbols().take(SYMBOLS_MAX).filter(|symbol| is_called(symbol, names));
        symbols.filter(is_variable).map(variable).collect()
    })
}

fn is_called<'d>(symbol: &impl ObjectSymbol<'d>, names: &[&str]) -> bool {
    let name = symbol.name_bytes().unwrap_or_default();
    names.iter().any(|wanted| wanted.as_bytes() == name)
}

fn is_variable<'d>(symbol: &impl ObjectSymbol<'d>) -> bool {
    symbol.kind() == SymbolKind::Data && symbol.size() > 0
}

fn variable<'d>(symbol: impl ObjectSymbol<'d>) -> Variable {
    Variable {
        address: symbol.address(),
        bytes: symbol.size(),
        name: name_of(symbol.name_bytes().unwrap_or_default()),
    }
}

fn read(path: &Path, variables_of: impl Fn(&Elf) -> Vec<Variable>) -> Result<Variables> {
    let question = Question { build_id: &[], trusted: true, offsets: &[], debug: None };
    caught("ELF", || {
        with(path, &question, |elf| {
            let segments = || elf.segments().filter(|segment| segment.size() > 0);
            let loaded = segments().map(|segment| {
                let start = segment.address();
                (start..start.saturating_add(segment.size()), segment.file_range().0)
            });
            let ends = segments().map(|segment| segment.address().saturating_add(segment.size()));
            Ok(Variables {
                variables: variables_of(elf),
                segments: loaded.collect(),
                start: segments().map(|segment| segment.address()).min().unwrap_or(0),
                end: ends.max().unwrap_or(0),
            })
        })
    })
}

impl Variables {
    /// The variable that holds an address of the file, and the offset in it.
    pub fn at(&self, address: u64) -> Option<(&Variable, u64)> {
        let after = self.variables.partition_point(|variable| variable.address <= address);
        let variable = self.variables.get(after.checked_sub(1)?)?;
        let offset = address - variable.address;
        (offset < variable.bytes).then_some((variable, offset))
    }
}
