//! What was said against what is true.

use serde_json::Value;

use super::answer::Answer;
use super::pair::{How, Pair, Size, Truth};

/// The judgement of one pair.
pub struct Verdict {
    name: String,
    /// What was named first, and how it is said to have changed.
    said: String,
    /// Size told and size in clean runs.
    size: String,
    /// What is wrong with it; empty where nothing is.
    misses: Vec<String>,
    /// Whether the planted cause was named first; nothing where none was planted.
    pub first_right: Option<bool>,
    /// Whether count or cost is right, of right causes of which one of them is true.
    pub how_right: Option<bool>,
    /// Whether the size is, of right causes whose size is known.
    pub size_right: Option<bool>,
    /// Whether knee refused to answer.
    pub refused: bool,
    /// Causes named where there are none.
    pub invented: usize,
    /// Differences of equals.
    pub equal: usize,
}

/// How far a size may be from that of clean runs.
const SIZE_MAX: f64 = 0.10;
/// How far the told change of the tasks' CPU time may be from that of clean runs, where a pair is drawn.
const SIZE_OF_DRAWN_MAX: f64 = 0.15;
/// How far a count may be from the true one.
const RATIO_MAX: f64 = 0.02;

impl Verdict {
    fn new(pair: &Pair) -> Verdict {
        Verdict {
            name: pair.name.clone(),
            said: String::new(),
            size: String::new(),
            misses: Vec::new(),
            first_right: None,
            how_right: None,
            size_right: None,
            refused: false,
            invented: 0,
            equal: 0,
        }
    }

    /// The verdict on a pair that could not be measured: a miss.
    pub fn failed(pair: &Pair, why: &anyhow::Error) -> Verdict {
        let mut verdict = Verdict::new(pair);
        verdict.misses.push(format!("{why:#}").replace(['\n', '|'], " "));
        verdict.first_right = (pair.same == 0).then_some(false);
        verdict
    }

    /// The verdict on what knee answered.
    pub fn of(pair: &Pair, answers: &[Answer]) -> Verdict {
        let mut verdict = Verdict::new(pair);
        match pair.same {
            0 => verdict.judge(pair, &answers[0]),
            _ => verdict.count_invented(pair, answers),
        }
        verdict.refused = answers.iter().any(|answer| answer.refused);
        if verdict.refused {
            verdict.misses.push("refused".to_string());
        }
        verdict
    }

    fn count_invented(&mut self, pair: &Pair, answers: &[Answer]) {
        self.equal = answers.len();
        let invented: Vec<String> =
            answers.iter().flat_map(|answer| &answer.causes).map(|c| described(c, pair)).collect();
        self.invented = invented.len();
        self.said = format!("{} causes in {} differences", invented.len(), answers.len());
        self.misses.extend(invented.into_iter().map(|cause| format!("invented: {cause}")));
    }

    fn judge(&mut self, pair: &Pair, answer: &Answer) {
        let Some(first) = answer.causes.first() else {
            self.said = "no cause".to_string();
            self.first_right = Some(false);
            return self.misses.push(format!("not seen: {}", pair.causes[0].row));
        };
        self.said = described(first, pair);
        let path = path(first);
        let truth = pair.causes.iter().find(|truth| path.contains(&truth.row));
        self.first_right = Some(truth.is_some());
        match truth {
            Some(truth) => {
                self.judge_how(truth, first, answer);
                self.judge_size(pair, answer);
            }
            None => {
                let named = |truth: &Truth| {
                    answer
                        .causes
                        .iter()
                        .position(|cause| super::verdict::path(cause).contains(&truth.row))
                };
                let place = pair.causes.iter().filter_map(named).min();
                let place =
                    place.map_or("not named".to_string(), |at| format!("named as {}.", at + 1));
                self.misses.push(format!("first must be {}, {place}", pair.causes[0].row));
            }
        }
    }

    fn judge_how(&mut self, truth: &Truth, first: &Value, answer: &Answer) {
        // Recordings of perf count nothing.
        if truth.how == How::Any || !answer.counts {
            return;
        }
        let said = how(first);
        let is_right = said == Some(truth.how);
        if !is_right {
            self.misses.push(format!("{:?}, not {}", truth.how, words(said)));
        }
        let ratio = truth.ratio.zip(times(first)).map(|(ratio, (a, b))| (ratio, b / a));
        let off = ratio.filter(|(wanted, told)| (told / wanted - 1.0).abs() > RATIO_MAX);
        if let Some((wanted, told)) = off {
            self.misses.push(format!("{wanted:.2} times as often, not {told:.3}"));
        }
        self.how_right = Some(is_right && off.is_none());
    }

    fn judge_size(&mut self, pair: &Pair, answer: &Answer) {
        let (Some(size), Some(clean_ns)) = (pair.size, answer.clean_cpu_ns) else { return };
        let (told, off_max) = match size {
            Size::Cpu => (answer.causes.first().map_or(0.0, own_ns), SIZE_MAX),
            Size::CpuOfAll => (answer.work_ns.unwrap_or(0.0), SIZE_OF_DRAWN_MAX),
        };
        let told = told / pair.operations;
        let off = told / clean_ns - 1.0;
        self.size = format!("{told:+.0} / {clean_ns:+.0} ns ({:+.1} %)", 100.0 * off);
        self.size_right = Some(off.abs() <= off_max);
        if off.abs() > off_max {
            self.misses.push(format!("size off by {:+.1} %", 100.0 * off));
        }
    }

    /// All in one line.
    pub fn line(&self) -> String {
        let misses = self.misses.join("; ");
        let verdict = if misses.is_empty() { "right" } else { &misses };
        format!("{} | {} | {verdict}", self.said, self.size)
    }
}

fn own_ns(cause: &Value) -> f64 {
    cause["own_ns"].as_f64().unwrap_or(0.0)
}

fn path(cause: &Value) -> String {
    let names = cause["path"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(" > ")
}

fn how(cause: &Value) -> Option<How> {
    let split = &cause["change"]["split"];
    if split.get("share_and_length").is_some() {
        return Some(How::Time);
    }
    let parts = split.get("count_and_cost")?;
    let part = |name: &str| parts[name].as_f64().unwrap_or(0.0).abs();
    Some(if part("count_ns") >= part("cost_ns") { How::Count } else { How::Cost })
}

fn words(how: Option<How>) -> String {
    how.map_or("count unknown".to_string(), |how| format!("{how:?}").to_lowercase())
}

fn times(cause: &Value) -> Option<(f64, f64)> {
    let times = cause["change"]["split"].get("count_and_cost")?["times"].as_array()?;
    Some((times.first()?.as_f64()?, times.get(1)?.as_f64()?))
}

/// Per operation, where a command's run has a known number of them.
fn described(cause: &Value, pair: &Pair) -> String {
    let each = |value: f64| value / pair.operations;
    let ns = each(cause["own_ns"].as_f64().unwrap_or(0.0));
    let times =
        times(cause).map_or(String::new(), |(a, b)| format!(" {:.3} -> {:.3}", each(a), each(b)));
    let path = path(cause).replace("the workload > ", "");
    format!("{path} {ns:+.0} ns, {}{times}", words(how(cause)))
}

/// All of them, as Markdown.
pub fn table(verdicts: &[Verdict]) -> String {
    let mut text =
        "| planted | named first | size told / clean | missed |\n| --- | --- | --- | --- |\n"
            .to_string();
    for Verdict { name, said, size, misses, .. } in verdicts {
        text += &format!("| {name} | {said} | {size} | {} |\n", misses.join("; "));
    }
    text
}
