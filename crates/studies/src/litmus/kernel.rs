//! The Linux kernel's primitives in litmus tests.

use anyhow::{Result, ensure};
use machine::Ordering;

use super::parse::{Expression, KernelAccess, KernelAction, Modify, Parser, Place, SpinlockAction};

/// How a name that ends so orders; without such an end, fully.
fn ordering(name: &str) -> (&str, Ordering) {
    let ends = [
        ("_relaxed", Ordering::Relaxed),
        ("_acquire", Ordering::Acquire),
        ("_release", Ordering::Release),
    ];
    let found = ends.iter().find_map(|(end, order)| Some((name.strip_suffix(end)?, *order)));
    found.unwrap_or((name, Ordering::SeqCst))
}

impl Parser {
    /// A call of a primitive, after its name and the bracket. `None` if it is none.
    pub(super) fn kernel_call(&mut self, function: &str) -> Result<Option<Expression>> {
        let fence = match function {
            "smp_rmb" => Some(Expression::FenceLoads),
            "smp_wmb" => Some(Expression::FenceStores),
            "smp_mb"
            | "smp_mb__before_atomic"
            | "smp_mb__after_atomic"
            | "smp_mb__after_spinlock" => Some(Expression::Fence(Ordering::SeqCst)),
            "barrier" | "rcu_read_lock" | "rcu_read_unlock" => Some(Expression::Number(0)),
            _ => None,
        };
        if let Some(fence) = fence {
            self.tokens.expect(")")?;
            return Ok(Some(fence));
        }
        let (has_star, ordering) = match function {
            "READ_ONCE" | "WRITE_ONCE" | "rcu_dereference" => (true, Ordering::Relaxed),
            "rcu_assign_pointer" => (true, Ordering::Release),
            "smp_store_mb" => (true, Ordering::SeqCst),
            "smp_load_acquire" | "atomic_read_acquire" => (false, Ordering::Acquire),
            "smp_store_release" | "atomic_set_release" => (false, Ordering::Release),
            "atomic_read" | "atomic_set" | "spin_is_locked" => (false, Ordering::Relaxed),
            "spin_lock" => return self.spinlock(SpinlockAction::Lock),
            "spin_trylock" => return self.spinlock(SpinlockAction::TryLock),
            "spin_unlock" => return self.spinlock(SpinlockAction::Unlock),
            _ => return self.kernel_modify(function),
        };
        ensure!(self.tokens.take("*") == has_star, "{function}: `*` before a variable, or not");
        let place = self.place()?;
        let action = if self.tokens.take(",") {
            KernelAction::Store(self.expression(0)?)
        } else {
            KernelAction::Load
        };
        self.tokens.expect(")")?;
        let is_full = ordering == Ordering::SeqCst;
        let ordering = if is_full { Ordering::Relaxed } else { ordering };
        let access = KernelAccess { place, action, ordering, is_full, returns_nothing: false };
        Ok(Some(Expression::Kernel(Box::new(access))))
    }

    fn spinlock(&mut self, action: SpinlockAction) -> Result<Option<Expression>> {
        let place = self.place()?;
        self.tokens.expect(")")?;
        Ok(Some(Expression::Spinlock(place, action)))
    }

    /// A read-modify-write.
    fn kernel_modify(&mut self, function: &str) -> Result<Option<Expression>> {
        let (name, mut ordering) = ordering(function);
        let name = name.strip_prefix("atomic_").unwrap_or(name);
        let (name, is_value_used) =
            match (name.strip_prefix("fetch_"), name.strip_suffix("_return")) {
                (Some(name), _) => (name, true),
                (_, Some(name)) => (name, true),
                _ => (name, matches!(name, "xchg" | "cmpxchg")),
            };
        let returns_new = function.contains("_return");
        let modify = match name {
            "xchg" | "cmpxchg" => Modify::Exchange,
            "add" | "inc" => Modify::Add,
            "sub" | "dec" => Modify::Sub,
            "or" => Modify::Or,
            "and" => Modify::And,
            "xor" => Modify::Xor,
            _ => return Ok(None),
        };
        if !is_value_used {
            ordering = Ordering::Relaxed;
        }
        let (place, action) = match name {
            "xchg" => {
                let place = self.place()?;
                self.tokens.expect(",")?;
                (place, KernelAction::Modify(modify, self.expression(0)?, false))
            }
            "cmpxchg" => {
                let place = self.place()?;
                self.tokens.expect(",")?;
                let old = self.expression(0)?;
                self.tokens.expect(",")?;
                (place, KernelAction::CompareExchange([old, self.expression(0)?]))
            }
            "inc" | "dec" => {
                let one = Expression::Number(1);
                (self.place()?, KernelAction::Modify(modify, one, returns_new))
            }
            _ => {
                let value = self.expression(0)?;
                self.tokens.expect(",")?;
                (self.place()?, KernelAction::Modify(modify, value, returns_new))
            }
        };
        self.tokens.expect(")")?;
        let is_full = ordering == Ordering::SeqCst;
        let returns_nothing = !is_value_used;
        let access = KernelAccess { place, action, ordering, is_full, returns_nothing };
        Ok(Some(Expression::Kernel(Box::new(access))))
    }

    /// A variable that a parameter points to, or what a register points to.
    pub(super) fn place(&mut self) -> Result<Place> {
        let has_bracket = self.tokens.take("(") && !self.cast()?;
        self.tokens.take("&");
        let place = match self.parameter() {
            Some(variable) => {
                self.tokens.next()?;
                Place::Variable(variable)
            }
            None => Place::Pointer(self.register()?),
        };
        if has_bracket {
            self.tokens.expect(")")?;
        }
        Ok(place)
    }
}
