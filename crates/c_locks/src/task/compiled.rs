//! An instruction of the compiler that is about to access memory: the task's own, a word that the call before was about, or
//! memory that others may see, plainly.

use machine::Machine;

use super::Task;
use super::instruction::{RSP, address};
use crate::decoded::{Access, AccessKind};
use crate::entry::InstructionFrame;

/// The numbers of registers.
const RAX: usize = 0;
const RCX: usize = 1;
const RSI: usize = 6;
const RDI: usize = 7;

impl<M: Machine> Task<'_, M> {
    /// Does what the instruction after this call does, or lets it do so.
    pub(super) fn accesses(&self, frame: &mut InstructionFrame) {
        let Some(Access { kind, bytes, length, local }) =
            self.instance.access(frame.return_address as usize)
        else {
            return;
        };
        frame.registers[RSP] = self.end.get() as u64;
        let site = self.instance.site(frame.return_address as usize);
        let (memory, reads, writes) = match kind {
            AccessKind::Reads(memory) => (memory, true, false),
            AccessKind::Writes(memory) => (memory, false, true),
            AccessKind::ReadsAndWrites(memory) => (memory, true, true),
            AccessKind::Moves { repeated } | AccessKind::Fills { repeated } => {
                self.comes_to(frame.return_address);
                self.string(frame, *bytes, *repeated, matches!(kind, AccessKind::Moves { .. }));
                frame.return_address += *length as u64;
                self.flows_behind(frame.return_address);
                return self.runs();
            }
        };
        let at = address(memory, &frame.registers);
        self.depends_on_address(memory);
        let before = self.site.replace(site);
        if self.is_own(at, *bytes, writes) {
            self.flows_from_access(Some(at));
            return self.site.set(before);
        }
        if self.is_announced(at, *bytes, writes) {
            self.flows_from_announced();
            return self.site.set(before);
        }
        self.comes_to(frame.return_address);
        if let Some(local) = local {
            self.names_local(at, *bytes, local);
        }
        let is_once = self.instance.is_once(at, *bytes, site);
        let state = || self.state(frame.registers.into_iter(), frame.return_address);
        let state = if is_once { Some(state()) } else { None };
        self.plain(at, *bytes, reads, writes, state);
        self.flows_from_access(None);
        self.runs();
    }

    /// Notes the name of a local variable, where its stack is known to others.
    fn names_local(&self, at: usize, bytes: usize, name: &str) {
        let Some(stacks) = &self.instance.apart else { return };
        let Some((_, start)) = stacks.owner(at) else { return };
        if stacks.is_named(start, bytes, name) {
            return;
        }
        let program = &self.instance.program;
        program.stacks.name(start, bytes, name);
        // Others find the variable by its place.
        if program.once.has_local(name) {
            program.stacks.cut(start, bytes);
            self.refuse("the parts of a local variable became known too late", "check it again");
        }
    }

    /// Does a string instruction, whose elements have so many bytes.
    fn string(&self, frame: &mut InstructionFrame, bytes: usize, repeated: bool, moves: bool) {
        let registers = &mut frame.registers;
        let elements = if repeated { std::mem::take(&mut registers[RCX]) } else { 1 };
        let all = elements.saturating_mul(bytes as u64);
        let to = registers[RDI] as usize;
        if moves {
            self.copy(to, registers[RSI] as usize, all as usize);
            registers[RSI] += all;
        } else {
            let pattern = match bytes {
                1 => (registers[RAX] & 0xFF) * 0x0101_0101_0101_0101,
                2 => (registers[RAX] & 0xFFFF) * 0x0001_0001_0001_0001,
                4 => (registers[RAX] & 0xFFFF_FFFF) * 0x0000_0001_0000_0001,
                _ => registers[RAX],
            };
            self.fill(to, pattern, all as usize);
        }
        registers[RDI] += all;
    }
}
