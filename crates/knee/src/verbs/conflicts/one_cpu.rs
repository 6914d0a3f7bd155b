//! The rate of one CPU, from the command line or a record: times the CPUs, it meets the rate at which more of them stop to
//! help.

use std::collections::BTreeMap;

use answers::{Conflicts, RATE};
use anyhow::{Context, Result, bail, ensure};
use records::parse;
use store::Store;

use super::super::find::find;
use super::{Arguments, Operation};

/// Rates of one CPU by operation, and where they come from.
#[derive(Default)]
pub struct OneCpu {
    rates: BTreeMap<String, f64>,
    /// The rate of any operation.
    given: Option<f64>,
    from: String,
}

/// Parses a rate of operations a second: 850000, 1.2M, 1.2M/s.
pub fn rate(text: &str) -> Result<f64> {
    let rate = parse::number(text).filter(|rate| *rate > 0.0);
    rate.context("must be operations a second above 0, such as 850000, 1.2M or 1.2M/s")
}

/// The id of a record, and its rates of one CPU by workload.
pub fn rates_of_one_cpu(which: &str, store: &Store) -> Result<(String, BTreeMap<String, f64>)> {
    let record = store::open(&find(which, store)?)?;
    let mut rates = BTreeMap::new();
    for curve in analysis::curves(&record) {
        let one = curve.cells.iter().find(|cell| cell.point.cpus == 1 && cell.point.tasks == 1);
        let rate = one.and_then(|cell| cell.spread(RATE)).map(|spread| spread.mean);
        if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
            rates.entry(curve.point.workload.clone()).or_insert(rate);
        }
    }
    Ok((record.record.id, rates))
}

impl OneCpu {
    /// The rate that --rate gives.
    pub fn given(rate: Option<f64>) -> OneCpu {
        OneCpu { given: rate, from: "--rate".to_string(), ..OneCpu::default() }
    }

    /// What --rate and --record say about these operations.
    pub fn find(arguments: &Arguments, operations: &[Operation], store: &Store) -> Result<OneCpu> {
        let Some(which) = &arguments.record else {
            ensure!(
                arguments.rate.is_none() || operations.len() == 1,
                "--rate is of one operation, and {} are traced: name a --record that has them",
                operations.len()
            );
            return Ok(OneCpu::given(arguments.rate));
        };
        let (id, rates) = rates_of_one_cpu(which, store)?;
        if let Some(missing) = operations.iter().find(|one| !rates.contains_key(&one.name)) {
            let name = &missing.name;
            bail!("{id} has no rate of {name} on one CPU: run `knee run {name} --cpus 1..all`");
        }
        Ok(OneCpu { rates, given: None, from: format!("record {id}") })
    }

    /// Says of an operation's ceilings where its rate on one CPU, times the CPUs, meets them.
    pub fn meet(&self, traced: &mut Conflicts) {
        let rate = self.given.or_else(|| self.rates.get(&traced.operation).copied());
        if let Some(rate) = rate {
            traced.ceilings.iter_mut().for_each(|ceiling| ceiling.met_from(rate, &self.from));
        }
    }
}
