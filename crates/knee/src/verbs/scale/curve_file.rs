//! A curve in a file: a line for each number of CPUs, or of what the first heading names, with rates behind it. Rates are
//! per second unless the heading of their column says otherwise: `ops/ms`.

use std::path::Path;

use analysis::Axis;
use anyhow::{Context, Result, bail, ensure};
use host::{Limit, given_file, unknown_of};
use records::parse::number as number_in;
use text::quantity::seconds_in;

const LIMIT: Limit = Limit { bytes: 64 << 20, what: "a curve" };

/// Whether a path names such a file, and no record.
pub fn is_one(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["csv", "tsv", "dat", "txt"].iter().any(|known| extension == *known)
}

/// Rates by their place on an axis.
type RatesByPlace = Vec<(u32, Vec<f64>)>;

/// Reads a file with columns separated by tabs, semicolons, commas or blanks. Lines that begin with `#` do not count. Without
/// `columns` all columns but the first are runs.
pub fn read(path: &Path, columns: &[String]) -> Result<(Axis, RatesByPlace)> {
    let text = given_file::read_text(path, LIMIT)?;
    parse(&text, columns).with_context(|| format!("reading {}", path.display()))
}

fn parse(text: &str, columns: &[String]) -> Result<(Axis, RatesByPlace)> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let mut lines = lines.map(|(number, line)| (number + 1, words(line.trim()))).peekable();
    let (_, first) = lines.peek().context("it is empty")?;
    let has_header = number_in(&first[0]).is_none();
    let mut axis = Axis::default();
    let used: Vec<Column> = if has_header {
        let (_, header) = lines.next().context("it is empty")?;
        axis = axis_of(&header[0]);
        used_columns(&header, columns)?
    } else {
        ensure!(columns.is_empty(), "--rate names columns, and the file has no header with names");
        (1..first.len()).map(|index| Column { index, per_s: 1.0 }).collect()
    };
    let mut runs = Vec::new();
    for (number, words) in lines {
        let at = number_in(&words[0]).filter(|at| at.fract() == 0.0 && (0.0..=4e9).contains(at));
        let what = axis.name();
        let cpus = at.with_context(|| {
            format!("line {number}: {:?} is not a whole number of {what}", words[0])
        })? as u32;
        let rate = |column: &Column| -> Result<Option<f64>> {
            let Some(word) = words.get(column.index).filter(|word| !word.is_empty()) else {
                return Ok(None);
            };
            let value = number_in(word).with_context(|| {
                format!("line {number}: {word:?} is not a rate: write a number alone, such as 1500")
            })?;
            Ok(Some(value * column.per_s))
        };
        let rates = used.iter().filter_map(|column| rate(column).transpose());
        let rates = rates.collect::<Result<Vec<f64>>>()?;
        ensure!(!rates.is_empty(), "line {number}: it has no rate");
        runs.push((cpus, rates));
    }
    Ok((axis, runs))
}

/// What the first column runs over. `n` and the like say nothing, so it is CPUs.
fn axis_of(heading: &str) -> Axis {
    let word = heading.trim().trim_start_matches('#').trim();
    let is_cpus = ["cpu", "cpus", "cores", "core", "ncpus", "ncpu"];
    let is_known = word.chars().count() > 1 && !is_cpus.contains(&&word.to_lowercase()[..]);
    if is_known { Axis::new(word) } else { Axis::default() }
}

/// The words of a line: behind tabs or semicolons, between commas outside of quotes, or between blanks.
fn words(line: &str) -> Vec<String> {
    let separator = ['\t', ';', ','].into_iter().find(|separator| line.contains(*separator));
    let Some(separator) = separator else {
        return line.split_whitespace().map(str::to_string).collect();
    };
    let mut is_quoted = false;
    let is_end = |letter: char| {
        is_quoted ^= letter == '"';
        letter == separator && !is_quoted
    };
    line.split(is_end).map(|word| word.trim().trim_matches('"').to_string()).collect()
}

/// A column with rates.
struct Column {
    index: usize,
    /// What a rate of 1 in it is per second.
    per_s: f64,
}

/// The columns that a user named, or the only one.
fn used_columns(header: &[String], columns: &[String]) -> Result<Vec<Column>> {
    let names = &header[1..];
    if columns.is_empty() {
        ensure!(!names.is_empty(), "it has one column: a curve needs numbers of CPUs and rates");
        ensure!(
            names.len() == 1,
            "it has the columns {}: name those with the rate by --rate",
            names.join(", ")
        );
        return Ok(vec![Column { index: 1, per_s: per_s(&names[0])? }]);
    }
    let column = |column: &String| match header.iter().position(|name| name == column) {
        Some(index) if index > 0 => Ok(Column { index, per_s: per_s(column)? }),
        _ => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            bail!("{}", unknown_of("column", column, &names))
        }
    };
    columns.iter().map(column).collect()
}

/// What a rate of 1 is per second where the heading of its column gives the unit: `ops/ms`, `ops per min`, `Mops/s`. An
/// error if the column has times.
fn per_s(heading: &str) -> Result<f64> {
    let operations = heading.split([' ', '/', '_', '(', '[']).find_map(|word| {
        let rest =
            word.trim_end_matches([')', ']']).strip_suffix("ops").or(word.strip_suffix("op"))?;
        ["k", "K", "M", "G"].contains(&rest).then(|| number_in(&format!("1{rest}")))?
    });
    Ok(operations.unwrap_or(1.0) * time_per_s(heading)?)
}

/// The part of the unit that is a time: 1000 for `ops/ms`.
fn time_per_s(heading: &str) -> Result<f64> {
    let heading = heading.trim_end_matches([')', ']']);
    let (what, unit) = heading
        .rsplit_once('/')
        .or_else(|| heading.rsplit_once("per "))
        .or_else(|| heading.rsplit_once("per_"))
        .map_or_else(
            || ("", heading.rsplit([' ', '_', '(', '[']).next().unwrap_or_default()),
            |(what, unit)| (what, unit.trim()),
        );
    let Some(seconds) = seconds_in(unit) else { return Ok(1.0) };
    // `ops_min` is a minimum.
    let is_time = what.is_empty() && seconds <= 1.0;
    ensure!(!is_time, "the column {heading} has times: a curve needs operations per second");
    Ok(if what.is_empty() { 1.0 } else { 1.0 / seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, columns: &[&str], expected: Result<&[(u32, &[f64])], &str>) {
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let found =
            parse(text, &columns).map(|(_, runs)| runs).map_err(|error| format!("{error:#}"));
        let expected = expected.map(|runs| runs.iter().map(|(n, r)| (*n, r.to_vec())).collect());
        assert_eq!(found, expected.map_err(ToString::to_string), "{text}");
    }

    #[test]
    fn files_are_read_with_and_without_a_header() {
        check("1 10\n2 19.5\n", &[], Ok(&[(1, &[10.0]), (2, &[19.5])]));
        check("\u{feff}1   10\n 16  110\n", &[], Ok(&[(1, &[10.0]), (16, &[110.0])]));
        check(
            "1;10,5\n",
            &[],
            Err("line 1: \"10,5\" is not a rate: write a number alone, such as 1500"),
        );
        check("# x\n1,10,11\n\n2,20,\n", &[], Ok(&[(1, &[10.0, 11.0]), (2, &[20.0])]));
        check("cpus,rate\n1,10\n", &[], Ok(&[(1, &[10.0])]));
        let will_it_scale = "tasks,processes,threads\n0,0,0\n1,5,6\n";
        check(will_it_scale, &["threads"], Ok(&[(0, &[0.0]), (1, &[6.0])]));
        check(
            will_it_scale,
            &[],
            Err("it has the columns processes, threads: name those with the rate by --rate"),
        );
        check(
            will_it_scale,
            &["thread"],
            Err(
                "no column is called \"thread\"; did you mean \"threads\"? There are processes and threads",
            ),
        );
        check("1 x\n", &[], Err("line 1: \"x\" is not a rate: write a number alone, such as 1500"));
        check("a b\nx 1\n", &[], Err("line 2: \"x\" is not a whole number of CPUs"));
        check("threads\ttps\n1\t650\n2\t1241\n", &[], Ok(&[(1, &[650.0]), (2, &[1241.0])]));
        let quoted = "threads,tps\n1,\"1,650\"\n16,\"18,051.5\"\n";
        check(quoted, &[], Ok(&[(1, &[1650.0]), (16, &[18051.5])]));
        check("1 1.5k\n2 2M\n", &[], Ok(&[(1, &[1500.0]), (2, &[2e6])]));
        check("cpus,Mops/s\n1,2\n", &[], Ok(&[(1, &[2e6])]));
        check("n;rate (kops/ms)\n1;2\n", &[], Ok(&[(1, &[2e6])]));
        check("", &[], Err("it is empty"));
        check("x\n1\n", &[], Err("it has one column: a curve needs numbers of CPUs and rates"));
        check("cpus,ops/ms\n1,2\n", &[], Ok(&[(1, &[2000.0])]));
        check("n;a [ops per min];b (ops/s)\n1;60;2\n", &["a [ops per min]"], Ok(&[(1, &[1.0])]));
        check("cpus,ops_min\n1,2\n", &["ops_min"], Ok(&[(1, &[2.0])]));
        let axis = |text: &str| parse(text, &[]).unwrap().0.name().to_string();
        assert_eq!(axis("threads,tps\n1,2\n"), "threads");
        assert_eq!((axis("1,2\n"), axis("n,rate\n1,2\n")), ("CPUs".into(), "CPUs".into()));
        let grouped = "clients\tMops\n\"1,024\"\t3\n";
        check(grouped, &[], Ok(&[(1024, &[3e6])]));
        let times = "the column elapsed_ms has times: a curve needs operations per second";
        check("cpus,elapsed_ms\n1,2\n", &[], Err(times));
        check("1 2\n", &["x"], Err("--rate names columns, and the file has no header with names"));
    }
}
