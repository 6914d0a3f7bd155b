//! Pages about replays and simulations, also beside what was measured.

pub mod beside;
pub mod simulation;
