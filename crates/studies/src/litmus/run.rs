//! Runs a thread of a litmus test on a machine.

use machine::{Machine, Ordering};

use super::parse::{Expected, Expression, Modify, Statement};
use super::{REGISTERS_MAX, Variables};

type Registers = [u32; REGISTERS_MAX];

/// Runs statements with these registers.
pub fn run<M: Machine>(
    m: &M,
    statements: &[Statement],
    variables: &Variables,
    registers: &mut Registers,
) {
    for statement in statements {
        match statement {
            Statement::Assign(register, value) => {
                registers[*register] = evaluated(m, value, variables, registers);
            }
            Statement::Evaluate(expression) => {
                evaluated(m, expression, variables, registers);
            }
            Statement::If(condition, then, other) => {
                let holds = evaluated(m, condition, variables, registers) != 0;
                run(m, if holds { then } else { other }, variables, registers);
            }
        }
    }
}

fn evaluated<M: Machine>(
    m: &M,
    expression: &Expression,
    variables: &Variables,
    registers: &mut Registers,
) -> u32 {
    match expression {
        Expression::Number(value) => *value,
        Expression::Register(register) => registers[*register],
        Expression::Read(variable) => variables.plain(*variable).get(m),
        Expression::Write(variable, value) => {
            let value = evaluated(m, value, variables, registers);
            variables.plain(*variable).set(m, value);
            value
        }
        Expression::Load(variable, ordering) => variables.atom(*variable).load(m, *ordering),
        Expression::Store(variable, value, ordering) => {
            let value = evaluated(m, value, variables, registers);
            variables.atom(*variable).store(m, value, *ordering);
            value
        }
        Expression::Modify(modify, variable, value, ordering) => {
            let (value, ordering) = (evaluated(m, value, variables, registers), *ordering);
            let atom = variables.atom(*variable);
            match modify {
                Modify::Exchange => atom.swap(m, value, ordering),
                Modify::Add => atom.fetch_add(m, value, ordering),
                Modify::Sub => atom.fetch_add(m, value.wrapping_neg(), ordering),
                Modify::Or => atom.fetch_or(m, value, ordering),
                Modify::And => atom.fetch_and(m, value, ordering),
                Modify::Xor => atom.fetch_xor(m, value, ordering),
            }
        }
        Expression::CompareExchange { variable, expected, new, orderings } => {
            let new = evaluated(m, new, variables, registers);
            compare_exchanged(m, (*variable, *expected, new), *orderings, variables, registers)
        }
        Expression::Fence(ordering) => {
            if *ordering != Ordering::Relaxed {
                m.fence(*ordering);
            }
            0
        }
        Expression::Unary(sign, value) => {
            let value = evaluated(m, value, variables, registers);
            match sign {
                '!' => u32::from(value == 0),
                '-' => value.wrapping_neg(),
                _ => !value,
            }
        }
        Expression::Binary(sign, sides) => {
            let left = evaluated(m, &sides[0], variables, registers);
            match (sign.as_str(), left) {
                ("&&", 0) => return 0,
                ("||", left) if left != 0 => return 1,
                _ => {}
            }
            let right = evaluated(m, &sides[1], variables, registers);
            calculated(sign, left, right)
        }
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

/// Whether a compare-exchange succeeds: a variable, where the value that it expects is, and the new one.
fn compare_exchanged<M: Machine>(
    m: &M,
    (variable, expected, new): (usize, Expected, u32),
    [ordering, failure]: [Ordering; 2],
    variables: &Variables,
    registers: &mut Registers,
) -> u32 {
    let old = match expected {
        Expected::Register(register) => registers[register],
        Expected::Plain(variable) => variables.plain(variable).get(m),
    };
    m.fails_with(failure);
    let result = variables.atom(variable).compare_exchange(m, old, new, ordering);
    if let Err(found) = result {
        match expected {
            Expected::Register(register) => registers[register] = found,
            Expected::Plain(variable) => variables.plain(variable).set(m, found),
        }
    }
    u32::from(result.is_ok())
}
