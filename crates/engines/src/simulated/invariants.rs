//! What must hold while time passes: nobody is inside with others who must not be, and who
//! arrived first enters first.

use std::collections::VecDeque;

use machine::Annotation;

/// Who is inside, and who wants in.
#[derive(Clone, Debug)]
pub struct Watched {
    exclusive: bool,
    fifo: bool,
    arrived: VecDeque<u16>,
    alone: Option<u16>,
    sharing: u32,
}

impl Watched {
    pub fn new(exclusive: bool, fifo: bool) -> Watched {
        Watched { exclusive, fifo, arrived: VecDeque::new(), alone: None, sharing: 0 }
    }

    /// A task wants in.
    pub fn arrives(&mut self, task: u16) {
        if self.exclusive && self.fifo {
            self.arrived.push_back(task);
        }
    }

    /// A task is out again.
    pub fn leaves(&mut self, annotation: Annotation) {
        match annotation {
            _ if !self.exclusive => (),
            Annotation::LeaveShared => self.sharing -= 1,
            _ => self.alone = None,
        }
    }

    /// A task is inside; what is wrong with that, in words.
    pub fn enters(&mut self, task: u16, annotation: Annotation) -> Result<(), String> {
        if !self.exclusive {
            return Ok(());
        }
        if let Some(other) = self.alone {
            return Err(format!("t{task} enters while t{other} is inside alone"));
        }
        if annotation == Annotation::EnterShared {
            self.sharing += 1;
            return Ok(());
        }
        if self.sharing > 0 {
            return Err(format!("t{task} enters alone while {} share", self.sharing));
        }
        self.alone = Some(task);
        match self.fifo.then(|| self.arrived.pop_front()).flatten() {
            Some(first) if first != task => {
                Err(format!("t{task} enters before t{first}, which arrived first"))
            }
            _ => Ok(()),
        }
    }
}
