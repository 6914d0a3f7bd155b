//! What curves say about scaling, and what they forecast: `knee scale` and its forecasts.

use std::collections::BTreeMap;

use analysis::{Axis, Curve};
use host::Placement;
use laws::{Forecast, Hysteresis, Scaling, Sweep, scaling};
use records::Form;
use schemars::JsonSchema;
use serde::Serialize;

use crate::simulated_operation::JoinedCurve;

use crate::conflicts::Ceiling;
use crate::doses::DoseReport;

/// What the curves of a record or file say about scaling, then what doses among them say.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Scalings(pub Vec<ScalingEntry>);

/// What one curve says, or the doses of one place.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a few are made, for printing")]
pub enum ScalingEntry {
    /// What a curve says.
    Curve(CurveScaling),
    /// What doses say.
    Dose {
        /// How serial the time is that doses were added to.
        dose: DoseReport,
    },
}

/// What a curve says about scaling, or why it says nothing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CurveScaling {
    /// The curve.
    pub curve: CurveIdentity,
    /// Knee, peak, cliff and laws, fitted to the mean rates. Absent if the curve is unusable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Why no law can be fitted: too few numbers of CPUs, say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// What an operation costs more at the most CPUs, in a sentence, by ledgers of the record; null without ledgers.
    pub grows: Option<String>,
    /// Whether rates depend on the way to a number of CPUs; null unless sweeps went up and down.
    pub hysteresis: Option<Hysteresis>,
    /// Rates at which more CPUs stop to help, as `knee conflicts` traced; empty unless --ceiling named them.
    pub ceilings: Vec<CurveCeiling>,
}

/// A ceiling of a curve's operation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CurveCeiling {
    /// The operation that was traced.
    pub operation: String,
    /// The release of the kernel that it was traced on.
    pub on: String,
    /// The ceiling on a described host.
    pub ceiling: Ceiling,
}

impl CurveScaling {
    /// What a curve says.
    pub fn new(
        curve: CurveIdentity,
        sweep: &Result<Sweep, String>,
        grows: Option<String>,
        hysteresis: Option<Hysteresis>,
        ceilings: Vec<CurveCeiling>,
    ) -> CurveScaling {
        let unusable = sweep.as_ref().err().cloned();
        CurveScaling {
            curve,
            scaling: sweep.as_ref().ok().map(scaling),
            unusable,
            grows,
            hysteresis,
            ceilings,
        }
    }
}

/// What tells a curve from others: its file, or what was measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CurveIdentity {
    /// A curve of a CSV file.
    File {
        /// Path of the file, as it was typed.
        file: String,
    },
    /// A curve of a record.
    Measured {
        /// Name of the workload or command.
        workload: String,
        /// Whether tasks are processes or threads.
        #[serde(rename = "as")]
        form: Form,
        /// Parameters of the workload by name.
        parameters: BTreeMap<String, String>,
        /// Name of the variant; empty if there is one only.
        variant: String,
        /// The order in which CPUs are taken into use.
        placement: Placement,
        /// Number of tasks for each CPU; null if the number of tasks is fixed.
        tasks_per_cpu: Option<f64>,
        /// What the curve runs over.
        axis: Axis,
    },
}

impl CurveIdentity {
    /// The identity of a measured curve.
    pub fn measured(curve: &Curve) -> CurveIdentity {
        let point = curve.point;
        CurveIdentity::Measured {
            workload: point.workload.clone(),
            form: point.form,
            parameters: curve.fixed_parameters(),
            variant: point.variant.clone(),
            placement: point.placement,
            tasks_per_cpu: curve.tasks_per_cpu,
            axis: curve.axis.clone(),
        }
    }
}

/// The forecasts of the curves of a record or file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Forecasts(pub Vec<CurveForecast>);

/// What a curve forecasts, or why it forecasts nothing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a few are made, for printing")]
pub enum CurveForecast {
    /// A forecast.
    Made {
        /// The curve.
        curve: CurveIdentity,
        /// Rates with more CPUs, by laws fitted to the curve.
        forecast: Forecast,
        /// What a waiting task adds to the time for which the lock is held, simulated; null unless a lock was named.
        hand_over: Option<SimulatedHandOver>,
        /// Rates at which more CPUs stop to help, as `knee conflicts` traced; empty unless --ceiling named them.
        ceilings: Vec<CurveCeiling>,
        /// A simulated curve of the same operation, joined to the measured one; null unless --simulated named one.
        simulated: Option<JoinedCurve>,
    },
    /// No forecast.
    Refused {
        /// The curve.
        curve: CurveIdentity,
        /// Why the curve forecasts nothing.
        refused: String,
        /// A simulated curve of the same operation, joined to the measured one; null unless --simulated named one.
        simulated: Option<JoinedCurve>,
    },
}

/// The hand-over of a lock on a described host, simulated.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimulatedHandOver {
    /// Name of the lock.
    pub lock: String,
    /// Name of the described host.
    pub host: String,
    /// The fewest and the most CPUs that were simulated.
    pub cpus: (usize, usize),
    /// Nanoseconds that each waiting task adds, with the middle values of the host's ranges.
    pub ns: f64,
    /// The lowest and the highest nanoseconds with values drawn from the host's ranges.
    pub range_ns: (f64, f64),
}
