//! Functions and variables of the kernel by address, from /proc/kallsyms.

use std::fs;

/// The functions of the running kernel, by address.
pub struct Symbols {
    functions: Vec<(u64, Box<str>)>,
    /// Empty on many kernels, which do not list variables.
    variables: Vec<(u64, Box<str>)>,
    /// Where the functions of each module begin, by address.
    modules: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Reads /proc/kallsyms; an error says why it has no addresses.
    pub fn from_kernel() -> Result<Symbols, String> {
        let text = fs::read("/proc/kallsyms").map_err(|e| format!("/proc/kallsyms: {e}"))?;
        Symbols::from_text(&String::from_utf8_lossy(&text))
    }

    /// Parses text like /proc/kallsyms.
    pub fn from_text(text: &str) -> Result<Symbols, String> {
        let symbols = Symbols::parse(text);
        if symbols.functions.is_empty() {
            return Err("/proc/kallsyms shows no addresses: set kernel.kptr_restrict to 0 or run \
                        as root"
                .to_string());
        }
        Ok(symbols)
    }

    /// Parses functions and variables; hidden addresses read as 0 and are left out.
    fn parse(text: &str) -> Symbols {
        let symbols_of = |kinds: &[&str]| {
            let symbol = |line: &str| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let is_wanted = kinds.contains(&words.next()?);
                (is_wanted && address > 0).then(|| Some((address, words.next()?.into())))?
            };
            let mut symbols: Vec<(u64, Box<str>)> = text.lines().filter_map(symbol).collect();
            symbols.sort();
            // Of several names of an address, any will do: keep the first.
            symbols.dedup_by_key(|(address, _)| *address);
            symbols
        };
        let of_module = |line: &str| {
            let (symbol, module) = line.split_once('[')?;
            let mut words = symbol.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_function = matches!(words.next()?, "t" | "T" | "w" | "W");
            (is_function && address > 0).then(|| (address, module.trim_end_matches(']').into()))
        };
        let mut modules: Vec<(u64, Box<str>)> = text.lines().filter_map(of_module).collect();
        modules.sort();
        modules.dedup_by(|(_, next), (_, module)| next == module);
        Symbols {
            modules,
            functions: symbols_of(&["t", "T", "w", "W"]),
            variables: symbols_of(&["d", "D", "b", "B", "r", "R", "a", "A", "v", "V"]),
        }
    }

    /// The variable that contains an address, and the offset in it.
    pub fn variable(&self, address: u64) -> Option<(&str, u64)> {
        /// Variables that contain a lock are no longer than this.
        const VARIABLE_BYTES_MAX: u64 = 1 << 12;
        nearest(&self.variables, address, VARIABLE_BYTES_MAX)
    }

    /// The function that contains an address, and the offset in it.
    pub fn function(&self, address: u64) -> Option<(&str, u64)> {
        /// No function is longer: addresses this far after the last one are in none.
        const FUNCTION_BYTES_MAX: u64 = 1 << 20;
        nearest(&self.functions, address, FUNCTION_BYTES_MAX)
    }
}

impl Symbols {
    /// Each function with its first address, the next one's, and its name.
    pub fn functions(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        let ends = self.functions.iter().skip(1).map(|(start, _)| *start).chain([u64::MAX]);
        self.functions.iter().zip(ends).map(|((start, name), end)| (*start, end, &**name))
    }

    /// The variable that contains an address, the offset in it, and the bytes to the next one.
    pub fn whole_variable(&self, address: u64) -> Option<(&str, u64, u64)> {
        let after = self.variables.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.variables.get(after.checked_sub(1)?)?;
        let end = self.variables.get(after).map_or(u64::MAX, |(next, _)| *next);
        Some((name, address - start, end - start))
    }

    /// The module whose functions begin next before an address.
    pub fn module(&self, address: u64) -> Option<&str> {
        let after = self.modules.partition_point(|(start, _)| *start <= address);
        self.modules.get(after.checked_sub(1)?).map(|(_, module)| &**module)
    }

    /// The address of the variable that has one of these names.
    pub fn address_of(&self, names: &[&str]) -> Option<u64> {
        let found = self.variables.iter().find(|(_, name)| names.contains(&&**name));
        found.map(|(address, _)| *address)
    }
}

/// The symbol that begins at or before an address, less than `bytes_max` before.
fn nearest(symbols: &[(u64, Box<str>)], address: u64, bytes_max: u64) -> Option<(&str, u64)> {
    let after = symbols.partition_point(|(start, _)| *start <= address);
    let (start, name) = symbols.get(after.checked_sub(1)?)?;
    let offset = address - start;
    (offset < bytes_max).then_some((name, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_hides_its_addresses_is_refused_with_advice() {
        // As kernel.kptr_restrict = 2 shows them, to root too.
        let hidden = "0000000000000000 T _stext\n0000000000000000 t first\n";
        let why = Symbols::from_text(hidden).err().unwrap();
        assert!(why.contains("kernel.kptr_restrict"), "{why}");
        assert!(Symbols::from_text("ffffffff81000100 t first\n").is_ok());
    }

    #[test]
    fn an_address_lies_in_the_function_before_it() {
        let symbols = Symbols::parse(
            "ffffffff81000200 T second\nffffffff81000100 t first\nffffffff81000100 T alias\n\
             ffffffff82000000 D data\n0000000000000000 T hidden\nnonsense\n\
             ffffffffc0000000 t first_of_xfs\t[xfs]\nffffffffc0000100 t of_xfs\t[xfs]\n\
             ffffffffc0002000 t of_ext4\t[ext4]\nffffffffc0003000 d data_of_xfs\t[xfs]\n",
        );
        assert_eq!(symbols.module(0xffff_ffff_8100_0200), None);
        assert_eq!(symbols.module(0xffff_ffff_c000_0200), Some("xfs"));
        assert_eq!(symbols.module(0xffff_ffff_c000_3000), Some("ext4"));
        assert_eq!(symbols.function(0xffff_ffff_c000_0110), Some(("of_xfs", 0x10)));
        assert_eq!(symbols.function(0xffff_ffff_8100_01ff), Some(("alias", 0xff)));
        assert_eq!(symbols.function(0xffff_ffff_8100_0200), Some(("second", 0)));
        assert_eq!(symbols.function(0xffff_ffff_8100_00ff), None);
        assert_eq!(symbols.function(u64::MAX), None);
        assert_eq!(symbols.variable(0xffff_ffff_8200_0008), Some(("data", 8)));
    }
}
