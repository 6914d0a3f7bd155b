//! Functions and variables of the kernel by address, from /proc/kallsyms.

use std::fs;

/// Names by address.
type Names = Vec<(u64, Box<str>)>;

/// The functions of the running kernel, by address.
pub struct Symbols {
    functions: Names,
    /// Empty on many kernels, which do not list variables.
    variables: Names,
    /// Further names of their addresses: where one variable ends, the next one may begin.
    other_names: Names,
    /// Where the functions of each module begin, by address.
    modules: Names,
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
        let symbol = |line: &str| -> Option<(u64, Box<str>, bool)> {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|at| *at > 0)?;
            let kind = words.next()?;
            let name = words.next()?.into();
            let is_function = matches!(kind, "t" | "T" | "w" | "W");
            let is_variable = "dDbBrRaAvV".contains(kind);
            (is_function || is_variable).then_some((address, name, is_function))
        };
        let mut symbols: Vec<_> = text.lines().filter_map(symbol).collect();
        symbols.sort();
        let edge = |wanted: &str| {
            let found = symbols.iter().find(|(_, name, _)| **name == *wanted);
            found.map_or(0, |(address, ..)| *address)
        };
        // Since Linux 6.16, all that lies in .data has the letter of code.
        let data = edge("_sdata")..edge("_edata");
        let (functions, variables): (Vec<_>, Vec<_>) = symbols
            .into_iter()
            .partition(|(address, _, is_function)| *is_function && !data.contains(address));
        let unnamed = |symbols: Vec<(u64, Box<str>, bool)>| -> Names {
            symbols.into_iter().map(|(address, name, _)| (address, name)).collect()
        };
        let (functions, _) = first_names(unnamed(functions));
        let (variables, other_names) = first_names(unnamed(variables));
        let of_module = |line: &str| {
            let (symbol, module) = line.split_once('[')?;
            let mut words = symbol.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_function = matches!(words.next()?, "t" | "T" | "w" | "W");
            (is_function && address > 0).then(|| (address, module.trim_end_matches(']').into()))
        };
        let mut modules: Names = text.lines().filter_map(of_module).collect();
        modules.sort();
        modules.dedup_by(|(_, next), (_, module)| next == module);
        Symbols { functions, variables, other_names, modules }
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
        let mut all = self.variables.iter().chain(&self.other_names);
        let found = all.find(|(_, name)| names.contains(&&**name));
        found.map(|(address, _)| *address)
    }
}

/// The first name of each address, and the further ones.
fn first_names(symbols: Names) -> (Names, Names) {
    let mut last = 0;
    symbols.into_iter().partition(|(address, _)| std::mem::replace(&mut last, *address) != *address)
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
    #[test]
    fn data_with_the_letter_of_code_is_data_and_each_variable_has_all_its_names() {
        let symbols = Symbols::parse(
            "ffffffff81000000 T code\nffffffff82000000 D _sdata\nffffffff82001000 T init_top_pgt\n\
             ffffffff82002000 D _edata\nffffffff82003000 T _sinittext\n\
             ffffffff82004000 r __BTF_ID__1\nffffffff82004000 R __stop_BTF\n",
        );
        let check = |name: &str, expected: Option<u64>| {
            assert_eq!(symbols.address_of(&[name]), expected, "{name}");
        };
        check("init_top_pgt", Some(0xffff_ffff_8200_1000));
        check("__stop_BTF", Some(0xffff_ffff_8200_4000));
        check("code", None);
        let function = symbols.function(0xffff_ffff_8200_3008);
        assert_eq!(function, Some(("_sinittext", 8)));
    }
}
