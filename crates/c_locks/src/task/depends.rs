//! Tells the machine what each access of C code depends on: see `flow`.

use machine::{Dependencies, Machine};

use super::Task;
use super::access::{Place, mix};
use crate::hooks::Hook;
use crate::x86::{Action, Instruction, Memory, Operand};

// The numbers of registers.
const RAX: usize = 0;
const RDX: usize = 2;
const RSI: usize = 6;
const RDI: usize = 7;

impl<M: Machine> Task<'_, M> {
    /// The code has come to the hook that returns to this address.
    pub(super) fn flows_to(&self, return_address: u64) {
        let Some(flow) = self.flow else { return };
        let (stack, base) = (self.end.get(), self.base.get() - 8);
        let mut flow = flow.borrow_mut();
        flow.arrive(self.instance, return_address as usize, stack, base);
        flow.keep(self.m.open_reads());
    }

    /// The code has ended: its last write may still be told.
    pub(super) fn ends_flow(&self) {
        if let Some(flow) = self.flow {
            flow.borrow_mut().finish(self.instance);
        }
    }

    /// What the arguments of a hook depend on.
    pub(super) fn depends_by_call(&self, hook: Hook, arguments: &[u64; 5]) {
        let Some(flow) = self.flow else { return };
        let mut flow = flow.borrow_mut();
        let data = match hook {
            Hook::Store(_)
            | Hook::Swap(_)
            | Hook::Add(_)
            | Hook::Sub(_)
            | Hook::Or(_)
            | Hook::And(_)
            | Hook::Xor(_) => flow.register(RSI),
            Hook::CompareExchangeValue(_) => flow.register(RSI) | flow.register(RDX),
            Hook::CompareExchange(size) => {
                flow.slot(arguments[1] as usize, size.into()) | flow.register(RDX)
            }
            _ => 0,
        };
        let address = flow.register(RDI);
        flow.next = Dependencies { address, data, ..flow.next };
    }

    /// The call returns what was read.
    pub(super) fn flows_from_call(&self) {
        if let Some(flow) = self.flow {
            flow.borrow_mut().leave_call();
        }
    }

    /// A variable on the stack got what was read.
    pub(super) fn flows_to_stack(&self, place: Place) {
        let Some(flow) = self.flow else { return };
        let mut flow = flow.borrow_mut();
        let result = flow.result;
        flow.set_slot(place.address, place.size.into(), result);
    }

    /// What the address of an instruction depends on.
    pub(super) fn depends_on_address(&self, memory: &Memory) {
        let Some(flow) = self.flow else { return };
        let mut flow = flow.borrow_mut();
        let registers = [memory.base, memory.index].into_iter().flatten();
        let address = registers.fold(0, |all, register| all | flow.register(register));
        flow.next = Dependencies { address, ..flow.next };
    }

    /// The instruction behind this hook does what the hook was for; or it accesses the task's own stack here.
    pub(super) fn flows_from_access(&self, own: Option<usize>) {
        if let Some(flow) = self.flow {
            flow.borrow_mut().leave_access(own);
        }
    }

    /// The instruction behind this hook does what the hook before was for.
    pub(super) fn flows_from_announced(&self) {
        let Some(flow) = self.flow else { return };
        let mut flow = flow.borrow_mut();
        flow.result = flow.announced;
        flow.leave_access(None);
    }

    /// The instruction behind this hook has been done.
    pub(super) fn flows_behind(&self, address: u64) {
        if let Some(flow) = self.flow {
            flow.borrow_mut().skip_to(address as usize);
        }
    }

    /// What an instruction of inline assembly depends on.
    pub(super) fn depends_by_instruction(&self, instruction: &Instruction) {
        self.depends_on_address(&instruction.memory);
        let Some(flow) = self.flow else { return };
        let mut flow = flow.borrow_mut();
        let mut data = match instruction.operand {
            Operand::Register(register) => flow.register(register),
            _ => 0,
        };
        if instruction.action == Action::CompareExchange {
            data |= flow.register(RAX);
        }
        flow.next = Dependencies { data, ..flow.next };
    }

    /// Where an instruction of inline assembly leaves what it has read.
    pub(super) fn flows_from_instruction(&self, instruction: &Instruction) {
        let Some(flow) = self.flow else { return };
        let mut flow = flow.borrow_mut();
        let result = flow.result;
        match (instruction.action, instruction.operand) {
            (Action::Load | Action::Exchange | Action::ExchangeAdd, Operand::Register(to)) => {
                flow.set_register(to, result);
            }
            (Action::CompareExchange, _) => flow.set_register(RAX, result),
            _ => {}
        }
        flow.set_flags(result);
    }

    /// A task that is about to read in this state, and has only read since it last was: the loop between has done nothing, and is
    /// forgotten.
    pub(super) fn comes_round(&self, state: u64) {
        let (Some(flow), Some(head)) = (self.flow, self.head) else { return };
        let mut head = head.borrow_mut();
        if head.is_back(state, self.m.access_mark(), &flow.borrow()) {
            self.m.forget_accesses(head.accesses);
            *flow.borrow_mut() = head.flow;
        }
    }

    /// The task does more than read.
    pub(super) fn has_effect(&self) {
        if let Some(head) = self.head {
            head.borrow_mut().leave();
        }
    }

    /// Tells the machine what the next access depends on.
    pub(super) fn tells_dependencies(&self) {
        if let Some(flow) = self.flow {
            self.m.depends_on(flow.borrow().next);
        }
    }

    /// Tells the machine what the write of an instruction depends on, which has been done meanwhile.
    pub(super) fn tells_dependencies_of_write(&self) {
        if let Some(flow) = self.flow {
            self.m.depends_on(flow.borrow().written);
        }
    }

    /// Notes which read of the task the last access was.
    pub(super) fn notes_read(&self) {
        let (Some(flow), Some(read)) = (self.flow, self.m.last_read()) else { return };
        let mut flow = flow.borrow_mut();
        flow.result |= 1 << read;
        flow.announced = flow.result;
    }

    /// A state of the task, with what it depends on.
    pub(super) fn with_flow(&self, state: u64) -> u64 {
        self.flow.map_or(state, |flow| mix(state, flow.borrow().hash(mix)))
    }
}
