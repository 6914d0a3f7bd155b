//! From a frame of HotSpot's own code to its caller (src/hotspot/cpu/x86/frame_x86.hpp and .inline.hpp): such code has no
//! unwind tables, but each blob says how large its frames are.

use std::rc::Rc;

use super::Hotspot;
use super::code_cache::Blob;
use super::scopes::At;

/// Words of the interpreter's frames, from the frame pointer down: where the caller's stack pointer was, the method, the
/// bytecode.
const SENDER_SP: u64 = 8;
const METHOD: u64 = 3 * 8;
const BYTECODE: u64 = 8 * 8;
/// A frame of a stub or of the interpreter is not larger.
const FRAME_BYTES_MAX: u64 = 64 << 10;

/// The instruction, stack and frame pointers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
}

/// How a frame came to be where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// It is the innermost: its instruction was interrupted.
    Nothing,
    /// It called other code of HotSpot's making.
    Compiled,
    /// It called a function of a library.
    Native,
}

/// What reading a stack needs.
pub struct Stack<'s> {
    /// A word of the stack.
    pub word: &'s dyn Fn(u64) -> Option<u64>,
    /// Whether code is at an address.
    pub is_code: &'s dyn Fn(u64) -> bool,
}

impl Stack<'_> {
    /// The caller, if the place where it goes on is here and its frame pointer there.
    fn caller(&self, returns_at: u64, bp: Option<u64>) -> Option<Registers> {
        let ip = (self.word)(returns_at).filter(|ip| (self.is_code)(*ip))?;
        Some(Registers { ip, sp: returns_at.checked_add(8)?, bp: bp? })
    }

    /// The caller of a function that keeps its caller's frame pointer where its own points to.
    fn linked(&self, at: Registers) -> Option<Registers> {
        let is_near = at.bp.checked_sub(at.sp).is_some_and(|bytes| bytes <= FRAME_BYTES_MAX);
        let returns_at = Some(at.bp).filter(|_| is_near)?.checked_add(8)?;
        self.caller(returns_at, (self.word)(at.bp))
    }
}

impl Hotspot {
    /// The methods of a frame, innermost first, and the registers of its caller, as far as they can be found.
    pub fn step(
        &mut self,
        at: Registers,
        inner: Inner,
        stack: &Stack,
    ) -> (Vec<Rc<str>>, Option<Registers>) {
        let is_innermost = inner == Inner::Nothing;
        let code = at.ip.wrapping_sub(u64::from(!is_innermost));
        let Some(blob) = self.code.blob_at(code) else { return (Vec::new(), None) };
        if blob.is_interpreter() {
            return self.interpreted(at, inner, stack);
        }
        let methods = if blob.is_method() {
            self.compiled(&blob, code, inner)
        } else {
            blob.enters_monitor().then(|| self.monitorenter.clone()).into_iter().collect()
        };
        (methods, caller(&blob, at, is_innermost, stack))
    }

    /// The methods at an instruction of a compiled method.
    fn compiled(&mut self, blob: &Blob, code: u64, inner: Inner) -> Vec<Rc<str>> {
        let (address, place) = match inner {
            Inner::Nothing => (code, At::Instruction),
            Inner::Compiled | Inner::Native => (code + 1, At::Return),
        };
        let compiled = self.scopes.compiled(blob).zip(self.scopes.compile_id(blob));
        let Some((method, compile_id)) = compiled else { return Vec::new() };
        let key = (address, place, method, compile_id);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let inlined = self.scopes.at(blob, address, place);
        let methods = inlined.unwrap_or_else(|| vec![method]);
        let names: Vec<Rc<str>> =
            methods.iter().filter_map(|method| self.methods.name(*method)).collect();
        self.known.insert(key, names.clone());
        names
    }

    fn interpreted(
        &mut self,
        at: Registers,
        inner: Inner,
        stack: &Stack,
    ) -> (Vec<Rc<str>>, Option<Registers>) {
        let word = |below: u64| (stack.word)(at.bp.checked_sub(below)?);
        let method = word(METHOD).unwrap_or(0);
        let mut names: Vec<Rc<str>> = self.methods.name(method).into_iter().collect();
        // A method that begins has no frame yet.
        if names.is_empty() {
            return (names, None);
        }
        let bytecode = word(BYTECODE).unwrap_or(0);
        if inner == Inner::Native && self.methods.enters_monitor(method, bytecode) {
            names.insert(0, self.monitorenter.clone());
        }
        let caller = stack.linked(at).map(|caller| {
            // A compiled caller does not know of the parameters that lie above its frame.
            let is_sender =
                |sp: &u64| *sp >= caller.sp.saturating_sub(8) && *sp - at.bp <= FRAME_BYTES_MAX;
            Registers { sp: word(SENDER_SP).filter(is_sender).unwrap_or(caller.sp), ..caller }
        });
        (names, caller)
    }
}

/// The caller of compiled code or of a stub.
fn caller(blob: &Blob, at: Registers, is_innermost: bool, stack: &Stack) -> Option<Registers> {
    let whole = || {
        let above = at.sp.checked_add(blob.frame_bytes).filter(|_| blob.frame_bytes >= 16)?;
        stack.caller(above - 8, (stack.word)(above - 16))
    };
    if !is_innermost {
        return if blob.frame_bytes > 0 { whole() } else { stack.linked(at) };
    }
    // At its first and last instructions a function has no frame.
    let none = || stack.caller(at.sp, Some(at.bp));
    let pushed = || stack.caller(at.sp.checked_add(8)?, (stack.word)(at.sp));
    let is_complete = at.ip.wrapping_sub(blob.code.start)
        >= u64::from(blob.frame_complete.max(0).cast_unsigned());
    match blob.frame_bytes {
        0 => stack.linked(at).or_else(none),
        _ if is_complete => whole().or_else(none).or_else(pushed),
        _ => none().or_else(pushed).or_else(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: Registers = Registers { ip: 0x1500, sp: 0x7020, bp: 0xb0 };

    fn check(
        frame_bytes: u64,
        at: (u64, u64, u64),
        is_innermost: bool,
        expected: Option<Registers>,
    ) {
        let blob = Blob {
            address: 0xf00,
            name: "nmethod".into(),
            code: 0x1000..0x2000,
            frame_bytes,
            frame_complete: 8,
            header: Vec::new(),
        };
        let words: [(u64, u64); 2] = [(0x7010, CALLER.bp), (0x7018, CALLER.ip)];
        let word =
            |address: u64| words.iter().find(|(at, _)| *at == address).map(|(_, word)| *word);
        let is_code = |address: u64| (0x1000..0x2000).contains(&address);
        let stack = Stack { word: &word, is_code: &is_code };
        let at = Registers { ip: at.0, sp: at.1, bp: at.2 };
        assert_eq!(caller(&blob, at, is_innermost, &stack), expected, "{frame_bytes} {at:x?}");
    }

    #[test]
    fn a_caller_is_found_from_calls_and_from_the_first_and_last_instructions() {
        check(0x20, (0x1234, 0x7000, 7), false, Some(CALLER));
        check(0x20, (0x1234, 0x7000, 7), true, Some(CALLER));
        // Before the frame pointer is saved, behind that, and before the function returns.
        check(0x20, (0x1000, 0x7018, CALLER.bp), true, Some(CALLER));
        check(0x20, (0x1001, 0x7010, CALLER.bp), true, Some(CALLER));
        check(0x20, (0x1800, 0x7018, CALLER.bp), true, Some(CALLER));
        // A stub keeps the frame pointer of its caller, or has no frame.
        check(0, (0x1234, 0x7000, 0x7010), false, Some(CALLER));
        check(0, (0x1234, 0x7018, CALLER.bp), true, Some(CALLER));
        check(0x40, (0x1234, 0x7000, 7), false, None);
        check(0, (0x1234, 0x7000, 0x10), false, None);
    }
}
