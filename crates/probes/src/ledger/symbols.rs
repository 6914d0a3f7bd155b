//! Functions of the kernel by address, from /proc/kallsyms.

use std::fs;

/// The functions of the running kernel, by address.
pub struct Symbols {
    functions: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Reads them; an error says what keeps them hidden.
    pub fn of_kernel() -> Result<Symbols, String> {
        let text = fs::read("/proc/kallsyms").map_err(|e| format!("/proc/kallsyms: {e}"))?;
        let symbols = Symbols::parse(&String::from_utf8_lossy(&text));
        match symbols.functions.is_empty() {
            false => Ok(symbols),
            true => Err("/proc/kallsyms shows no addresses: set kernel.kptr_restrict to 0 or run \
                         as root"
                .to_string()),
        }
    }

    /// Takes the lines of text sections; addresses that are hidden read as 0.
    fn parse(text: &str) -> Symbols {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_text = matches!(words.next()?, "t" | "T" | "w" | "W");
            (is_text && address > 0).then(|| Some((address, words.next()?.into())))?
        };
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(function).collect();
        functions.sort();
        // Of several names of one address the first is as good as any.
        functions.dedup_by_key(|(address, _)| *address);
        Symbols { functions }
    }

    /// The function that an address lies in, and how far in.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        /// No function is longer; what lies beyond the last one is none.
        const FUNCTION_BYTES_MAX: u64 = 1 << 20;
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.functions.get(after.checked_sub(1)?)?;
        let offset = address - start;
        (offset < FUNCTION_BYTES_MAX).then_some((name, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
