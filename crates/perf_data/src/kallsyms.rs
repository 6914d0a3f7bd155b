//! Symbols of a kernel from text like /proc/kallsyms or System.map, relocated to the recorded kernel's
//! addresses. There are a hundred thousand, of which few are wanted: names stay in the text.

/// Functions of one kernel by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    text: Vec<u8>,
    /// Address, and offset of the name in the text; `[MODULE]` may follow the name.
    functions: Vec<(u64, u32)>,
    /// Recorded address minus address in the table.
    shift: u64,
}

/// The most that an address may lie after the last symbol: no function is longer.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

impl KernelSymbols {
    /// Parses lines `ADDRESS TYPE NAME [MODULE]`; hidden addresses are 0.
    pub fn parse(text: Vec<u8>) -> Result<KernelSymbols, String> {
        u32::try_from(text.len()).map_err(|_| "is too large".to_string())?;
        let mut functions = Vec::with_capacity(text.len() / 40);
        let mut at = 0;
        for line in text.split(|byte| *byte == b'\n') {
            if let Some((address, kind, name)) = symbol(line)
                && matches!(kind, b't' | b'T' | b'w' | b'W')
            {
                functions.push((address, (at + name) as u32));
            }
            at += line.len() + 1;
        }
        if functions.is_empty() {
            return Err("shows no addresses (kernel.kptr_restrict?)".to_string());
        }
        // Fast, as the text consists of sorted parts.
        functions.sort();
        Ok(KernelSymbols { text, functions, shift: 0 })
    }

    /// The symbols of functions from an ELF file.
    pub fn from_functions(functions: &[(u64, String)]) -> Result<KernelSymbols, String> {
        let line = |(address, name): &(u64, String)| format!("{address:x} t {name}\n");
        KernelSymbols::parse(functions.iter().map(line).collect::<String>().into_bytes())
    }

    /// Relocates the symbols. `reference` is a symbol with its recorded address: a kernel's address
    /// differs between boots.
    pub fn moved(mut self, reference: Option<&(String, u64)>) -> Result<KernelSymbols, String> {
        let Some((symbol, recorded)) = reference else { return Ok(self) };
        let here = self.address(symbol).ok_or_else(|| format!("has no symbol {symbol}"))?;
        self.shift = recorded.wrapping_sub(here);
        Ok(self)
    }

    /// The function at a recorded address, and its module.
    pub fn find(&self, address: u64) -> Option<(String, Option<String>)> {
        let address = address.wrapping_sub(self.shift);
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let (start, _) = *self.functions.get(after.checked_sub(1)?)?;
        let first = self.functions[..after].partition_point(|(other, _)| *other < start);
        let aliases = self.functions[first..after].iter().map(|(_, at)| self.name(*at));
        // Modules are relocated by other distances.
        let aliases = aliases.filter(|(_, module)| self.shift == 0 || module.is_none());
        let plainest = aliases
            .min_by(|(a, _), (b, _)| plainness(a.as_bytes()).cmp(&plainness(b.as_bytes())))?;
        (address - start < FUNCTION_BYTES_MAX).then_some(plainest)
    }

    /// The address of a symbol of any kind.
    fn address(&self, wanted: &str) -> Option<u64> {
        let mut lines = self.text.split(|byte| *byte == b'\n');
        lines.find_map(|line| {
            let (address, _, name) = symbol(line).filter(|_| line.ends_with(wanted.as_bytes()))?;
            (&line[name..] == wanted.as_bytes()).then_some(address)
        })
    }

    /// The name at an offset of the text, and its module, which is in brackets.
    fn name(&self, at: u32) -> (String, Option<String>) {
        let line = self.text[at as usize..].split(|byte| *byte == b'\n').next();
        let line = String::from_utf8_lossy(line.unwrap_or_default());
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        (super::printable(name.as_bytes()), words.next().map(|m| super::printable(m.as_bytes())))
    }
}

/// Parses a line: the address, the type and the offset of the name.
fn symbol(line: &[u8]) -> Option<(u64, u8, usize)> {
    let digits = line.iter().position(|byte| *byte == b' ')?;
    let mut address = 0_u64;
    for byte in &line[..digits] {
        let digit = (*byte as char).to_digit(16)?;
        address = address.checked_mul(16)? | u64::from(digit);
    }
    let [b' ', kind, b' ', _, ..] = line[digits..] else { return None };
    (address > 0).then_some((address, kind, digits + 3))
}

/// The rank of a name among several of one address: well-known names come first.
pub fn plainness(name: &[u8]) -> (usize, usize, &[u8]) {
    (name.iter().take_while(|byte| **byte == b'_').count(), name.len(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000000 T _text\nffffffff81000100 t first\nffffffff81000100 T __alias\n\
                        ffffffff82000000 D data\n0000000000000000 T hidden\nnonsense\n\
                        ffffffffc0000000 t of_module\t[xfs]\n";

    fn parse(text: &str) -> Result<KernelSymbols, String> {
        KernelSymbols::parse(text.as_bytes().to_vec())
    }

    #[test]
    fn a_kernel_that_lay_elsewhere_is_moved_and_its_modules_are_not() {
        let found = |symbols: &KernelSymbols, address| {
            let (name, module) = symbols.find(address)?;
            Some(name + &module.unwrap_or_default())
        };
        let here = parse(TEXT).unwrap();
        assert_eq!(found(&here, 0xffff_ffff_8100_0100).as_deref(), Some("first"));
        assert_eq!(found(&here, 0xffff_ffff_c000_0010).as_deref(), Some("of_module[xfs]"));
        assert_eq!(found(&here, 0xffff_ffff_8000_0000), None);
        let reference = ("_text".to_string(), 0xffff_ffff_9100_0000);
        let moved = parse(TEXT).unwrap().moved(Some(&reference)).unwrap();
        assert_eq!(found(&moved, 0xffff_ffff_9100_01ff).as_deref(), Some("first"));
        assert_eq!(found(&moved, 0xffff_ffff_c000_0010), None);
        let missing = ("_stext".to_string(), 1);
        let error = parse(TEXT).unwrap().moved(Some(&missing)).unwrap_err();
        assert_eq!(error, "has no symbol _stext");
        assert!(parse("0000000000000000 T hidden\n").is_err());
    }
}
