//! Reads litmus tests.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use machine::Ordering;

use super::REGISTERS_MAX;
use super::tokens::{Tokens, is_name};

/// A litmus test.
#[derive(Clone, Debug)]
pub struct Litmus {
    /// Its name.
    pub name: String,
    /// Its shared variables.
    pub variables: Vec<Variable>,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// What is asked of the condition.
    pub quantifier: Quantifier,
    /// What is asked for.
    pub(super) condition: Condition,
    /// Whether it has primitives of the Linux kernel.
    pub is_of_kernel: bool,
}

/// What is asked of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// Whether some execution fulfils it.
    Exists,
    /// Whether none does.
    NotExists,
    /// Whether all do.
    Forall,
}

/// A shared variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What it holds at the start.
    pub value: u32,
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    pub(super) body: Vec<Statement>,
    /// The registers that the condition names.
    pub(super) used: Vec<usize>,
    registers: BTreeMap<String, usize>,
    /// Variables that its parameters point to, and whether as to an atomic type.
    parameters: BTreeMap<String, (usize, bool)>,
}

/// A condition on registers and variables at the end.
#[derive(Clone, Debug)]
pub enum Condition {
    True,
    Register(usize, usize, u32),
    Variable(usize, u32),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

#[derive(Clone, Debug)]
pub enum Statement {
    Assign(usize, Expression),
    Evaluate(Expression),
    If(Expression, Vec<Statement>, Vec<Statement>),
}

#[derive(Clone, Debug)]
pub enum Expression {
    Number(u32),
    Register(usize),
    Read(Place),
    Write(Place, Box<Expression>),
    Load(usize, Ordering),
    Store(usize, Box<Expression>, Ordering),
    Modify(Modify, usize, Box<Expression>, Ordering),
    CompareExchange {
        variable: usize,
        expected: Expected,
        new: Box<Expression>,
        /// Where it succeeds, and where it fails.
        orderings: [Ordering; 2],
    },
    Fence(Ordering),
    /// `smp_rmb()` and `smp_wmb()`.
    FenceLoads,
    FenceStores,
    Kernel(Box<KernelAccess>),
    Spinlock(Place, SpinlockAction),
    /// The address of a variable.
    Address(usize),
    Unary(char, Box<Expression>),
    Binary(String, Box<[Expression; 2]>),
}

/// What is accessed.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Variable(usize),
    /// What the address in this register names.
    Pointer(usize),
}

/// An access by a primitive of the kernel.
#[derive(Clone, Debug)]
pub struct KernelAccess {
    pub place: Place,
    pub action: KernelAction,
    pub ordering: Ordering,
    /// Whether a full fence follows, unless it fails.
    pub is_full: bool,
    pub returns_nothing: bool,
}

#[derive(Clone, Debug)]
pub enum KernelAction {
    Load,
    Store(Expression),
    /// Whether the value is what was written, not what was there.
    Modify(Modify, Expression, bool),
    /// The value that it expects, and the new one.
    CompareExchange([Expression; 2]),
}

/// What is done to a spinlock.
#[derive(Clone, Copy, Debug)]
pub enum SpinlockAction {
    Lock,
    TryLock,
    Unlock,
}

/// Types of numbers, and of pointers as numbers.
const TYPES: [&str; 8] =
    ["int", "unsigned", "long", "_Bool", "bool", "uint32_t", "intptr_t", "uintptr_t"];

/// The value of the address of the first variable; the others follow.
pub const ADDRESS: u32 = 0x1000_0000;

/// Where a compare-exchange has the value that it expects.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    Register(usize),
    Plain(usize),
}

#[derive(Clone, Copy, Debug)]
pub enum Modify {
    Exchange,
    Add,
    Sub,
    Or,
    And,
    Xor,
}

/// The most words of a test: nesting takes stack, and no nesting is deeper than its test is long.
const WORDS_MAX: usize = 1000;

/// Reads a test. The error says what is not understood.
pub fn parse(text: &str) -> Result<Litmus> {
    let (first, rest) = text.trim_start().split_once('\n').context("an empty test")?;
    let mut words = first.split_whitespace();
    ensure!(words.next() == Some("C"), "no C test: its first line begins with `{first}`");
    let name = words.next().unwrap_or("test").to_string();
    let is_of_kernel = super::words::is_of_kernel(rest)?;
    let tokens = Tokens::new(rest);
    ensure!(tokens.count() <= WORDS_MAX, "a test of more than {WORDS_MAX} words");
    let (variables, threads) = (Vec::new(), Vec::new());
    let mut parser = Parser { tokens, variables, threads, is_of_kernel };
    parser.header()?;
    parser.initial()?;
    while parser.tokens.peek().starts_with('P') && parser.tokens.ahead(1) == "(" {
        parser.thread()?;
    }
    ensure!(!parser.threads.is_empty(), "no thread P0");
    let (quantifier, condition) = parser.question()?;
    let Parser { variables, threads, .. } = parser;
    Ok(Litmus { name, variables, threads, quantifier, condition, is_of_kernel })
}

pub struct Parser {
    pub(super) tokens: Tokens,
    variables: Vec<Variable>,
    threads: Vec<Thread>,
    is_of_kernel: bool,
}

impl Parser {
    /// Skips what comes before the initial state: a text, and lines such as `Hash=…`.
    fn header(&mut self) -> Result<()> {
        while self.tokens.peek() != "{" {
            self.tokens.next()?;
        }
        Ok(())
    }

    fn variable(&mut self, name: &str) -> usize {
        let found = self.variables.iter().position(|variable| variable.name == name);
        found.unwrap_or_else(|| {
            self.variables.push(Variable { name: name.to_string(), value: 0 });
            self.variables.len() - 1
        })
    }

    fn initial(&mut self) -> Result<()> {
        self.tokens.expect("{")?;
        while !self.tokens.take("}") {
            if self.tokens.take(";") {
                continue;
            }
            let has_bracket = self.tokens.take("[");
            let mut name = self.tokens.name().context("in the initial state")?;
            // A type may come first.
            while !has_bracket && (is_name(self.tokens.peek()) || self.tokens.peek() == "*") {
                let has_star = self.tokens.take("*");
                ensure!(!has_star || self.is_of_kernel, "an initial state with pointers");
                if has_star {
                    continue;
                }
                name = self.tokens.name()?;
            }
            if has_bracket {
                self.tokens.expect("]")?;
            }
            let variable = self.variable(&name);
            if self.tokens.take("=") {
                let has_address = self.tokens.peek() == "&";
                ensure!(!has_address || self.is_of_kernel, "an initial state with pointers");
                self.variables[variable].value = self.value()?;
            }
        }
        Ok(())
    }

    /// A number, or the address of a variable.
    fn value(&mut self) -> Result<u32> {
        if self.tokens.take("&") || self.is_of_kernel && is_name(self.tokens.peek()) {
            let name = self.tokens.name()?;
            return Ok(ADDRESS + self.variable(&name) as u32);
        }
        self.tokens.number()
    }

    fn thread(&mut self) -> Result<()> {
        self.tokens.next()?;
        self.tokens.expect("(")?;
        self.threads.push(Thread::default());
        while !self.tokens.take(")") {
            let mut words = Vec::new();
            while ![",", ")"].contains(&self.tokens.peek()) {
                words.push(self.tokens.next()?);
            }
            self.tokens.take(",");
            let Some(name) = words.last() else { continue };
            ensure!(
                match words.iter().filter(|word| *word == "*").count() {
                    1 => true,
                    count => count == 2 && self.is_of_kernel,
                },
                "a parameter {name} that is no pointer to a variable"
            );
            let is_atomic = words.iter().any(|word| word.contains("atomic") || word == "_Atomic");
            let variable = self.variable(name);
            let thread = self.threads.last_mut().expect("a thread");
            thread.parameters.insert(name.clone(), (variable, is_atomic));
        }
        let body = self.block()?;
        self.threads.last_mut().expect("a thread").body = body;
        Ok(())
    }

    fn block(&mut self) -> Result<Vec<Statement>> {
        self.tokens.expect("{")?;
        let mut statements = Vec::new();
        while !self.tokens.take("}") {
            if !self.tokens.take(";") {
                statements.extend(self.statement()?);
            }
        }
        Ok(statements)
    }

    fn body(&mut self) -> Result<Vec<Statement>> {
        if self.tokens.peek() == "{" {
            self.block()
        } else {
            Ok(self.statement()?.into_iter().collect())
        }
    }

    /// Takes a cast after its bracket, if there is one. What is cast keeps its value.
    pub(super) fn cast(&mut self) -> Result<bool> {
        if self.tokens.peek() != "void" && !TYPES.contains(&self.tokens.peek()) {
            return Ok(false);
        }
        while self.tokens.peek() == "*" || is_name(self.tokens.peek()) {
            self.tokens.next()?;
        }
        self.tokens.expect(")")?;
        Ok(true)
    }

    fn statement(&mut self) -> Result<Option<Statement>> {
        if self.tokens.take("if") {
            self.tokens.expect("(")?;
            let condition = self.expression(0)?;
            self.tokens.expect(")")?;
            let then = self.body()?;
            let other = if self.tokens.take("else") { self.body()? } else { Vec::new() };
            return Ok(Some(Statement::If(condition, then, other)));
        }
        for loops in ["while", "for", "do", "goto", "switch"] {
            ensure!(self.tokens.peek() != loops, "a loop ({loops})");
        }
        while TYPES.contains(&self.tokens.peek()) {
            self.tokens.next()?;
            while self.is_of_kernel && self.tokens.take("*") {}
        }
        let statement = if is_name(self.tokens.peek()) && self.tokens.ahead(1) == "=" {
            let register = self.register()?;
            self.tokens.expect("=")?;
            Some(Statement::Assign(register, self.expression(0)?))
        } else if is_name(self.tokens.peek()) && self.tokens.ahead(1) == ";" {
            self.register()?;
            None
        } else {
            Some(Statement::Evaluate(self.expression(0)?))
        };
        self.tokens.expect(";")?;
        Ok(statement)
    }

    /// The variable that the next word points to, if it is a parameter.
    pub(super) fn parameter(&self) -> Option<usize> {
        let thread = self.threads.last()?;
        Some(thread.parameters.get(self.tokens.peek())?.0)
    }

    pub(super) fn register(&mut self) -> Result<usize> {
        let name = self.tokens.name()?;
        let thread = self.threads.last_mut().expect("a thread");
        ensure!(!thread.parameters.contains_key(&name), "{name} is used as a number");
        let next = thread.registers.len();
        let register = *thread.registers.entry(name).or_insert(next);
        ensure!(register < REGISTERS_MAX, "more than {REGISTERS_MAX} registers");
        Ok(register)
    }

    /// The variable that a parameter points to, and whether it is of an atomic type.
    fn pointer(&mut self) -> Result<(usize, bool)> {
        self.tokens.take("&");
        let name = self.tokens.name()?;
        let thread = self.threads.last().expect("a thread");
        let parameter = thread.parameters.get(&name).copied();
        parameter.with_context(|| format!("{name} is no parameter"))
    }

    pub(super) fn expression(&mut self, least: usize) -> Result<Expression> {
        const LEVELS: &[&[&str]] = &[
            &["||"],
            &["&&"],
            &["|"],
            &["^"],
            &["&"],
            &["==", "!="],
            &["<", ">", "<=", ">="],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let mut left = self.unary()?;
        loop {
            let sign = self.tokens.peek().to_string();
            let level = LEVELS.iter().position(|signs| signs.contains(&sign.as_str()));
            let Some(level) = level.filter(|&level| level >= least) else { return Ok(left) };
            self.tokens.next()?;
            let right = self.expression(level + 1)?;
            left = Expression::Binary(sign, Box::new([left, right]));
        }
    }

    fn unary(&mut self) -> Result<Expression> {
        if self.is_of_kernel && self.tokens.take("&") {
            let variable = self.tokens.name()?;
            return Ok(Expression::Address(self.variable(&variable)));
        }
        for sign in ['!', '-', '~'] {
            if self.tokens.take(&sign.to_string()) {
                return Ok(Expression::Unary(sign, Box::new(self.unary()?)));
            }
        }
        if self.tokens.take("(") {
            if self.cast()? {
                return self.unary();
            }
            let inside = self.expression(0)?;
            self.tokens.expect(")")?;
            return Ok(inside);
        }
        if self.tokens.take("*") {
            return self.dereferenced();
        }
        if is_name(self.tokens.peek()) && self.tokens.ahead(1) == "(" {
            return self.call();
        }
        if let (true, Some(variable)) = (self.is_of_kernel, self.parameter()) {
            self.tokens.next()?;
            return Ok(Expression::Address(variable));
        }
        if is_name(self.tokens.peek()) {
            return Ok(Expression::Register(self.register()?));
        }
        Ok(Expression::Number(self.tokens.number()?))
    }

    /// `*x` or `*x = …`: of an atomic type, sequentially consistent.
    fn dereferenced(&mut self) -> Result<Expression> {
        if self.is_of_kernel {
            let place = self.place()?;
            return Ok(if self.tokens.take("=") {
                Expression::Write(place, Box::new(self.expression(0)?))
            } else {
                Expression::Read(place)
            });
        }
        let (variable, is_atomic) = self.pointer()?;
        if self.tokens.take("=") {
            let value = Box::new(self.expression(0)?);
            return Ok(if is_atomic {
                Expression::Store(variable, value, Ordering::SeqCst)
            } else {
                Expression::Write(Place::Variable(variable), value)
            });
        }
        Ok(if is_atomic {
            Expression::Load(variable, Ordering::SeqCst)
        } else {
            Expression::Read(Place::Variable(variable))
        })
    }

    fn call(&mut self) -> Result<Expression> {
        let function = self.tokens.name()?;
        self.tokens.expect("(")?;
        if self.is_of_kernel {
            let call = self.kernel_call(&function)?;
            return call.with_context(|| format!("a call of {function}"));
        }
        let is_explicit = function.ends_with("_explicit");
        let name = function.trim_end_matches("_explicit");
        if ["atomic_thread_fence", "atomic_signal_fence"].contains(&name) {
            let ordering = self.ordering()?;
            self.tokens.expect(")")?;
            ensure!(name == "atomic_thread_fence", "{name}");
            return Ok(Expression::Fence(ordering));
        }
        let (variable, is_atomic) = self.pointer()?;
        ensure!(is_atomic, "{function} of a variable that is not atomic");
        if name.starts_with("atomic_compare_exchange_") {
            return self.compare_exchange(variable, is_explicit);
        }
        let value = if self.tokens.take(",") && name != "atomic_load" {
            let value = self.expression(0)?;
            self.tokens.take(",");
            Some(Box::new(value))
        } else {
            None
        };
        let ordering = if is_explicit { self.ordering()? } else { Ordering::SeqCst };
        self.tokens.expect(")")?;
        let modify = match name {
            "atomic_load" => return Ok(Expression::Load(variable, ordering)),
            "atomic_store" => {
                let value = value.context("atomic_store without a value")?;
                return Ok(Expression::Store(variable, value, ordering));
            }
            "atomic_exchange" => Modify::Exchange,
            "atomic_fetch_add" => Modify::Add,
            "atomic_fetch_sub" => Modify::Sub,
            "atomic_fetch_or" => Modify::Or,
            "atomic_fetch_and" => Modify::And,
            "atomic_fetch_xor" => Modify::Xor,
            _ => bail!("a call of {function}"),
        };
        let value = value.with_context(|| format!("{function} without a value"))?;
        Ok(Expression::Modify(modify, variable, value, ordering))
    }

    fn compare_exchange(&mut self, variable: usize, is_explicit: bool) -> Result<Expression> {
        self.tokens.expect(",")?;
        let has_address = self.tokens.peek() == "&";
        let name = self.tokens.ahead(usize::from(has_address)).to_string();
        let thread = self.threads.last().expect("a thread");
        let expected = if thread.parameters.contains_key(&name) {
            Expected::Plain(self.pointer()?.0)
        } else {
            self.tokens.expect("&")?;
            Expected::Register(self.register()?)
        };
        self.tokens.expect(",")?;
        let new = Box::new(self.expression(0)?);
        let mut orderings = [Ordering::SeqCst; 2];
        for ordering in orderings.iter_mut().filter(|_| is_explicit) {
            self.tokens.expect(",")?;
            *ordering = self.ordering()?;
        }
        self.tokens.expect(")")?;
        Ok(Expression::CompareExchange { variable, expected, new, orderings })
    }

    fn ordering(&mut self) -> Result<Ordering> {
        let name = self.tokens.name()?;
        Ok(match name.trim_start_matches("memory_order_") {
            "relaxed" => Ordering::Relaxed,
            "acquire" => Ordering::Acquire,
            "release" => Ordering::Release,
            "acq_rel" => Ordering::AcqRel,
            "seq_cst" => Ordering::SeqCst,
            _ => bail!("{name}"),
        })
    }

    // The question.

    fn question(&mut self) -> Result<(Quantifier, Condition)> {
        if self.tokens.take("locations") {
            while !self.tokens.take("]") {
                self.tokens.next()?;
            }
        }
        ensure!(self.tokens.peek() != "filter", "a filter");
        let quantifier = if self.tokens.take("exists") {
            Quantifier::Exists
        } else if self.tokens.take("forall") {
            Quantifier::Forall
        } else {
            self.tokens.expect("~")?;
            self.tokens.expect("exists")?;
            Quantifier::NotExists
        };
        let condition = self.or()?;
        Ok((quantifier, condition))
    }

    fn or(&mut self) -> Result<Condition> {
        let mut any = vec![self.and()?];
        while self.tokens.take("\\/") {
            any.push(self.and()?);
        }
        Ok(Condition::Or(any))
    }

    fn and(&mut self) -> Result<Condition> {
        let mut all = vec![self.term()?];
        while self.tokens.take("/\\") {
            all.push(self.term()?);
        }
        Ok(Condition::And(all))
    }

    fn term(&mut self) -> Result<Condition> {
        if self.tokens.take("not") || self.tokens.take("~") {
            return Ok(Condition::Not(Box::new(self.term()?)));
        }
        if self.tokens.take("(") {
            let inside = self.or()?;
            self.tokens.expect(")")?;
            return Ok(inside);
        }
        if self.tokens.take("true") {
            return Ok(Condition::True);
        }
        if self.tokens.ahead(1) == ":" {
            let thread = self.tokens.number()? as usize;
            self.tokens.expect(":")?;
            let name = self.tokens.name()?;
            let value = self.compared()?;
            let thread_state =
                self.threads.get_mut(thread).context("a thread that is not there")?;
            let register = *thread_state
                .registers
                .get(&name)
                .with_context(|| format!("{thread}:{name} is no register"))?;
            if !thread_state.used.contains(&register) {
                thread_state.used.push(register);
            }
            return Ok(value.wrapped(|value| Condition::Register(thread, register, value)));
        }
        let has_bracket = self.tokens.take("[");
        let name = self.tokens.name()?;
        if has_bracket {
            self.tokens.expect("]")?;
        }
        let known = self.variables.iter().position(|variable| variable.name == name);
        let variable = known.with_context(|| format!("{name} is no variable"))?;
        Ok(self.compared()?.wrapped(|value| Condition::Variable(variable, value)))
    }

    fn compared(&mut self) -> Result<Compared> {
        let sign = self.tokens.next()?;
        let value = self.value()?;
        match sign.as_str() {
            "=" | "==" => Ok(Compared { value, is_equal: true }),
            "!=" | "<>" => Ok(Compared { value, is_equal: false }),
            _ => bail!("`{sign}` in the condition"),
        }
    }
}

/// The value that a condition compares with.
struct Compared {
    value: u32,
    is_equal: bool,
}

impl Compared {
    fn wrapped(self, condition: impl Fn(u32) -> Condition) -> Condition {
        let equal = condition(self.value);
        if self.is_equal { equal } else { Condition::Not(Box::new(equal)) }
    }
}
