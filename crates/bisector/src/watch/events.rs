//! What the files beside a line's own hold: one event a line, as it happened.

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

use bisection::watch::PairSums;
use records::HostFacts;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of the files beside a line's own.
pub const VERSION: u32 = 2;

/// A line of the file of points.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LineEvent {
    Begun(Box<BegunLine>),
    Point(Box<Point>),
    Compared(Box<ComparedGap>),
    Bisected(Box<BisectedChange>),
}

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BegunLine {
    pub version: u32,
    pub knee: String,
    pub at: jiff::Timestamp,
    /// [`super::LineFile::experiment`].
    pub experiment: BTreeMap<String, String>,
    /// Equal for builds of the anchor that load equal code and data.
    pub anchor_key: String,
    /// The cases that the anchor lists, if the line has them listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<String>,
}

/// Reads the kind first, which is written first, so that the rest is read as what it is: long lines would be read twice.
impl<'de> Deserialize<'de> for LineEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LineEvent, D::Error> {
        deserializer.deserialize_map(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = LineEvent;

    fn expecting(&self, formatter: &mut Formatter) -> fmt::Result {
        formatter.write_str("an event that begins with its kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LineEvent, A::Error> {
        let kind: Option<(String, String)> = map.next_entry()?;
        let Some((key, kind)) = kind else { return Err(A::Error::custom("the event is empty")) };
        if key != "event" {
            return Err(A::Error::custom("the event does not begin with its kind"));
        }
        let rest = MapAccessDeserializer::new(map);
        Ok(match kind.as_str() {
            "begun" => LineEvent::Begun(Box::deserialize(rest)?),
            "point" => LineEvent::Point(Box::deserialize(rest)?),
            "compared" => LineEvent::Compared(Box::deserialize(rest)?),
            "bisected" => LineEvent::Bisected(Box::deserialize(rest)?),
            other => return Err(A::Error::custom(format!("'{other}' is no kind of event"))),
        })
    }
}

/// A measured commit, or one whose build is that of an earlier point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub commit: String,
    pub subject: String,
    pub date: String,
    /// The point before it in the history, when it was added; the first of the line without one.
    pub after: Option<String>,
    pub at: jiff::Timestamp,
    /// Equal for builds that load equal code and data.
    pub key: String,
    /// The records of its runs; none where an earlier point has the same build.
    pub records: Vec<String>,
    /// The runs of each series.
    pub values: BTreeMap<String, BesideAnchor>,
    /// Blocks that the host disturbed.
    pub disturbed: u32,
    /// What the host was.
    pub host: Option<HostState>,
}

/// Runs of a build and of the anchor, one of each in a block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BesideAnchor {
    /// Logarithms of the anchor's values.
    #[serde(serialize_with = "all_rounded")]
    pub anchor: Vec<f64>,
    /// Logarithms of the ratios to them.
    #[serde(serialize_with = "all_rounded")]
    pub ratios: Vec<f64>,
}

/// Logarithms are kept to a millionth: no clock is better.
pub fn rounded(log: f64) -> f64 {
    (log * 1e6).round() / 1e6
}

fn all_rounded<S: Serializer>(logs: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(logs.iter().map(|log| rounded(*log)))
}

impl BesideAnchor {
    pub fn sums(&self) -> PairSums {
        let mut sums = PairSums::default();
        let pairs = self.anchor.iter().zip(&self.ratios);
        pairs.for_each(|(anchor, ratio)| sums.add(*anchor, anchor + ratio));
        sums
    }
}

/// What a host was at a point: stable facts alone, and no number that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    pub knee: String,
    pub facts: HostFacts,
}

/// A comparison of two neighbours, in runs of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparedGap {
    /// The series that suggested it; all of its case are compared.
    pub series: String,
    pub before: String,
    pub after: String,
    pub at: jiff::Timestamp,
    /// What the points suggested: the step as a logarithm, and its probability.
    pub step: f64,
    pub probability: f64,
    /// Number of builds after the gap, at that time.
    pub followed: usize,
    /// Whether it followed the runs of the newer point at once.
    pub at_once: bool,
    /// The pairs of runs, in their order.
    pub pairs: Vec<PairOfRuns>,
    pub records: Vec<String>,
    /// Why there are no other layouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_layouts: Option<String>,
    /// Why they could not be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A run of each of two neighbours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairOfRuns {
    /// 0 is the compiler's own.
    pub layout: u32,
    /// Logarithms of both, by series: the older build's, the newer one's.
    pub values: BTreeMap<String, (f64, f64)>,
}

/// A bisection of the commits between both neighbours of a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BisectedChange {
    /// The commit that has the change.
    pub change: String,
    pub at: jiff::Timestamp,
    /// The bisection; absent where there is no commit between them.
    pub bisection: Option<String>,
    /// The commits that it named, with their subjects; absent until it ends.
    pub named: Option<Vec<(String, String)>>,
    /// What it came to, where it named none: "the ends do not differ".
    pub came_to: String,
}

/// A user's word about a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ack {
    /// The commit that has the change.
    pub change: String,
    pub why: String,
    /// Whether it was none.
    pub is_false: bool,
    pub at: jiff::Timestamp,
}
