//! The terse output of fio (--minimal, --output-format=terse), versions 3 to 5: a line of values separated
//! by semicolons for each job or group of jobs. Source: "Terse output" in fio's HOWTO, and the output of
//! 3.33.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use records::Better::{Higher, Lower, Neither};
use records::ReplicationUnit;

use crate::import::{File, Foreign, ForeignCell, ForeignRun, amount};

const LACKS: &[&str] = &[
    "one file is one run of each job: replication needs several files of each variant",
    "jobs of one file may have run at the same time, and then they depend on each other",
    "options, tasks, kernel, CPUs, file system and device are not recorded",
];

/// Values before those of the first direction.
const BEFORE: usize = 5;

/// Whether a text has a line of terse output.
pub fn recognise(text: &str) -> bool {
    text.lines().any(is_terse)
}

fn is_terse(line: &str) -> bool {
    let mut fields = line.split(';');
    let version = fields.next().is_some_and(|field| matches!(field, "2" | "3" | "4" | "5"));
    version && fields.next().is_some_and(|field| field.starts_with("fio-"))
}

/// Reads a run for each line.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("operations_per_s", ReplicationUnit::Run, LACKS);
    let lines = || file.text.lines().enumerate().filter(|(_, line)| is_terse(line));
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    for (index, line) in lines() {
        let mut run = read_line(&mut foreign, line, index + 1)?;
        let name = job_name(line);
        if lines().filter(|(_, other)| job_name(other) == name).count() > 1 {
            // Rates of jobs are not summed; only a group report has the group's rate.
            let number = numbers.entry(name).or_default();
            run.cell.parameters.insert("job_number".to_string(), number.to_string());
            *number += 1;
        }
        foreign.runs.push(run);
    }
    let in_all = |metric: &&&str| foreign.runs.iter().all(|run| run.values.contains_key(**metric));
    let rates = ["operations_per_s", "fio.write.iops", "fio.read.iops", "fio.trim.iops"];
    foreign.primary = rates.iter().find(in_all).unwrap_or(&rates[0]).to_string();
    Ok(foreign)
}

fn job_name(line: &str) -> &str {
    line.split(';').nth(2).unwrap_or_default()
}

fn read_line(foreign: &mut Foreign, line: &str, number: usize) -> Result<ForeignRun> {
    let fields: Vec<&str> = line.trim_end().split(';').collect();
    let (directions, per_direction) = match fields[0] {
        "3" => (&["read", "write"][..], 41),
        "4" => (&["read", "write", "trim"][..], 41),
        "5" => (&["read", "write", "trim"][..], 47),
        version => bail!("line {number}: terse version {version}: knee reads 3, 4 and 5"),
    };
    let after = BEFORE + directions.len() * per_direction;
    ensure!(
        fields.len() >= after + 5,
        "line {number}: {} values, expected at least {}; is the file truncated?",
        fields.len(),
        after + 5
    );
    let mut values = BTreeMap::new();
    let mut put = |name: String, unit: &str, better, text: &str, factor: f64| -> Result<()> {
        let value = amount(text.trim_end_matches('%'), number, &name)?;
        foreign.describe(&name, unit, better);
        values.extend(value.map(|value| (name, value * factor)));
        Ok(())
    };
    let used: Vec<usize> = (0..directions.len())
        .filter(|direction| fields[BEFORE + direction * per_direction].trim() != "0")
        .collect();
    for direction in &used {
        let of = |index: usize| fields[BEFORE + direction * per_direction + index];
        let name = |rest: &str| format!("fio.{}.{rest}", directions[*direction]);
        put(name("iops"), "1/s", Higher, of(2), 1.0)?;
        put(name("bytes_per_s"), "B/s", Higher, of(1), 1024.0)?;
        // Without latencies (disable_lat), fio writes zeros.
        let latencies = [(33, "max"), (34, "mean"), (35, "stddev")];
        for (index, what) in latencies.into_iter().filter(|_| of(33) != "0") {
            put(name(&format!("latency_{what}_ns")), "ns", Lower, of(index), 1000.0)?;
        }
        for percentile in (12..32).map(of) {
            let kinds = [("50.000000%", "p50"), ("99.000000%", "p99"), ("99.900000%", "p999")];
            let Some((share, value)) = percentile.split_once('=') else { continue };
            let Some((_, short)) = kinds.iter().find(|(kind, _)| *kind == share) else { continue };
            put(name(&format!("completion_{short}_ns")), "ns", Lower, value, 1000.0)?;
        }
        // The rate of a single direction is that of all operations.
        if used.len() == 1 {
            put("operations_per_s".to_string(), "1/s", Higher, of(2), 1.0)?;
        }
    }
    let rest = ["fio.user_percent", "fio.system_percent", "fio.context_switches"];
    for (index, name) in rest.iter().enumerate() {
        let unit = if name.ends_with("percent") { "%" } else { "1" };
        put(name.to_string(), unit, Neither, fields[after + index], 1.0)?;
    }
    put("time.major_page_faults".to_string(), "1", Neither, fields[after + 3], 1.0)?;
    put("time.minor_page_faults".to_string(), "1", Neither, fields[after + 4], 1.0)?;
    let error = amount(fields[4], number, "the error")?.filter(|code| *code != 0.0);
    Ok(ForeignRun {
        cell: ForeignCell::new(format!("fio.{}", job_name(line))),
        options: BTreeMap::from([("version".to_string(), fields[1].to_string())]),
        values,
        failed: error.map(|code| format!("fio reports error {code} for the job")),
        ..ForeignRun::default()
    })
}
