//! Names of methods, and the bytecode that the interpreter executes (src/hotspot/share/oops/{method,constMethod,symbol}.hpp).

use std::collections::HashMap;
use std::rc::Rc;

use super::memory::{Members, Memory};
use super::vm_structs::VmStructs;

/// The bytecode that enters a monitor, and the flag of methods that do so as they begin (Java Virtual Machine
/// Specification, 6.5 and 4.6).
const MONITORENTER: u8 = 0xc2;
const SYNCHRONIZED: u16 = 0x20;

/// The names of methods that were met.
pub struct Methods {
    memory: Memory,
    layout: Layout,
    /// By the method and what it consists of: a method that is unloaded may leave its place to another.
    known: HashMap<(u64, u64), Option<Rc<str>>>,
}

struct Layout {
    const_method: u64,
    access_flags: u64,
    constants: u64,
    name: u64,
    /// In front of the bytecodes.
    const_method_bytes: u64,
    code_size: u64,
    pool_holder: u64,
    /// In front of the constants.
    pool_bytes: u64,
    klass_name: u64,
    length: u64,
    text: u64,
}

impl Methods {
    /// # Errors
    /// Names what the virtual machine does not describe.
    pub fn new(memory: Memory, structs: &VmStructs) -> Result<Methods, String> {
        let layout = Layout {
            const_method: structs.member("Method._constMethod")?,
            access_flags: structs.member("Method._access_flags")?,
            constants: structs.member("ConstMethod._constants")?,
            name: structs.member("ConstMethod._name_index")?,
            const_method_bytes: structs.size("ConstMethod")?,
            code_size: structs.member("ConstMethod._code_size")?,
            pool_holder: structs.member("ConstantPool._pool_holder")?,
            pool_bytes: structs.size("ConstantPool")?,
            klass_name: structs.member("Klass._name")?,
            length: structs.member("Symbol._length")?,
            text: structs.one_of(&["Symbol._body[0]", "Symbol._body"])?,
        };
        Ok(Methods { memory, layout, known: HashMap::new() })
    }

    /// `package.Class.method`; `None` if there is no method at this address.
    pub fn name(&mut self, method: u64) -> Option<Rc<str>> {
        let const_method = self.const_method(method)?;
        if let Some(known) = self.known.get(&(method, const_method)) {
            return known.clone();
        }
        let name = self.read_name(const_method);
        self.known.insert((method, const_method), name.clone());
        name
    }

    fn const_method(&self, method: u64) -> Option<u64> {
        let is_place = |address: &u64| *address != 0 && address.is_multiple_of(8);
        let method = Some(method).filter(is_place)?;
        self.memory.word(method.checked_add(self.layout.const_method)?).filter(is_place)
    }

    fn read_name(&self, const_method: u64) -> Option<Rc<str>> {
        let (memory, layout) = (self.memory, &self.layout);
        let parts = memory.bytes(const_method, usize::try_from(layout.const_method_bytes).ok()?)?;
        let constants = parts.word_at(layout.constants)?;
        let index = u64::from(parts.short_at(layout.name)?);
        let symbol = constants.checked_add(layout.pool_bytes + 8 * index)?;
        let name = self.symbol(memory.word(symbol)?)?;
        let class = memory.word(constants.checked_add(layout.pool_holder)?)?;
        let class = self.symbol(memory.word(class.checked_add(layout.klass_name)?)?)?;
        Some(format!("{}.{name}", class_name(&class)).into())
    }

    fn symbol(&self, symbol: u64) -> Option<String> {
        /// More than names have.
        const LENGTH_MAX: u16 = 1024;
        let length = self.memory.bytes(symbol.checked_add(self.layout.length)?, 2)?;
        let length = length.short_at(0).filter(|length| (1..=LENGTH_MAX).contains(length))?;
        let text = self.memory.bytes(symbol.checked_add(self.layout.text)?, length.into())?;
        let text = String::from_utf8(text).ok()?;
        text.chars().all(|letter| !letter.is_control()).then_some(text)
    }

    /// Whether the interpreter, at this bytecode of a method, enters a monitor.
    pub fn enters_monitor(&self, method: u64, bytecode: u64) -> bool {
        let enters = || {
            let const_method = self.const_method(method)?;
            let begin = const_method.checked_add(self.layout.const_method_bytes)?;
            let length = self.memory.bytes(const_method.checked_add(self.layout.code_size)?, 2)?;
            let at = bytecode.checked_sub(begin)?;
            if at >= u64::from(length.short_at(0)?) {
                return None;
            }
            let flags = self.memory.bytes(method.checked_add(self.layout.access_flags)?, 2)?;
            let is_synchronized = flags.short_at(0)? & SYNCHRONIZED != 0;
            Some(self.memory.byte(bytecode)? == MONITORENTER || (is_synchronized && at == 0))
        };
        enters().unwrap_or(false)
    }
}

/// The name of a class as programs write it, without what tells hidden classes apart: `Server$$Lambda$7/0x0000000800c2`.
fn class_name(internal: &str) -> String {
    let hidden = ["/0x", "+0x"].into_iter().filter_map(|mark| internal.find(mark)).min();
    internal[..hidden.unwrap_or(internal.len())].replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::class_name;

    #[test]
    fn classes_have_the_names_that_programs_write() {
        assert_eq!(class_name("java/util/HashMap$Node"), "java.util.HashMap$Node");
        assert_eq!(class_name("Server$$Lambda$7/0x0000000800c2"), "Server$$Lambda$7");
        assert_eq!(class_name("Server$$Lambda+0x00007f1c"), "Server$$Lambda");
    }
}
