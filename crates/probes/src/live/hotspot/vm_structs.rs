//! The tables in which HotSpot describes its own structures to debuggers (src/hotspot/share/runtime/vmStructs.cpp): where
//! members lie and how large types are, by name. `libjvm.so` exports where the tables begin.

use std::collections::HashMap;

use super::memory::{Members, Memory};

/// More entries than any table has.
const ENTRIES_MAX: usize = 20_000;
const PAGE: u64 = 4096;

/// What the tables say.
#[derive(Default)]
pub struct VmStructs {
    /// By `Type.member`: its offset, or the address of a static one.
    members: HashMap<String, u64>,
    sizes: HashMap<String, u64>,
}

/// Reads the tables of a process. `exported` gives the address of a variable that `libjvm.so` exports.
struct Reader<'e> {
    memory: Memory,
    exported: &'e dyn Fn(&str) -> Option<u64>,
    /// Texts of the tables lie side by side.
    pages: HashMap<u64, Vec<u8>>,
}

impl VmStructs {
    /// Reads the tables of a process. `exported` gives the address of a variable that `libjvm.so` exports.
    ///
    /// # Errors
    /// The library has no such tables, or they cannot be read.
    pub fn read(
        memory: Memory,
        exported: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<VmStructs, String> {
        let mut reader = Reader { memory, exported, pages: HashMap::new() };
        let mut tables = VmStructs::default();
        let members = ["TypeName", "FieldName", "IsStatic", "Offset", "Address"];
        reader.table("Struct", "Structs", &members, |reader, entry| {
            let [Some(of), Some(name)] = [entry[0], entry[1]].map(|at| reader.text_at(at)) else {
                return;
            };
            let is_static = reader.word(entry[2]).is_some_and(|word| word as u32 != 0);
            let place = reader.word(if is_static { entry[4] } else { entry[3] });
            tables.members.extend(place.map(|place| (format!("{of}.{name}"), place)));
        })?;
        reader.table("Type", "Types", &["TypeName", "Size"], |reader, entry| {
            let named = reader.text_at(entry[0]).zip(reader.word(entry[1]));
            tables.sizes.extend(named);
        })?;
        Ok(tables)
    }

    /// The offset of a member, or the address of a static one.
    ///
    /// # Errors
    /// Names the member, if this virtual machine has none.
    pub fn member(&self, name: &str) -> Result<u64, String> {
        let place = self.members.get(name).copied();
        place.ok_or_else(|| format!("this virtual machine describes no {name}"))
    }

    /// The first of these members that there is.
    ///
    /// # Errors
    /// Names the first one, if there is none.
    pub fn one_of(&self, names: &[&str]) -> Result<u64, String> {
        let found = names.iter().find_map(|name| self.member(name).ok());
        found.ok_or_else(|| format!("this virtual machine describes no {}", names[0]))
    }

    /// The size of a type.
    ///
    /// # Errors
    /// Names the type, if this virtual machine has none.
    pub fn size(&self, name: &str) -> Result<u64, String> {
        let size = self.sizes.get(name).copied();
        size.ok_or_else(|| format!("this virtual machine describes no {name}"))
    }
}

impl Reader<'_> {
    /// Calls `each` with the addresses of the members of each entry of a table. It ends with an entry without a name.
    fn table(
        &mut self,
        entry: &str,
        table: &str,
        members: &[&str],
        mut each: impl FnMut(&mut Self, &[u64]),
    ) -> Result<(), String> {
        let variable = |name: &str| {
            let name = format!("gHotSpotVM{name}");
            let value = (self.exported)(&name).and_then(|at| self.memory.word(at));
            value.ok_or_else(|| format!("it exports no {name}, as HotSpot does"))
        };
        let mut at = variable(table)?;
        let stride = variable(&format!("{entry}EntryArrayStride"))?;
        let offsets: Result<Vec<u64>, String> =
            members.iter().map(|name| variable(&format!("{entry}Entry{name}Offset"))).collect();
        let offsets = offsets?;
        for _ in 0..ENTRIES_MAX {
            let places: Vec<u64> = offsets.iter().map(|offset| at.wrapping_add(*offset)).collect();
            if self.word(places[0]).is_none_or(|name| name == 0) {
                return Ok(());
            }
            each(self, &places);
            at = at.wrapping_add(stride);
        }
        Err(format!("its table gHotSpotVM{table} has no end"))
    }

    fn page(&mut self, address: u64) -> (&[u8], u64) {
        let start = address / PAGE * PAGE;
        let memory = self.memory;
        let page = self.pages.entry(start);
        (page.or_insert_with(|| memory.prefix(start, PAGE as usize)), address - start)
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        let (page, offset) = self.page(address);
        page.word_at(offset).or_else(|| self.memory.word(address))
    }

    /// The text that a pointer at this address points to.
    fn text_at(&mut self, address: u64) -> Option<String> {
        let text = self.word(address).filter(|text| *text != 0)?;
        let (page, offset) = self.page(text);
        let bytes = page.get(offset as usize..)?;
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) => String::from_utf8(bytes[..end].to_vec()).ok(),
            None => self.memory.text(text),
        }
    }
}

#[cfg(test)]
impl VmStructs {
    /// Tables with these members and sizes.
    pub fn with(members: &[(&str, u64)], sizes: &[(&str, u64)]) -> VmStructs {
        let named = |all: &[(&str, u64)]| {
            all.iter().map(|(name, value)| ((*name).to_string(), *value)).collect()
        };
        VmStructs { members: named(members), sizes: named(sizes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_hotspot_lays_them_out() {
        let [of, name, size] = [c"Method".as_ptr(), c"_code".as_ptr(), c"Symbol".as_ptr()];
        // type, member, is static, offset, address
        let structs: [u64; 10] = [of as u64, name as u64, 0, 72, 0, 0, 0, 0, 0, 0];
        let types: [u64; 4] = [size as u64, 8, 0, 0];
        let mut variables: Vec<(String, u64)> = Vec::new();
        let mut add = |name: &str, value: u64| variables.push((format!("gHotSpotVM{name}"), value));
        add("Structs", structs.as_ptr() as u64);
        add("StructEntryArrayStride", 40);
        for (index, member) in
            ["TypeName", "FieldName", "IsStatic", "Offset", "Address"].iter().enumerate()
        {
            add(&format!("StructEntry{member}Offset"), 8 * index as u64);
        }
        add("Types", types.as_ptr() as u64);
        add("TypeEntryArrayStride", 16);
        add("TypeEntryTypeNameOffset", 0);
        add("TypeEntrySizeOffset", 8);
        let exported = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == name)?;
            Some((&raw const found.1) as u64)
        };
        let memory = Memory(std::process::id());
        let tables = VmStructs::read(memory, &exported).unwrap();
        assert_eq!(tables.member("Method._code"), Ok(72));
        assert_eq!(tables.size("Symbol"), Ok(8));
        assert!(tables.member("Method._name").unwrap_err().contains("Method._name"));
        let none = VmStructs::read(memory, &|_| None).err().unwrap();
        assert!(none.contains("gHotSpotVMStructs"), "{none}");
    }
}
