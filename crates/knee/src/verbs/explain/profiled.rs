//! Records with their profiles: the parts of pages about them, and their published values.

use analysis::{Arm, match_points};
use answers::{LedgerDifference, Ledgers};
use anyhow::{Error, Result};
use explanations::ledger::{
    LedgerPart, LedgerSide, difference_part, explained_part, growth_part, unit_of_work,
};
use ledger::{Explained, answer, explain};
use records::{Opened, Point, Profile};
use text::prose::counted;

use super::samples::{ProfiledPoint, flame};
use super::source_lines;
use crate::named::NamedRecords;

/// Records with the profiles of their runs.
pub struct ProfiledRecords<'a> {
    named: &'a NamedRecords,
    /// For each record.
    profiles: Vec<Vec<Profile>>,
}

impl<'a> ProfiledRecords<'a> {
    /// Reads the profiles.
    pub fn read(named: &'a NamedRecords) -> Result<ProfiledRecords<'a>> {
        let profiles = named.records.iter().map(store::profiles).collect::<Result<_>>()?;
        Ok(ProfiledRecords { named, profiles })
    }

    /// Whether no run was profiled.
    pub fn is_empty(&self) -> bool {
        self.profiles.iter().all(Vec::is_empty)
    }

    /// What a page about them is called: the names of their experiments.
    pub fn title(&self) -> String {
        let names = self.named.records.iter().map(|record| &record.record.experiment.name);
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.dedup();
        names.join(", ")
    }

    /// Whether there are several variants to compare.
    pub fn is_compared(&self) -> bool {
        self.named.arms().len() > 1
    }

    /// All points of all records.
    pub fn points(&self) -> Vec<ProfiledPoint<'_>> {
        let points = self.named.records.iter().flat_map(|record| {
            (0..record.record.points.len()).map(|point| self.point(record, point))
        });
        points.collect()
    }

    /// The baseline with each other variant, for every point that they share.
    pub fn pairs(&self, force: bool) -> Result<Vec<[ProfiledPoint<'_>; 2]>> {
        let profiled = |(record, point): (&Opened, usize)| self.point(record, point);
        let mut pairs = Vec::new();
        for cell in match_points(&self.named.arms(), force).map_err(Error::msg)? {
            pairs.extend(cell[1..].iter().map(|other| [profiled(cell[0]), profiled(*other)]));
        }
        Ok(pairs)
    }

    /// Divides the time of all points among the rows of their ledgers.
    pub fn explained(&'a self) -> ExplainedRecords<'a> {
        let of_record = |(record, profiles): (&Opened, &Vec<Profile>)| {
            let points = 0..record.record.points.len();
            points.map(|point| explain(record, profiles, point)).collect()
        };
        let records = self.named.records.iter();
        let mut explained: Vec<Vec<Explained>> =
            records.zip(&self.profiles).map(of_record).collect();
        source_lines::add(&mut explained);
        ExplainedRecords { profiled: self, arms: self.named.arms(), explained }
    }

    fn index(&self, record: &Opened) -> usize {
        self.named.records.iter().position(|one| std::ptr::eq(one, record)).unwrap_or(0)
    }

    fn point(&self, record: &Opened, point: usize) -> ProfiledPoint<'_> {
        let index = self.index(record);
        ProfiledPoint::new(&self.named.records[index], &self.profiles[index], point)
    }
}

/// Records with their points explained.
pub struct ExplainedRecords<'a> {
    profiled: &'a ProfiledRecords<'a>,
    arms: Vec<Arm<'a>>,
    /// The points of each record.
    explained: Vec<Vec<Explained>>,
}

impl ExplainedRecords<'_> {
    /// What a page about them is called.
    pub fn title(&self) -> String {
        self.profiled.title()
    }

    /// Whether there are several variants to compare.
    pub fn is_compared(&self) -> bool {
        self.arms.len() > 1
    }

    /// Whether profiling cost so much that a ledger, or the answer about two, is refused.
    pub fn is_refused(&self) -> Result<bool> {
        if !self.is_compared() {
            let mut points = self.explained.iter().flatten();
            return Ok(points.any(|explained| explained.refused().is_some()));
        }
        let pairs = self.pairs(false)?;
        let answers = pairs.iter().filter_map(|(a, b)| answer(a.explained, b.explained, false));
        Ok(answers.into_iter().any(|answer| answer.refused))
    }

    /// The ledgers of all points, and the changes between variants.
    pub fn value(&self, force: bool) -> Result<Ledgers<'_>> {
        let differences = self.pairs(force)?.into_iter().filter_map(|(before, after)| {
            let per = unit_of_work(&after);
            let (before, after) = ((before.name, before.explained), (after.name, after.explained));
            LedgerDifference::new(before, after, per.to_string(), force)
        });
        let differences = differences.collect();
        Ok(Ledgers { points: self.explained.iter().flatten().collect(), differences })
    }

    /// The ledger of each point. With `has_flames`, the stacks of each are beside it.
    pub fn points(&self, force: bool, has_flames: bool) -> Vec<LedgerPart> {
        let part = |(record, one): (&Opened, &Explained)| {
            let point = || ("CPU time".to_string(), self.profiled.point(record, one.point));
            let flame = has_flames.then(|| flame(&[point()])).flatten();
            LedgerPart { flame, ..explained_part(record, one, force) }
        };
        let records = self.profiled.named.records.iter().zip(&self.explained);
        let points = records.flat_map(|(record, all)| all.iter().map(move |one| (record, one)));
        points.map(part).collect()
    }

    /// The first variant against each other one, point by point, those with most CPUs first.
    pub fn differences(&self, force: bool, has_flames: bool) -> Result<Vec<LedgerPart>> {
        let mut pairs = self.pairs(force)?;
        let cpus = |side: &LedgerSide| side.record.record.points[side.explained.point].cpus;
        pairs.sort_by_key(|(_, after)| std::cmp::Reverse(cpus(after)));
        let part = |(before, after): (LedgerSide, LedgerSide)| {
            let point = |side: &LedgerSide| {
                let point = self.profiled.point(side.record, side.explained.point);
                (side.name.to_string(), point)
            };
            let flame = has_flames.then(|| flame(&[point(&before), point(&after)])).flatten();
            LedgerPart { flame, ..difference_part(&before, &after, force) }
        };
        Ok(pairs.into_iter().map(part).collect())
    }

    /// For each load, how its rows grow with the number of CPUs.
    pub fn growths(&self, force: bool, has_flames: bool) -> Vec<LedgerPart> {
        let part = |(record, mut same): (&Opened, Vec<&Explained>)| {
            let cpus = |one: &Explained| record.record.points[one.point].cpus;
            same.sort_by_key(|one| cpus(one));
            let point = |one: &&Explained| {
                let cpus = counted(cpus(one) as usize, "CPU");
                (cpus, self.profiled.point(record, one.point))
            };
            let points = || same.iter().map(point).collect::<Vec<_>>();
            let flame = has_flames.then(|| flame(&points())).flatten();
            LedgerPart { flame, ..growth_part(record, &same, force) }
        };
        self.over_cpus().into_iter().map(part).collect()
    }

    /// The points of each load, which differ only in their CPUs.
    fn over_cpus(&self) -> Vec<(&Opened, Vec<&Explained>)> {
        let mut loads = Vec::new();
        for (record, explained) in self.profiled.named.records.iter().zip(&self.explained) {
            let points = &record.record.points;
            let mut left: Vec<&Explained> = explained.iter().collect();
            while let Some(first) = left.first().map(|e| &points[e.point]) {
                let (same, rest) =
                    left.into_iter().partition(|e| differ_in_cpus_alone(first, &points[e.point]));
                left = rest;
                loads.push((record, same));
            }
        }
        loads
    }

    /// The baseline paired with each other variant, for every point that they share; empty if there
    /// is only one variant.
    fn pairs(&self, force: bool) -> Result<Vec<(LedgerSide<'_>, LedgerSide<'_>)>> {
        if !self.is_compared() {
            return Ok(Vec::new());
        }
        let mut pairs = Vec::new();
        for cell in match_points(&self.arms, force).map_err(Error::msg)? {
            let side = |at: usize| {
                let (record, point) = cell[at];
                let index = self.profiled.index(record);
                let record = &self.profiled.named.records[index];
                let explained = &self.explained[index][point];
                LedgerSide { name: self.arms[at].name, record, explained }
            };
            pairs.extend((1..self.arms.len()).map(|other| (side(0), side(other))));
        }
        Ok(pairs)
    }
}

/// Whether two points are the same load at different CPU counts, with equal numbers of tasks or
/// of tasks per CPU.
fn differ_in_cpus_alone(a: &Point, b: &Point) -> bool {
    let load =
        |point: &Point| Point { cpus: 0, cpu_list: vec![], tasks: 0, cell: None, ..point.clone() };
    let per_cpu = |tasks: &Point, cpus: &Point| u64::from(tasks.tasks) * u64::from(cpus.cpus);
    load(a) == load(b) && (a.tasks == b.tasks || per_cpu(a, b) == per_cpu(b, a))
}
