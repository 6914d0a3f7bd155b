//! Symbols of a kernel: from text like /proc/kallsyms or System.map, moved to where the kernel
//! was when it was recorded.

use std::collections::HashMap;

/// Functions of one kernel by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Address, name, and the module it belongs to.
    functions: Vec<(u64, String, Option<String>)>,
    /// Recorded address minus that of the table.
    shift: u64,
}

/// No function is longer; what lies beyond the last one is none.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

impl KernelSymbols {
    /// Takes lines `ADDRESS TYPE NAME [MODULE]`; hidden addresses read as 0. `reference` is a
    /// symbol and where it was when recorded: a kernel lies elsewhere after each boot.
    pub fn parse(text: &str, reference: Option<&(String, u64)>) -> Result<KernelSymbols, String> {
        let mut functions = Vec::new();
        let mut at = HashMap::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Some(address) = u64::from_str_radix(address, 16).ok().filter(|a| *a > 0) else {
                continue;
            };
            if reference.is_some_and(|(symbol, _)| symbol == name) {
                at.insert(name, address);
            }
            if matches!(kind, "t" | "T" | "w" | "W") {
                let module = words.next().map(str::to_string);
                functions.push((address, name.to_string(), module));
            }
        }
        KernelSymbols::of(functions, reference, |symbol| at.get(symbol).copied())
    }

    /// Of functions that somebody else has read.
    pub fn of(
        mut functions: Vec<(u64, String, Option<String>)>,
        reference: Option<&(String, u64)>,
        find: impl Fn(&str) -> Option<u64>,
    ) -> Result<KernelSymbols, String> {
        if functions.is_empty() {
            return Err("shows no addresses (kernel.kptr_restrict?)".to_string());
        }
        let shift = match reference {
            None => 0,
            Some((symbol, recorded)) => match find(symbol) {
                Some(here) => recorded.wrapping_sub(here),
                None => return Err(format!("has no symbol {symbol}")),
            },
        };
        if shift != 0 {
            // Modules lie elsewhere by distances of their own.
            functions.retain(|(_, _, module)| module.is_none());
        }
        functions.sort_by(|a, b| (a.0, plainness(&a.1)).cmp(&(b.0, plainness(&b.1))));
        functions.dedup_by_key(|(address, _, _)| *address);
        Ok(KernelSymbols { functions, shift })
    }

    /// The function at a recorded address, and its module.
    pub fn find(&self, address: u64) -> Option<(&str, Option<&str>)> {
        let address = address.wrapping_sub(self.shift);
        let after = self.functions.partition_point(|(start, _, _)| *start <= address);
        let (start, name, module) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < FUNCTION_BYTES_MAX).then_some((name, module.as_deref()))
    }
}

/// Of several names of one address, the one that people know comes first.
pub fn plainness(name: &str) -> (usize, usize, &str) {
    (name.len() - name.trim_start_matches('_').len(), name.len(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000000 T _text\nffffffff81000100 t first\nffffffff81000100 T __alias\n\
                        ffffffff82000000 D data\n0000000000000000 T hidden\nnonsense\n\
                        ffffffffc0000000 t of_module\t[xfs]\n";

    #[test]
    fn a_kernel_that_lay_elsewhere_is_moved_and_its_modules_are_not() {
        let here = KernelSymbols::parse(TEXT, None).unwrap();
        assert_eq!(here.find(0xffff_ffff_8100_0100), Some(("first", None)));
        assert_eq!(here.find(0xffff_ffff_c000_0010), Some(("of_module", Some("[xfs]"))));
        assert_eq!(here.find(0xffff_ffff_8000_0000), None);
        let reference = ("_text".to_string(), 0xffff_ffff_9100_0000);
        let moved = KernelSymbols::parse(TEXT, Some(&reference)).unwrap();
        assert_eq!(moved.find(0xffff_ffff_9100_01ff), Some(("first", None)));
        assert_eq!(moved.find(0xffff_ffff_c000_0010), None);
        let missing = ("_stext".to_string(), 1);
        let error = KernelSymbols::parse(TEXT, Some(&missing)).unwrap_err();
        assert_eq!(error, "has no symbol _stext");
        assert!(KernelSymbols::parse("0000000000000000 T hidden\n", None).is_err());
    }
}
