//! Simulated checks as sweeps: a piece is a sixteenth of the trials of verdicts on one kind of noise, a part of the
//! check of curves, or a row of the table of searches.

use std::process::ExitCode;

use analysis::selfcheck::{Tally, VerdictSimulation};
use anyhow::{Context, Result, bail};
use bisection::selfcheck::{BisectSimulation, TablePart};
use host::terminal::print;
use laws::selfcheck::{Part, ScaleCheck, scale_check};
use serde::{Deserialize, Serialize};
use text::Style;

use sweeps::Sweep;

/// A check by simulation.
pub struct SelfcheckSweep {
    pub of: Simulations,
    pub as_json: bool,
}

/// What is simulated.
pub enum Simulations {
    Verdicts(VerdictSimulation),
    Scale { trials: u32, seed: u64, parts: Vec<Part> },
    Bisect(BisectSimulation),
}

/// The result of a piece.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelfcheckPiece {
    Verdicts(Vec<Tally>),
    Scale(Box<ScaleCheck>),
    Bisect(TablePart),
}

impl Sweep for SelfcheckSweep {
    type Piece = SelfcheckPiece;

    fn pieces(&self) -> usize {
        match &self.of {
            Simulations::Verdicts(simulation) => simulation.pieces(),
            Simulations::Scale { parts, .. } => parts.len(),
            Simulations::Bisect(simulation) => simulation.pieces(),
        }
    }

    fn compute(&self, piece: usize) -> Result<SelfcheckPiece> {
        Ok(match &self.of {
            Simulations::Verdicts(simulation) => {
                SelfcheckPiece::Verdicts(simulation.tallies(piece))
            }
            Simulations::Scale { trials, seed, parts } => {
                SelfcheckPiece::Scale(Box::new(scale_check(*trials, *seed, &[parts[piece]])))
            }
            Simulations::Bisect(simulation) => SelfcheckPiece::Bisect(simulation.table_part(piece)),
        })
    }

    fn show(&self, pieces: Vec<SelfcheckPiece>) -> Result<ExitCode> {
        let style = Style::for_stdout();
        let (text, is_missed) = match &self.of {
            Simulations::Verdicts(simulation) => {
                let tallies = pieces.into_iter().map(|piece| match piece {
                    SelfcheckPiece::Verdicts(tallies) => Ok(tallies),
                    _ => bail!(ANOTHER),
                });
                let check = simulation.joined(&tallies.collect::<Result<Vec<_>>>()?);
                (self.text(&check, reports::selfcheck(&check, &style))?, check.missed())
            }
            Simulations::Scale { .. } => {
                let checks = pieces.into_iter().map(|piece| match piece {
                    SelfcheckPiece::Scale(check) => Ok(*check),
                    _ => bail!(ANOTHER),
                });
                let checks = checks.collect::<Result<Vec<_>>>()?.into_iter();
                let check = checks.reduce(ScaleCheck::joined).context("no part is checked")?;
                (self.text(&check, reports::selfcheck_scale(&check, &style))?, false)
            }
            Simulations::Bisect(simulation) => {
                let parts = pieces.into_iter().map(|piece| match piece {
                    SelfcheckPiece::Bisect(part) => Ok(part),
                    _ => bail!(ANOTHER),
                });
                let check = simulation.joined(parts.collect::<Result<_>>()?);
                (self.text(&check, reports::selfcheck_bisect(&check, &style))?, false)
            }
        };
        print(text)?;
        Ok(if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn fills_host(&self) -> bool {
        !matches!(self.of, Simulations::Verdicts(_))
    }
}

const ANOTHER: &str = "a piece is of another check";

impl SelfcheckSweep {
    fn text(&self, check: &impl Serialize, table: String) -> Result<String> {
        Ok(if self.as_json { serde_json::to_string_pretty(check)? + "\n" } else { table })
    }
}
