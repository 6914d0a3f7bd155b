//! Faults in SARIF 2.1.0 (Static Analysis Results Interchange Format, OASIS 2020), for editors and for reviews of code. Each
//! fault is a result; the interleaving that leads to it is its code flow, with a thread flow for each task.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use engines::CodeSite;
use engines::checker::{Failure, Fault};
use serde_json::{Value, json};
use studies::checks::{CheckResult, Verdict};

use super::page;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Writes the faults of these checks to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(file: &Path, all: &[CheckResult]) -> Result<()> {
    let text = serde_json::to_string_pretty(&log(all)).context("writing SARIF")?;
    fs::write(file, text + "\n")
        .with_context(|| format!("--sarif {}: writing the file", file.display()))
}

fn log(all: &[CheckResult]) -> Value {
    let wrong = all.iter().filter_map(|one| match one.verdict() {
        Verdict::Wrong(failure) => Some((one, failure)),
        _ => None,
    });
    let wrong: Vec<_> = wrong.collect();
    let rules: BTreeSet<&str> = wrong.iter().map(|(_, failure)| failure.fault.word()).collect();
    let rule = |word: &&str| json!({ "id": rule(word), "shortDescription": { "text": word } });
    let notifications = all.iter().filter_map(|one| match one.verdict() {
        Verdict::NotChecked(why) => {
            let text = format!("{}: not checked: {}; {}", one.name, why.why, why.way_out);
            Some(json!({ "level": "warning", "message": { "text": text } }))
        }
        _ => None,
    });
    let results = wrong.iter().map(|(one, failure)| result(one, failure));
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "knee check",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(rule).collect::<Vec<_>>(),
            } },
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": notifications.collect::<Vec<_>>(),
            }],
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

/// The rule that a fault breaks: `knee-lost-wake-up`.
fn rule(word: &str) -> String {
    format!("knee-{}", word.replace(' ', "-"))
}

fn result(checked: &CheckResult, failure: &Failure) -> Value {
    let message = page::wrong_sentence(checked, &failure.fault);
    let site = failure.details.race.map(|race| race.last.site);
    let sites = failure.details.sites.iter().rev().flatten();
    let site = site.or_else(|| sites.copied().find(|site| file_of(site, checked).is_some()));
    let place = site.and_then(|site| place(&site, checked));
    json!({
        "ruleId": rule(failure.fault.word()),
        "level": "error",
        "message": { "text": message },
        "locations": place.iter().map(|it| json!({ "physicalLocation": it })).collect::<Vec<_>>(),
        "codeFlows": [{
            "message": { "text": shortest(failure) },
            "threadFlows": thread_flows(checked, failure),
        }],
    })
}

fn shortest(failure: &Failure) -> &'static str {
    match (&failure.fault, failure.is_shortest) {
        (Fault::Endless(_), _) => "an interleaving that never ends",
        (_, true) => "a shortest interleaving that leads to the fault",
        (_, false) => "an interleaving that leads to the fault",
    }
}

/// The steps of each task, numbered in the order in which all are taken.
fn thread_flows(checked: &CheckResult, failure: &Failure) -> Vec<Value> {
    let mut flows: BTreeMap<(usize, &str), Vec<Value>> = BTreeMap::new();
    let sites = failure.details.sites.iter().copied().chain(std::iter::repeat(None));
    for (order, (step, site)) in failure.steps.iter().zip(sites).enumerate() {
        let (task, text) = step.split_once(' ').unwrap_or((step, ""));
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut location = json!({ "message": { "text": words.join(" ") } });
        if let Some(place) = site.and_then(|site| place(&site, checked)) {
            location["physicalLocation"] = place;
        }
        let step = json!({ "executionOrder": order + 1, "location": location });
        flows.entry((task.len(), task)).or_default().push(step);
    }
    if flows.is_empty() {
        let location = json!({ "message": { "text": "before the first step" } });
        return vec![json!({ "locations": [{ "location": location }] })];
    }
    let flow =
        |((_, task), steps): ((usize, &str), Vec<Value>)| json!({ "id": task, "locations": steps });
    flows.into_iter().map(flow).collect()
}

/// The place as a physical location, if its file is one of what was checked.
fn place(site: &CodeSite, checked: &CheckResult) -> Option<Value> {
    let uri = file_of(site, checked)?;
    Some(json!({
        "artifactLocation": { "uri": uri },
        "region": { "startLine": site.line.max(1), "startColumn": site.column.max(1) },
    }))
}

/// The file of a place: from here, if it is below, else as a whole. `None` for knee's own files where a C file was checked.
fn file_of(site: &CodeSite, checked: &CheckResult) -> Option<String> {
    let path = site.file.trim_start_matches('/');
    let is_absolute = path.len() < site.file.len();
    if !is_absolute {
        let is_in_c = checked.name.ends_with(".c") || checked.name.ends_with(".h");
        return (!is_in_c).then(|| encoded(path));
    }
    let here = env::current_dir().and_then(|here| here.canonicalize()).ok();
    let path = Path::new("/").join(path);
    // The compiler's name of a file that the user's file includes may be relative to here.
    let path =
        if path.exists() { path } else { return Some(encoded(site.file.trim_start_matches('/'))) };
    match here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf)) {
        Some(below) => Some(encoded(&below.display().to_string())),
        None => Some(format!("file://{}", encoded(&path.display().to_string()))),
    }
}

/// A path as part of a URI.
fn encoded(path: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/+@".contains(byte);
    let one = |byte: u8| {
        if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    path.bytes().map(one).collect()
}
