//! Types of modules (split BTF): numbers and names below the kernel's own counts mean the kernel's, those above continue
//! them. Each module continues the kernel's, so all but the first one's are moved up.

use super::{
    CONST, KernelTypes, RESTRICT, STRUCT, TYPE_TAG, TYPEDEF, UNION, VOLATILE, entries, sections,
    word,
};

/// What the words of a type refer to.
struct Moved {
    /// What is added to numbers of types, and to names, that are not the kernel's own.
    by: (u32, u32),
    own: (u32, u32),
}

impl Moved {
    fn number(&self, number: u32) -> u32 {
        if number < self.own.0 { number } else { number.wrapping_add(self.by.0) }
    }

    fn name(&self, name: u32) -> u32 {
        if name < self.own.1 { name } else { name.wrapping_add(self.by.1) }
    }
}

impl KernelTypes {
    /// Adds the types of a module: the content of its section .BTF. An error says why they are not this kernel's.
    pub fn add_module(&mut self, module: &str, bytes: &[u8]) -> Result<(), String> {
        let (types, names) = sections(bytes)?;
        let offsets = entries(types)?;
        let all_types = self.own.0 as usize + offsets.len();
        let begins_name = |name: u32| match name.checked_sub(self.own.1) {
            Some(0) => true,
            Some(at) => names.get(at as usize - 1) == Some(&0),
            None => name == 0 || self.names[name as usize - 1] == 0,
        };
        let moved = Moved {
            by: (self.types.len() as u32 - self.own.0, self.names.len() as u32 - self.own.1),
            own: self.own,
        };
        let mut written = types.to_vec();
        for at in &offsets {
            let (numbers, name_words) = references(types, *at);
            for at in numbers {
                let number = word(types, at).unwrap_or_default();
                if number as usize >= all_types {
                    return Err(
                        "its types refer to others that the kernel does not have".to_string()
                    );
                }
                written[at..at + 4].copy_from_slice(&moved.number(number).to_ne_bytes());
            }
            for at in name_words {
                let name = word(types, at).unwrap_or_default();
                if !begins_name(name) {
                    return Err("its names are not this kernel's".to_string());
                }
                written[at..at + 4].copy_from_slice(&moved.name(name).to_ne_bytes());
            }
        }
        let start = self.bytes.len();
        self.types.extend(offsets.iter().map(|at| start + at));
        self.bytes.extend(written);
        self.names.extend(names);
        self.modules.insert(module.to_string());
        Ok(())
    }

    /// Whether the types of a module were added.
    pub fn has_module(&self, module: &str) -> bool {
        self.modules.contains(module)
    }
}

/// The words of the type at an offset that are numbers of types, and those that are names.
fn references(types: &[u8], at: usize) -> (Vec<usize>, Vec<usize>) {
    let info = word(types, at + 4).unwrap_or_default();
    let parts = (info & 0xffff) as usize;
    let after = at + 12;
    let each = |bytes: usize, offset: usize| {
        (0..parts).map(move |part| after + bytes * part + offset).collect::<Vec<_>>()
    };
    let (mut numbers, mut names) = (Vec::new(), vec![at]);
    match info >> 24 & 0x1f {
        // Pointers, functions, variables, tags of declarations, and what is behind a typedef or a qualifier.
        2 | 12 | 14 | 17 | TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => numbers.push(at + 8),
        // Arrays: of what, and what counts the elements.
        3 => numbers.extend([after, after + 4]),
        STRUCT | UNION => {
            names.extend(each(12, 0));
            numbers.extend(each(12, 4));
        }
        // Enumerations.
        6 => names.extend(each(8, 0)),
        19 => names.extend(each(12, 0)),
        // Prototypes.
        13 => {
            numbers.push(at + 8);
            names.extend(each(8, 0));
            numbers.extend(each(8, 4));
        }
        // Sections.
        15 => numbers.extend(each(12, 0)),
        _ => (),
    }
    (numbers, names)
}
