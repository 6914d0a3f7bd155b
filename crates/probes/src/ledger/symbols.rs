//! Functions of the kernel by address, from /proc/kallsyms.

use std::fs;

/// The functions of the running kernel, by address.
pub struct Symbols {
    functions: Vec<(u64, Box<str>)>,
    /// Variables; many kernels do not tell them.
    variables: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Reads them; an error says what keeps them hidden.
    pub fn of_kernel() -> Result<Symbols, String> {
        let text = fs::read("/proc/kallsyms").map_err(|e| format!("/proc/kallsyms: {e}"))?;
        Symbols::of(&String::from_utf8_lossy(&text))
    }

    fn of(text: &str) -> Result<Symbols, String> {
        let symbols = Symbols::parse(text);
        match symbols.functions.is_empty() {
            false => Ok(symbols),
            true => Err("/proc/kallsyms shows no addresses: set kernel.kptr_restrict to 0 or run \
                         as root"
                .to_string()),
        }
    }

    /// Takes the lines of text sections; addresses that are hidden read as 0.
    fn parse(text: &str) -> Symbols {
        let of = |kinds: &[&str]| {
            let symbol = |line: &str| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let is_meant = kinds.contains(&words.next()?);
                (is_meant && address > 0).then(|| Some((address, words.next()?.into())))?
            };
            let mut symbols: Vec<(u64, Box<str>)> = text.lines().filter_map(symbol).collect();
            symbols.sort();
            // Of several names of one address the first is as good as any.
            symbols.dedup_by_key(|(address, _)| *address);
            symbols
        };
        Symbols { functions: of(&["t", "T", "w", "W"]), variables: of(&["d", "D", "b", "B"]) }
    }

    /// The variable that an address lies in, and how far in.
    pub fn data(&self, address: u64) -> Option<(&str, u64)> {
        /// Variables of which a lock is a part are no longer.
        const VARIABLE_BYTES_MAX: u64 = 1 << 12;
        nearest(&self.variables, address, VARIABLE_BYTES_MAX)
    }

    /// The function that an address lies in, and how far in.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        /// No function is longer; what lies beyond the last one is none.
        const FUNCTION_BYTES_MAX: u64 = 1 << 20;
        nearest(&self.functions, address, FUNCTION_BYTES_MAX)
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
    fn a_kernel_that_hides_its_addresses_is_told_from_one_without_functions() {
        // As kernel.kptr_restrict = 2 shows them, to root too.
        let hidden = "0000000000000000 T _stext\n0000000000000000 t first\n";
        let why = Symbols::of(hidden).err().unwrap();
        assert!(why.contains("kernel.kptr_restrict"), "{why}");
        assert!(Symbols::of("ffffffff81000100 t first\n").is_ok());
    }

    #[test]
    fn an_address_lies_in_the_function_before_it() {
        let symbols = Symbols::parse(
            "ffffffff81000200 T second\nffffffff81000100 t first\nffffffff81000100 T alias\n\
             ffffffff82000000 D data\n0000000000000000 T hidden\nnonsense\n",
        );
        assert_eq!(symbols.find(0xffff_ffff_8100_01ff), Some(("alias", 0xff)));
        assert_eq!(symbols.find(0xffff_ffff_8100_0200), Some(("second", 0)));
        assert_eq!(symbols.find(0xffff_ffff_8100_00ff), None);
        assert_eq!(symbols.find(u64::MAX), None);
        assert_eq!(symbols.data(0xffff_ffff_8200_0008), Some(("data", 8)));
    }
}
