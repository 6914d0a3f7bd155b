//! Algorithms against the baseline: which is faster, where that cannot be told, and which assumption decides.

use answers::{DecidingInput, SimulatedClass, SimulatedRatio};
use anyhow::Result;
use host::in_parallel;
use studies::Subject;
use studies::domain::{Class, ClassGrade, ComparedSide, grades};
use studies::simulations::decided::{Compared, DecidingNumber};
use studies::simulations::{Conditions, LockLoad, RateRatio, SimulatedCurve, SimulatedPoint};
use text::prose::counted;

/// With more algorithms against the baseline it is not simulated which assumption decides.
const DECIDED_MAX: usize = 3;

/// An algorithm against the baseline.
pub struct Comparison {
    /// The algorithm.
    pub name: String,
    /// The ratio at each number of CPUs.
    pub points: Vec<ComparedPoint>,
    /// The host's numbers that move the ratio at the most CPUs most; `None` where that was not simulated.
    pub decided: Option<Vec<DecidingNumber>>,
}

/// The ratio at one number of CPUs.
pub struct ComparedPoint {
    pub cpus: usize,
    pub ratio: RateRatio,
    pub class: Class,
    pub grade: ClassGrade,
}

impl ComparedPoint {
    fn new(
        points: [&SimulatedPoint; 2],
        subjects: [&Subject; 2],
        load: &LockLoad,
    ) -> ComparedPoint {
        let tasks = points[0].tasks;
        let sides = subjects.map(|subject| ComparedSide::new(subject, load, tasks));
        let class = Class::of([&sides[0], &sides[1]]);
        ComparedPoint {
            cpus: points[0].cpus,
            ratio: points[0].ratio_to(points[1]),
            class,
            grade: grades().of(class),
        }
    }

    /// The ratio with the model's error.
    pub fn widened(&self) -> RateRatio {
        self.ratio.widened(self.grade.factor)
    }

    /// `faster`, `slower` or `cannot tell`.
    pub fn direction(&self) -> &'static str {
        match self.widened() {
            RateRatio { low, .. } if low > 1.0 => "faster",
            RateRatio { high, .. } if high < 1.0 => "slower",
            _ => "cannot tell",
        }
    }

    /// The ratio for a program.
    pub fn answer(&self, decided: Option<&[DecidingNumber]>) -> SimulatedRatio {
        let RateRatio { middle, low, high } = self.ratio;
        let widened = self.widened();
        let ClassGrade { rows, publications, dared, right, inside, factor, is_pooled, .. } =
            self.grade;
        SimulatedRatio {
            middle,
            lowest: low,
            highest: high,
            lowest_with_model_error: widened.low,
            highest_with_model_error: widened.high,
            direction: self.direction(),
            class: SimulatedClass {
                name: self.class.name(),
                rows,
                publications,
                dared,
                right,
                inside,
                factor,
                of_all_classes: is_pooled,
            },
            decided_by: decided.map(|numbers| numbers.iter().map(deciding_input).collect()),
        }
    }
}

fn deciding_input(number: &DecidingNumber) -> DecidingInput {
    DecidingInput {
        name: number.name.clone(),
        range: number.text.clone(),
        origin: number.origin,
        at_lowest: number.at_low,
        at_highest: number.at_high,
        lowest_if_measured: number.measured.low,
        highest_if_measured: number.measured.high,
    }
}

/// Compares all curves with that of the baseline, and simulates which assumption decides at the most CPUs.
///
/// # Errors
/// A simulation failed.
pub fn compare(
    curves: &[SimulatedCurve],
    subjects: &[Subject],
    baseline: &str,
    load: LockLoad,
    conditions: &Conditions,
) -> Result<Vec<Comparison>> {
    let position = curves.iter().position(|curve| curve.name == baseline);
    let Some(at) = position else { return Ok(Vec::new()) };
    let others: Vec<usize> = (0..curves.len()).filter(|index| *index != at).collect();
    let decides = conditions.draws > 0 && others.len() <= DECIDED_MAX;
    let compared = in_parallel(others.len(), |part| {
        let (curve, subjects) = (&curves[others[part]], [&subjects[others[part]], &subjects[at]]);
        let points = curve.points.iter().zip(&curves[at].points);
        let points: Vec<ComparedPoint> =
            points.map(|(one, base)| ComparedPoint::new([one, base], subjects, &load)).collect();
        let decided = match curve.points.last().filter(|_| decides) {
            None => None,
            Some(&SimulatedPoint { cpus, tasks, .. }) => {
                Some(Compared { subjects, load, conditions, cpus, tasks }.decided()?)
            }
        };
        Ok(Comparison { name: curve.name.clone(), points, decided })
    });
    compared.into_iter().collect()
}

impl Comparison {
    /// What there is to say, a sentence each.
    pub fn sentences(&self, baseline: &str) -> Vec<String> {
        let mut sentences = vec![self.directions(baseline)];
        let Some(last) = self.points.last() else { return sentences };
        sentences.push(both_intervals(&self.name, baseline, last));
        if let Some(decided) = &self.decided {
            sentences.extend(deciding(&self.name, last, decided));
        }
        sentences
    }

    /// "cna: faster than mcs at 32, 64 CPUs; cannot tell at 1, 2, 4 CPUs".
    fn directions(&self, baseline: &str) -> String {
        let at = |direction: &str| {
            let points = self.points.iter().filter(|point| point.direction() == direction);
            points.map(|point| point.cpus.to_string()).collect::<Vec<_>>()
        };
        let cpus = |counts: &[String]| {
            let unit = if counts == ["1"] { "CPU" } else { "CPUs" };
            format!("{} {unit}", counts.join(", "))
        };
        let clear = ["faster", "slower"].map(|how| (how, at(how)));
        let clear = clear.iter().filter(|(_, counts)| !counts.is_empty());
        let clear: Vec<String> = clear
            .map(|(how, counts)| format!("{how} than {baseline} at {}", cpus(counts)))
            .collect();
        let unclear = at("cannot tell");
        let name = &self.name;
        match (&clear[..], &unclear[..]) {
            ([], unclear) => {
                format!(
                    "{name}: cannot tell whether it is faster than {baseline} at {}",
                    cpus(unclear)
                )
            }
            (clear, []) => format!("{name}: {}", clear.join(", and ")),
            (clear, unclear) => {
                format!("{name}: {}; cannot tell at {}", clear.join(", and "), cpus(unclear))
            }
        }
    }
}

/// "cna / mcs at 72 CPUs: 1.83 (1.50..2.40 by the host's ranges; 1.20..2.90 with the model's error on …)".
fn both_intervals(name: &str, baseline: &str, point: &ComparedPoint) -> String {
    let ComparedPoint { cpus, ratio, class, grade, .. } = point;
    let widened = point.widened();
    let tables = if grade.is_pooled {
        format!("tables of other kinds: none is of {}", class.name())
    } else {
        format!(
            "outside tables of {}: {}, {} of {} directions right",
            class.name(),
            counted(grade.rows, "row"),
            grade.right,
            grade.dared
        )
    };
    format!(
        "{name} / {baseline} at {}: {:.2} ({:.2}..{:.2} by the host's ranges; {:.2}..{:.2} with the model's error on \
         {tables})",
        counted(*cpus, "CPU"),
        ratio.middle,
        ratio.low,
        ratio.high,
        widened.low,
        widened.high
    )
}

/// A sentence for each number that decides, or one that says that none does.
fn deciding(name: &str, point: &ComparedPoint, decided: &[DecidingNumber]) -> Vec<String> {
    let RateRatio { middle, .. } = point.ratio;
    if decided.is_empty() {
        return vec![format!(
            "{name}: no range of the host alone moves {middle:.2} by more than chance does"
        )];
    }
    let sentence = |number: &DecidingNumber| {
        let DecidingNumber { name: number, text, origin, at_low, at_high, measured } = number;
        let number = number.strip_prefix("costs.").unwrap_or(number);
        format!(
            "{name}: decided by {number} ({text}, {origin}): alone it moves {middle:.2} from {at_low:.2} to {at_high:.2}; \
             measured, the interval would be {:.2}..{:.2}",
            measured.low, measured.high
        )
    };
    let crosses = |number: &DecidingNumber| (number.at_low > 1.0) != (number.at_high > 1.0);
    let stays = point.ratio.is_clear() && !decided.iter().any(crosses);
    let stays = stays.then(|| format!("{name}: none of the host's ranges alone moves it across 1"));
    decided.iter().map(sentence).chain(stays).collect()
}

/// The curves of which each may be the fastest at the most CPUs, by the host's ranges and the model's error. The first has
/// the highest simulated rate.
pub fn fastest<'a>(
    curves: &'a [SimulatedCurve],
    subjects: &[Subject],
    load: &LockLoad,
) -> Vec<(&'a SimulatedCurve, &'a SimulatedPoint)> {
    let last = curves.iter().zip(subjects);
    let mut last: Vec<_> =
        last.filter_map(|(one, subject)| Some((one, one.points.last()?, subject))).collect();
    last.sort_by(|a, b| b.1.middle.rate().total_cmp(&a.1.middle.rate()));
    let Some(&(_, best, best_subject)) = last.first() else { return Vec::new() };
    let may_be = |&(_, point, subject): &(&SimulatedCurve, &SimulatedPoint, &Subject)| {
        let compared = ComparedPoint::new([point, best], [subject, best_subject], load);
        compared.direction() == "cannot tell"
    };
    let (first, others) = last.split_at(1);
    let others = others.iter().filter(|one| may_be(one));
    first.iter().chain(others).map(|&(one, point, _)| (one, point)).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn point(cpus: usize, [middle, low, high]: [f64; 3], rows: usize) -> ComparedPoint {
        let grade = ClassGrade {
            rows,
            publications: rows,
            dared: 4,
            right: 3,
            inside: 0,
            inside_widened: 0,
            factor: 1.5,
            is_pooled: rows == 0,
        };
        let class = if rows == 0 { Class::Own } else { Class::Queues };
        ComparedPoint { cpus, ratio: RateRatio { middle, low, high }, class, grade }
    }

    fn keep(at_low: f64, at_high: f64) -> DecidingNumber {
        let measured = RateRatio { middle: 2.0, low: 1.9, high: 2.1 };
        let (name, text) = ("costs.keep".to_string(), "0.05..0.3".to_string());
        DecidingNumber { name, text, origin: "assumed", at_low, at_high, measured }
    }

    #[track_caller]
    fn check(points: Vec<ComparedPoint>, decided: Option<Vec<DecidingNumber>>, expected: Expect) {
        let comparison = Comparison { name: "cna".to_string(), points, decided };
        expected.assert_eq(&(comparison.sentences("mcs").join("\n") + "\n"));
    }

    #[test]
    fn a_direction_is_named_only_where_the_models_error_leaves_one() {
        let ends = [point(1, [1.0, 0.9, 1.1], 9), point(8, [2.0, 1.6, 2.4], 9)];
        check(
            ends.into(),
            Some(vec![keep(1.6, 2.4)]),
            expect![[r#"
                cna: faster than mcs at 8 CPUs; cannot tell at 1 CPU
                cna / mcs at 8 CPUs: 2.00 (1.60..2.40 by the host's ranges; 1.07..3.60 with the model's error on outside tables of queue locks: 9 rows, 3 of 4 directions right)
                cna: decided by keep (0.05..0.3, assumed): alone it moves 2.00 from 1.60 to 2.40; measured, the interval would be 1.90..2.10
                cna: none of the host's ranges alone moves it across 1
            "#]],
        );
        // All draws are above 1, and the model's error reaches below.
        check(
            vec![point(8, [1.6, 1.4, 1.8], 9)],
            Some(Vec::new()),
            expect![[r#"
                cna: cannot tell whether it is faster than mcs at 8 CPUs
                cna / mcs at 8 CPUs: 1.60 (1.40..1.80 by the host's ranges; 0.93..2.70 with the model's error on outside tables of queue locks: 9 rows, 3 of 4 directions right)
                cna: no range of the host alone moves 1.60 by more than chance does
            "#]],
        );
        check(
            vec![point(8, [0.5, 0.4, 0.6], 0)],
            None,
            expect![[r#"
                cna: slower than mcs at 8 CPUs
                cna / mcs at 8 CPUs: 0.50 (0.40..0.60 by the host's ranges; 0.27..0.90 with the model's error on tables of other kinds: none is of own code)
            "#]],
        );
    }
}
