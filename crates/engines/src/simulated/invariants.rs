//! Invariants of a simulated algorithm: tasks exclude each other where they must, and enter in the
//! order of their arrival where the algorithm claims that.

use std::collections::VecDeque;

use machine::Annotation;

/// The tasks that are inside or have arrived.
#[derive(Clone, Debug)]
pub struct Invariants {
    exclusive: bool,
    fifo: bool,
    /// Tasks that have arrived and not entered, in the order of arrival.
    arrived: VecDeque<u16>,
    /// The task that is inside exclusively.
    inside: Option<u16>,
    /// The number of tasks that are inside and share.
    sharing: u32,
}

impl Invariants {
    pub fn new(exclusive: bool, fifo: bool) -> Invariants {
        Invariants { exclusive, fifo, arrived: VecDeque::new(), inside: None, sharing: 0 }
    }

    pub fn arrives(&mut self, task: u16) {
        if self.exclusive && self.fifo {
            self.arrived.push_back(task);
        }
    }

    pub fn leaves(&mut self, annotation: Annotation) {
        match annotation {
            _ if !self.exclusive => (),
            Annotation::LeaveShared => self.sharing -= 1,
            _ => self.inside = None,
        }
    }

    /// Notes that a task enters. The error says which invariant that breaks.
    pub fn enters(&mut self, task: u16, annotation: Annotation) -> Result<(), String> {
        if !self.exclusive {
            return Ok(());
        }
        if let Some(other) = self.inside {
            return Err(format!("t{task} enters while t{other} is inside exclusively"));
        }
        if annotation == Annotation::EnterShared {
            self.sharing += 1;
            return Ok(());
        }
        if self.sharing > 0 {
            let sharing = self.sharing;
            return Err(format!("t{task} enters exclusively while {sharing} tasks share"));
        }
        self.inside = Some(task);
        match self.fifo.then(|| self.arrived.pop_front()).flatten() {
            Some(first) if first != task => {
                Err(format!("t{task} enters before t{first}, which arrived first"))
            }
            _ => Ok(()),
        }
    }
}
