//! What tasks say about their critical sections, and the properties that this must have.

use machine::Annotation;

use super::failure::Fault;
use super::state::Arrival;
use super::world::{FaultFound, World};

impl World {
    pub fn annotated(&mut self, task: usize, annotation: Annotation) -> Result<(), FaultFound> {
        self.watch(task, annotation)?;
        let state = &mut self.state;
        match annotation {
            Annotation::Want | Annotation::WantShared => return Ok(()),
            // Where no order is claimed, the order of arrival distinguishes no states.
            Annotation::Arrive if self.bypasses.is_some() => {
                state.arrivals.push(Arrival { task: task as u8, bypassed: 0 });
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
        if self.trace.is_some() {
            let verb = match annotation {
                Annotation::Want | Annotation::WantShared => "wants to enter",
                Annotation::Arrive => "arrives",
                Annotation::Enter => "enters",
                Annotation::EnterShared => "enters, shared",
                Annotation::Leave | Annotation::LeaveShared => "leaves",
            };
            self.trace_line(format!("t{task}   {verb}"), None);
        }
        Ok(())
    }

    fn entered(&mut self, task: usize, allowed: bool) -> Result<(), FaultFound> {
        self.entries += 1;
        if !allowed {
            let why = format!("t{task} enters while another task is inside");
            self.report_fault(Fault::NotExclusive(why));
            return Err(FaultFound);
        }
        let Some(limit) = self.bypasses else { return Ok(()) };
        // A task that enters without having arrived came after all that have.
        let arrivals = &mut self.state.arrivals;
        let place = arrivals.iter().position(|arrival| usize::from(arrival.task) == task);
        let earlier = place.unwrap_or(arrivals.len());
        if let Some(place) = place {
            arrivals.remove(place);
        }
        arrivals[..earlier].iter_mut().for_each(|arrival| arrival.bypassed += 1);
        let mut passed_over = arrivals.iter().filter(|arrival| u32::from(arrival.bypassed) > limit);
        if let Some(Arrival { task: first, .. }) = passed_over.next() {
            let why = match limit {
                0 => format!("t{task} enters before t{first}, which arrived first"),
                limit => format!(
                    "t{task} is number {} to enter before t{first}, which had arrived",
                    limit + 1
                ),
            };
            self.report_fault(Fault::Overtaken(why));
            return Err(FaultFound);
        }
        Ok(())
    }
}
