//! Runs a thread of a litmus test on a machine, and tells it what each access depends on.

use machine::{Atom, Dependencies, Field, Machine, Ordering, Until};

use super::parse::{
    ADDRESS, Expected, Expression, KernelAccess, KernelAction, Modify, Place, SpinlockAction,
    Statement,
};
use super::{REGISTERS_MAX, Variables};

/// A value, and the reads that it depends on, as bits.
#[derive(Clone, Copy, Default)]
struct Value {
    value: u32,
    from: u128,
}

impl Value {
    fn with(self, value: u32) -> Value {
        Value { value, ..self }
    }
}

/// The registers of a thread, and the reads that what follows depends on.
#[derive(Clone, Copy, Default)]
pub struct Frame {
    registers: [Value; REGISTERS_MAX],
    control: u128,
}

impl Frame {
    /// What a register holds.
    pub fn value(&self, register: usize) -> u32 {
        self.registers[register].value
    }
}

/// Runs statements with these registers.
pub fn run<M: Machine>(m: &M, statements: &[Statement], variables: &Variables, frame: &mut Frame) {
    let mut thread = Thread { m, variables, frame };
    thread.run(statements);
}

struct Thread<'a, M> {
    m: &'a M,
    variables: &'a Variables,
    frame: &'a mut Frame,
}

impl<M: Machine> Thread<'_, M> {
    fn run(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Assign(register, value) => {
                    self.frame.registers[*register] = self.evaluated(value);
                }
                Statement::Evaluate(expression) => {
                    self.evaluated(expression);
                }
                Statement::If(condition, then, other) => {
                    // A compiler may turn a branch into code without one, so it orders nothing behind it.
                    let before = self.frame.control;
                    let condition = self.evaluated(condition);
                    self.frame.control |= condition.from;
                    self.run(if condition.value != 0 { then } else { other });
                    self.frame.control = before;
                }
            }
        }
    }

    /// Tells the machine what the next access depends on.
    fn depends_on(&self, address: u128, data: u128) {
        let within = self.frame.control;
        self.m.depends_on(Dependencies { address, data, within, ..Dependencies::default() });
    }

    /// What an access has read.
    fn read(&self, value: u32) -> Value {
        let from = self.m.last_read().map_or(0, |read| 1 << read);
        Value { value, from }
    }

    /// The variable of a place, and what its address depends on.
    fn place(&self, place: Place) -> (usize, u128) {
        match place {
            Place::Variable(variable) => (variable, 0),
            Place::Pointer(register) => {
                let Value { value, from } = self.frame.registers[register];
                let variable = value.wrapping_sub(ADDRESS) as usize;
                assert!(variable < self.variables.count(), "{value} is no address of a variable");
                (variable, from)
            }
        }
    }

    fn atom(&self, variable: usize) -> &Atom<u32> {
        self.variables.atom(variable)
    }

    fn plain(&self, variable: usize) -> &Field<u32> {
        self.variables.plain(variable)
    }

    /// Nesting takes stack, so what nests on the left is done from the inside out.
    fn evaluated(&mut self, expression: &Expression) -> Value {
        let mut depth = 0;
        while inside(expression, depth + 1).is_some() {
            depth += 1;
        }
        let innermost = inside(expression, depth).unwrap_or(expression);
        let mut value = self.done(innermost);
        for outer in (0..depth).rev() {
            value = match inside(expression, outer) {
                Some(Expression::Unary(sign, _)) => value.with(negated(*sign, value.value)),
                Some(Expression::Binary(sign, sides)) => self.both(sign, value, &sides[1]),
                _ => value,
            };
        }
        value
    }

    fn both(&mut self, sign: &str, left: Value, right: &Expression) -> Value {
        if ["&&", "||"].contains(&sign) {
            self.frame.control |= left.from;
        }
        match (sign, left.value) {
            ("&&", 0) => return left,
            ("||", value) if value != 0 => return left.with(1),
            _ => {}
        }
        let right = self.evaluated(right);
        let value = calculated(sign, left.value, right.value);
        Value { value, from: left.from | right.from }
    }

    /// What has nothing inside that nests on the left.
    fn done(&mut self, expression: &Expression) -> Value {
        match expression {
            Expression::Number(value) => Value::default().with(*value),
            Expression::Address(variable) => Value::default().with(ADDRESS + *variable as u32),
            Expression::Register(register) => self.frame.registers[*register],
            Expression::Read(place) => {
                let (variable, address) = self.place(*place);
                self.depends_on(address, 0);
                self.read(self.plain(variable).get(self.m))
            }
            Expression::Write(place, value) => {
                let value = self.evaluated(value);
                let (variable, address) = self.place(*place);
                self.depends_on(address, value.from);
                self.plain(variable).set(self.m, value.value);
                value
            }
            Expression::Load(variable, ordering) => {
                self.depends_on(0, 0);
                self.read(self.atom(*variable).load(self.m, *ordering))
            }
            Expression::Store(variable, value, ordering) => {
                let value = self.evaluated(value);
                self.depends_on(0, value.from);
                self.atom(*variable).store(self.m, value.value, *ordering);
                value
            }
            Expression::Modify(modify, variable, value, ordering) => {
                let value = self.evaluated(value);
                self.depends_on(0, value.from);
                self.read(self.modified(*modify, *variable, value.value, *ordering))
            }
            Expression::CompareExchange { variable, expected, new, orderings } => {
                let new = self.evaluated(new);
                self.compare_exchanged(*variable, *expected, new, *orderings)
            }
            Expression::Kernel(access) => self.accessed(access),
            Expression::Spinlock(place, action) => self.locked(*place, *action),
            _ => self.fence(expression),
        }
    }

    fn fence(&self, expression: &Expression) -> Value {
        match expression {
            Expression::FenceLoads => self.m.fence_loads(),
            Expression::FenceStores => self.m.fence_stores(),
            Expression::Fence(ordering) if *ordering != Ordering::Relaxed => {
                self.m.fence(*ordering);
            }
            _ => {}
        }
        Value::default()
    }

    fn modified(&self, modify: Modify, variable: usize, value: u32, ordering: Ordering) -> u32 {
        let (m, atom) = (self.m, self.atom(variable));
        match modify {
            Modify::Exchange => atom.swap(m, value, ordering),
            Modify::Add => atom.fetch_add(m, value, ordering),
            Modify::Sub => atom.fetch_add(m, value.wrapping_neg(), ordering),
            Modify::Or => atom.fetch_or(m, value, ordering),
            Modify::And => atom.fetch_and(m, value, ordering),
            Modify::Xor => atom.fetch_xor(m, value, ordering),
        }
    }

    /// An access by a primitive of the kernel.
    fn accessed(&mut self, access: &KernelAccess) -> Value {
        let KernelAccess { place, action, ordering, is_full, returns_nothing } = access;
        let values = match action {
            KernelAction::Load => [Value::default(); 2],
            KernelAction::Store(value) | KernelAction::Modify(_, value, _) => {
                [self.evaluated(value), Value::default()]
            }
            KernelAction::CompareExchange([old, new]) => [self.evaluated(old), self.evaluated(new)],
        };
        let (variable, address) = self.place(*place);
        self.m.depends_on(Dependencies {
            address,
            data: values[0].from | values[1].from,
            within: self.frame.control,
            returns_nothing: *returns_nothing,
            ..Dependencies::default()
        });
        let [first, second] = values;
        let mut has_failed = false;
        let value = match action {
            KernelAction::Load => self.read(self.atom(variable).load(self.m, *ordering)),
            KernelAction::Store(_) => {
                self.atom(variable).store(self.m, first.value, *ordering);
                first
            }
            KernelAction::Modify(modify, _, returns_new) => {
                let old = self.read(self.modified(*modify, variable, first.value, *ordering));
                let sign = if matches!(modify, Modify::Sub) { "-" } else { "+" };
                let new = calculated(sign, old.value, first.value);
                let from = old.from | first.from;
                if *returns_new { Value { value: new, from } } else { old }
            }
            KernelAction::CompareExchange(_) => {
                let atom = self.atom(variable);
                let result = atom.compare_exchange(self.m, first.value, second.value, *ordering);
                has_failed = result.is_err();
                let (Ok(old) | Err(old)) = result;
                self.read(old)
            }
        };
        if *is_full && !has_failed {
            self.m.fence(Ordering::SeqCst);
        }
        value
    }

    /// Takes a spinlock, or releases it: 1 is taken. Whether it is taken now, for who only tries.
    fn locked(&self, place: Place, action: SpinlockAction) -> Value {
        let (variable, address) = self.place(place);
        let depend = || {
            let (within, of_spinlock) = (self.frame.control, true);
            self.m.depends_on(Dependencies {
                address,
                within,
                of_spinlock,
                ..Dependencies::default()
            });
        };
        let atom = self.atom(variable);
        if let SpinlockAction::Unlock = action {
            depend();
            atom.store(self.m, 0, Ordering::Release);
            return Value::default();
        }
        let waits = matches!(action, SpinlockAction::Lock);
        // What it read before it took the lock is no event of the model, and decides nothing.
        let (mark, history) = (self.m.access_mark(), self.m.history_mark());
        loop {
            if waits {
                self.m.await_until(atom, Until::equals(0), Ordering::Relaxed);
                self.m.forget_accesses(mark);
            }
            depend();
            let is_taken = atom.compare_exchange(self.m, 0, 1, Ordering::Acquire).is_ok();
            if is_taken || !waits {
                return self.read(u32::from(is_taken));
            }
            self.m.forget_accesses(mark);
            self.m.forget_history(history, 0);
        }
    }

    /// Whether a compare-exchange succeeds: a variable, where the value that it expects is, and the new one.
    fn compare_exchanged(
        &mut self,
        variable: usize,
        expected: Expected,
        new: Value,
        [ordering, failure]: [Ordering; 2],
    ) -> Value {
        let old = match expected {
            Expected::Register(register) => self.frame.registers[register],
            Expected::Plain(variable) => {
                self.depends_on(0, 0);
                self.read(self.plain(variable).get(self.m))
            }
        };
        self.m.fails_with(failure);
        self.depends_on(0, old.from | new.from);
        let atom = self.atom(variable);
        let result = atom.compare_exchange(self.m, old.value, new.value, ordering);
        let (Ok(found) | Err(found)) = result;
        let found = self.read(found);
        if result.is_err() {
            match expected {
                Expected::Register(register) => self.frame.registers[register] = found,
                Expected::Plain(variable) => {
                    self.depends_on(0, found.from);
                    self.plain(variable).set(self.m, found.value);
                }
            }
        }
        found.with(u32::from(result.is_ok()))
    }
}

/// What is so many levels inside, on the left.
fn inside(expression: &Expression, levels: usize) -> Option<&Expression> {
    let mut found = expression;
    for _ in 0..levels {
        found = match found {
            Expression::Unary(_, value) => value,
            Expression::Binary(_, sides) => &sides[0],
            _ => return None,
        };
    }
    Some(found)
}

fn negated(sign: char, value: u32) -> u32 {
    match sign {
        '!' => u32::from(value == 0),
        '-' => value.wrapping_neg(),
        _ => !value,
    }
}

fn calculated(sign: &str, left: u32, right: u32) -> u32 {
    let (signed_left, signed_right) = (left as i32, right as i32);
    match sign {
        "&&" | "||" => u32::from(right != 0),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => u32::from(left == right),
        "!=" => u32::from(left != right),
        "<" => u32::from(signed_left < signed_right),
        ">" => u32::from(signed_left > signed_right),
        "<=" => u32::from(signed_left <= signed_right),
        ">=" => u32::from(signed_left >= signed_right),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => signed_left.checked_div(signed_right).unwrap_or_default() as u32,
        _ => signed_left.checked_rem(signed_right).unwrap_or_default() as u32,
    }
}
