//! Counts how often others enter before the watched task: see `bypass`.

use machine::Annotation;

use super::bypass::{Stage, Watched};
use super::hash::mix;
use super::request::{Request, RequestKind};
use super::world::{FaultFound, World};

impl World {
    /// Notes what a task says about its critical section. Stops the watched task before it takes the lock again.
    pub fn watch(&mut self, task: usize, annotation: Annotation) -> Result<(), FaultFound> {
        let Some(watched_task) = self.watched_task else { return Ok(()) };
        if matches!(annotation, Annotation::Enter | Annotation::EnterShared) {
            self.has_entered = Some(task);
        }
        let has_order = self.bypasses.is_some();
        let watched = &mut self.state.watched;
        if task == watched_task {
            let stage = match annotation {
                Annotation::Want | Annotation::WantShared if watched.stage == Stage::Entered => {
                    return Err(FaultFound);
                }
                Annotation::Arrive if has_order => Stage::Waits { shares: false },
                Annotation::Want => Stage::Begins { shares: false },
                Annotation::WantShared => Stage::Begins { shares: true },
                Annotation::Enter | Annotation::EnterShared => Stage::Entered,
                _ => return Ok(()),
            };
            *watched = Watched { stage, steps: 0, entered: 0, ..*watched };
            return Ok(());
        }
        let Stage::Waits { shares } = watched.stage else { return Ok(()) };
        let counts = match annotation {
            Annotation::Enter => true,
            Annotation::EnterShared => !shares,
            _ => false,
        };
        if counts {
            watched.entered = watched.entered.saturating_add(1);
        }
        Ok(())
    }

    /// Notes that a task has come to a step, perhaps once more in the same state.
    pub fn watch_request(&mut self, task: usize, request: &Request) {
        if self.watched_task != Some(task) || self.bypasses.is_some() {
            return;
        }
        let site = u64::from(request.location.line) << 32 | u64::from(request.location.column);
        let state = mix(self.state.tasks[task].history, site);
        let step = 1_u128 << (mix(state, u64::from(request.offset)) >> 57);
        let watched = &mut self.state.watched;
        if let Stage::Begins { shares } = watched.stage {
            if watched.steps & step != 0 {
                watched.stage = Stage::Waits { shares };
                watched.steps = 0;
            } else {
                watched.steps |= step;
            }
        }
    }

    /// Notes which tasks are blocked in the live state, to which a task has come by a step, and whether that was fair.
    pub fn watch_state(&mut self, moved: usize) {
        let Some(task) = self.watched_task else { return };
        let entered = self.has_entered.take();
        for other in 0..self.tasks() {
            let bit = 1 << other;
            let neglected = &mut self.state.watched.neglected;
            let was_neglected = *neglected & bit != 0;
            *neglected &= !bit;
            if other == moved || self.alternatives(other) == 0 {
                continue;
            }
            self.is_unfair |= was_neglected && entered.is_some();
            if was_neglected || entered.is_some() {
                self.state.watched.neglected |= bit;
            }
        }
        if self.bypasses.is_none() {
            self.watch_blocked(task);
        }
        let Watched { stage, entered, .. } = self.state.watched;
        if let Stage::Waits { shares } = stage
            && !self.is_unfair
        {
            let most = if shares { &mut self.bypass.shared } else { &mut self.bypass.exclusive };
            *most = (*most).max(Some(entered));
        }
    }

    fn watch_blocked(&mut self, task: usize) {
        let Stage::Begins { shares } = self.state.watched.stage else { return };
        let kind = self.state.tasks[task].request.kind;
        let can_block = matches!(kind, RequestKind::Await(_) | RequestKind::Asleep(..));
        if can_block && self.alternatives(task) == 0 {
            (self.state.watched.stage, self.state.watched.steps) = (Stage::Waits { shares }, 0);
        }
    }
}
