//! Where the model may be believed: what published tables that it was not fitted to say of it, by class of comparison.
//!
//! Each comparison of two rates belongs to a class, by how its locks wait and by its load. `publications/grades/` has the
//! rows of all replayed tables. Of each publication one factor contains nine tenths of its reported ratios, if the
//! intervals of the draws are widened by it on both sides. The model's error in a class is the largest of these factors,
//! or that which contains nine tenths of them, where so many are known: rows of one table share their host and their load,
//! and a new comparison is like a new table. What is said of a row of a publication comes from the others.
//!
//! Of the rules that were tried, each on tables that it had not seen (100 rows of 14 publications), this one contains 92 %
//! of rows, and dares 43 directions, all right. Nine tenths of all rows, not of publications, contain 88 % with two of 50
//! directions wrong; rows weighted by publication contain 83 %. A factor for all classes together hardly ever dares.
//!
//! Sources: V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005 (conformal prediction);
//! R. Dunn, L. Wasserman and A. Ramdas, Distribution-free prediction sets for two-layer hierarchical models, 2022.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use algorithms::Waits;
use serde::{Deserialize, Serialize};

use crate::simulations::{LockLoad, RateRatio};
use crate::subject::Subject;

/// The rows of all replayed tables, as [`GradesFile`].
pub const GRADES: &str = include_str!("../../../publications/grades/rows.toml");

/// A class of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Some operations take a read-write lock to read.
    Readers,
    /// Operations take one of several locks.
    ManyLocks,
    /// Waiters of one of both locks sleep.
    Sleeping,
    /// Sections do nothing at all.
    Empty,
    /// A lock or an operation in C that is in no other class, or no lock.
    Own,
    /// Up to four tasks at both points.
    Few,
    /// Waiters of one of both locks spin on one word.
    OneWord,
    /// Each waiter spins on a line of its own.
    Queues,
}

impl Class {
    /// All classes, in the order in which a comparison is put into the first that fits.
    pub const ALL: [Class; 8] = [
        Class::Readers,
        Class::ManyLocks,
        Class::Sleeping,
        Class::Empty,
        Class::Own,
        Class::Few,
        Class::OneWord,
        Class::Queues,
    ];

    /// The name in tables and sentences.
    pub fn name(self) -> &'static str {
        match self {
            Class::Readers => "readers",
            Class::ManyLocks => "many locks",
            Class::Sleeping => "sleeping locks",
            Class::Empty => "empty sections",
            Class::Few => "2 to 4 tasks",
            Class::OneWord => "waiters on one word",
            Class::Queues => "queue locks",
            Class::Own => "own code",
        }
    }

    /// The class of a comparison of two points.
    pub fn of(sides: [&ComparedSide; 2]) -> Class {
        let any = |is_so: fn(&ComparedSide) -> bool| sides.iter().any(|side| is_so(side));
        match () {
            () if any(ComparedSide::has_readers) => Class::Readers,
            () if any(|side| side.locks > 1) => Class::ManyLocks,
            () if any(|side| side.waits == Some(Waits::Asleep)) => Class::Sleeping,
            () if any(ComparedSide::has_empty_sections) => Class::Empty,
            () if any(|side| side.waits.is_none()) => Class::Own,
            () if !any(|side| side.tasks > 4) => Class::Few,
            () if any(|side| side.waits == Some(Waits::OneWord)) => Class::OneWord,
            () => Class::Queues,
        }
    }
}

/// What decides to which class a side of a comparison belongs.
#[derive(Clone, Debug)]
pub struct ComparedSide {
    is_lock: bool,
    is_shared: bool,
    /// `None` of locks in C and of mechanisms.
    waits: Option<Waits>,
    reads: u32,
    locks: usize,
    is_empty: bool,
    tasks: usize,
}

impl ComparedSide {
    /// A lock or mechanism under a load of this many tasks.
    pub fn new(subject: &Subject, load: &LockLoad, tasks: usize) -> ComparedSide {
        let waits = if let Subject::Lock(lock) = subject { Some(lock.waits) } else { None };
        ComparedSide {
            is_lock: subject.is_lock(),
            is_shared: subject.is_read_write_lock(),
            waits,
            reads: load.reads,
            locks: load.locks,
            is_empty: load.hold_ns == 0 && load.lines_written + load.lines_read == 0,
            tasks,
        }
    }

    /// Whether some operations read what others write.
    fn has_readers(&self) -> bool {
        self.is_shared && self.reads > 0 && !self.is_operation()
    }

    /// Whether nothing is done in its sections.
    fn has_empty_sections(&self) -> bool {
        self.is_lock && self.is_empty && !self.is_operation()
    }

    /// Whether all take the reading side of a lock in C, which is how an operation is written down.
    fn is_operation(&self) -> bool {
        self.is_shared && self.waits.is_none() && self.reads == 100
    }
}

/// A reported ratio with its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradedRow {
    /// The name of the publication's file.
    pub publication: String,
    /// Which of its targets.
    pub what: String,
    /// The class of the comparison.
    pub class: Class,
    /// The reported ratio.
    pub reported: f64,
    /// The ratio with the middles of all ranges.
    pub middle: f64,
    /// The lowest of all draws.
    pub low: f64,
    /// The highest of all draws.
    pub high: f64,
}

/// The format of `publications/grades/rows.toml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradesFile {
    /// Tables to which numbers of hosts were fitted: where, and what. They are not graded.
    pub fitted: Vec<String>,
    /// A row for each ratio of each publication, built into knee or with locks in C.
    pub row: Vec<GradedRow>,
}

/// What tables say of the model in a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassGrade {
    /// Reported ratios.
    pub rows: usize,
    /// Publications that they are from.
    pub publications: usize,
    /// Predictions whose widened interval excludes 1.
    pub dared: usize,
    /// Such predictions with the reported direction.
    pub right: usize,
    /// Reported ratios in the interval of the draws.
    pub inside: usize,
    /// Reported ratios in the widened interval, each widened by what the other publications say.
    pub inside_widened: usize,
    /// The factor by which the interval of the draws is widened, on both sides.
    pub factor: f64,
    /// Whether the factor is that of all classes, since no table is of this one.
    pub is_pooled: bool,
}

/// All rows, and what they say.
#[derive(Debug)]
pub struct Grades {
    /// The rows.
    pub file: GradesFile,
}

/// The share of reported ratios that widened intervals are to contain.
const INSIDE: f64 = 0.9;

/// What tables say of the model.
///
/// # Panics
/// If the file built into knee cannot be read.
pub fn grades() -> &'static Grades {
    static ALL: OnceLock<Grades> = OnceLock::new();
    ALL.get_or_init(|| Grades {
        file: toml::from_str(GRADES).expect("rows.toml is a file of grades"),
    })
}

impl GradedRow {
    fn draws(&self) -> RateRatio {
        RateRatio { middle: self.middle, low: self.low, high: self.high }
    }

    /// The factor by which the interval of the draws has to be widened to contain the reported ratio.
    fn needed(&self) -> f64 {
        (self.low / self.reported).max(self.reported / self.high).max(1.0)
    }
}

impl Grades {
    /// The factor of a class, from all publications but this one; and whether it is that of all classes, since no other
    /// publication has rows of this one.
    pub fn factor(&self, class: Class, but: Option<&str>) -> (f64, bool) {
        let others = || self.file.row.iter().filter(|row| Some(row.publication.as_str()) != but);
        let of_class: Vec<&GradedRow> = others().filter(|row| row.class == class).collect();
        match of_class[..] {
            [] => (largest_factor(&others().collect::<Vec<_>>()), true),
            _ => (largest_factor(&of_class), false),
        }
    }

    /// What tables say of a class.
    pub fn of(&self, class: Class) -> ClassGrade {
        let rows: Vec<&GradedRow> = self.file.row.iter().filter(|row| row.class == class).collect();
        let (factor, is_pooled) = self.factor(class, None);
        let (mut dared, mut right, mut inside, mut inside_widened) = (0, 0, 0, 0);
        for row in &rows {
            let (factor, _) = self.factor(class, Some(&row.publication));
            let widened = row.draws().widened(factor);
            dared += usize::from(widened.is_clear());
            right += usize::from(widened.is_clear() && (row.middle > 1.0) == (row.reported > 1.0));
            inside += usize::from(row.draws().contains(row.reported));
            inside_widened += usize::from(widened.contains(row.reported));
        }
        let publications = publications(&rows).len();
        ClassGrade {
            rows: rows.len(),
            publications,
            dared,
            right,
            inside,
            inside_widened,
            factor,
            is_pooled,
        }
    }
}

fn publications<'a>(rows: &[&'a GradedRow]) -> BTreeSet<&'a str> {
    rows.iter().map(|row| row.publication.as_str()).collect()
}

/// The factor that contains nine tenths of the rows of nine tenths of publications, also of one that is not among them;
/// the largest of all, where they are too few for that.
fn largest_factor(rows: &[&GradedRow]) -> f64 {
    let of_publication = |name: &str| {
        let of_publication = rows.iter().filter(|row| row.publication == name);
        let needed: Vec<f64> = of_publication.map(|row| row.needed()).collect();
        let rank = (INSIDE * needed.len() as f64).ceil();
        ranked(needed, rank)
    };
    let factors: Vec<f64> = publications(rows).into_iter().map(of_publication).collect();
    let rank = (INSIDE * (factors.len() + 1) as f64).ceil();
    if factors.is_empty() { f64::INFINITY } else { ranked(factors, rank) }
}

/// The value with this rank, from 1, or the largest.
fn ranked(mut values: Vec<f64>, rank: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(rank as usize).clamp(1, values.len()) - 1]
}
