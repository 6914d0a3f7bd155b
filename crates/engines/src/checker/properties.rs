//! What tasks say about their critical sections, and the properties that this must have.

use machine::Annotation;

use super::failure::Fault;
use super::world::{FaultFound, World};

impl World {
    pub fn annotated(&mut self, task: usize, annotation: Annotation) -> Result<(), FaultFound> {
        let state = &mut self.state;
        match annotation {
            // Where no order is claimed, the order of arrival distinguishes no states.
            Annotation::Arrive if self.fifo => {
                state.arrivals.push(task as u8);
                self.arrived = true;
            }
            Annotation::Arrive => {}
            Annotation::Enter => {
                let is_empty = state.inside == 0 && state.sharing == 0;
                state.inside += 1;
                self.entered(task, is_empty)?;
            }
            Annotation::EnterShared => {
                let no_writer = state.inside == 0;
                state.sharing += 1;
                self.entered(task, no_writer)?;
            }
            Annotation::Leave => state.inside -= 1,
            Annotation::LeaveShared => state.sharing -= 1,
        }
        if let Some(trace) = &mut self.trace {
            let verb = match annotation {
                Annotation::Arrive => "arrives",
                Annotation::Enter => "enters",
                Annotation::EnterShared => "enters, shared",
                Annotation::Leave | Annotation::LeaveShared => "leaves",
            };
            trace.push(format!("t{task}   {verb}"));
        }
        Ok(())
    }

    fn entered(&mut self, task: usize, allowed: bool) -> Result<(), FaultFound> {
        if !allowed {
            let why = format!("t{task} enters while another task is inside");
            self.report_fault(Fault::NotExclusive(why));
            return Err(FaultFound);
        }
        let arrivals = &mut self.state.arrivals;
        if let Some(index) = arrivals.iter().position(|&t| usize::from(t) == task) {
            let first = arrivals[0];
            arrivals.remove(index);
            if self.fifo && index > 0 {
                let why = format!("t{task} enters before t{first}, which arrived first");
                self.report_fault(Fault::Overtaken(why));
                return Err(FaultFound);
            }
        }
        Ok(())
    }
}
