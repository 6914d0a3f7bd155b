//! `knee check --litmus`: litmus tests in C, and whether their outcomes are possible.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::{LitmusTest, LitmusTests};
use anyhow::{Context, Result, ensure};
use engines::checker::Memory;
use host::terminal::hint;
use pages::{Block, Page, PageKind, PageTable, Section, ViewFlags};
use studies::litmus::{Observed, Quantifier, check, parse};
use text::prose::counted;
use text::table::{Align, Table};

use super::{NOT_CHECKED, page};

/// Bytes of a litmus test at most.
const BYTES_MAX: u64 = 1 << 20;

/// Searches a test, or all tests of a folder. The status is [`NOT_CHECKED`] if one was not searched.
pub fn run(path: &Path, memory: Option<Memory>, states: u64, view: &ViewFlags) -> Result<ExitCode> {
    let files = files(path)?;
    ensure!(!files.is_empty(), "--litmus {}: no file ends with .litmus", path.display());
    let mut tests = Vec::new();
    for file in &files {
        hint(format_args!("searching {} …", file.display()));
        tests.push(searched(file, memory, states)?);
    }
    let is_complete = tests.iter().all(|test| test.observed != Observed::NotSearched.word());
    let page = results(&tests, path);
    view.print(|| Ok(LitmusTests(tests)), || Ok(page))?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(NOT_CHECKED) })
}

/// The file, or all tests below the folder, by name.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let metadata = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "litmus") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn searched(file: &Path, asked: Option<Memory>, states: u64) -> Result<LitmusTest> {
    let length = fs::metadata(file).with_context(|| format!("reading {}", file.display()))?.len();
    ensure!(length <= BYTES_MAX, "{}: longer than a litmus test", file.display());
    let text = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut test = LitmusTest {
        name: stem,
        file: file.display().to_string(),
        memory: page::memory(asked.unwrap_or(Memory::Rc11)),
        observed: Observed::NotSearched.word(),
        ok: None,
        outcomes: 0,
        positive: 0,
        states: 0,
        why: None,
    };
    let litmus = match parse(&String::from_utf8_lossy(&text)) {
        Ok(litmus) => litmus,
        Err(why) => return Ok(LitmusTest { why: Some(format!("{why:#}")), ..test }),
    };
    let memory = asked.unwrap_or(if litmus.is_of_kernel { Memory::Lkmm } else { Memory::Rc11 });
    test.memory = page::memory(memory);
    if litmus.is_of_kernel && memory == Memory::Rc11 {
        let why = "a test of the Linux kernel's memory model: try --memory lkmm".to_string();
        return Ok(LitmusTest { why: Some(why), ..test });
    }
    let result = check(&litmus, memory, states)?;
    test.name.clone_from(&litmus.name);
    test.observed = result.observed.word();
    test.ok = match (litmus.quantifier, result.observed) {
        (_, Observed::Race | Observed::NotSearched) => None,
        (Quantifier::Exists, observed) => Some(observed != Observed::Never),
        (Quantifier::NotExists, observed) => Some(observed == Observed::Never),
        (Quantifier::Forall, observed) => Some(observed == Observed::Always),
    };
    (test.outcomes, test.positive, test.states) = (result.outcomes, result.positive, result.states);
    test.why = result.race.or(result.refused.map(|refused| refused.to_string()));
    Ok(test)
}

fn results(tests: &[LitmusTest], path: &Path) -> Page {
    let columns = [
        ("test", Align::Left),
        ("condition", Align::Left),
        ("outcomes", Align::Right),
        ("states", Align::Right),
    ];
    let mut table = Table::new(columns);
    for test in tests {
        let LitmusTest { name, observed, outcomes, states, .. } = test;
        table.row(vec![
            name.clone(),
            observed.to_string(),
            outcomes.to_string(),
            states.to_string(),
        ]);
    }
    let count = |observed: Observed| {
        let count = tests.iter().filter(|test| test.observed == observed.word()).count();
        (count > 0).then(|| format!("{count} {}", observed.word()))
    };
    let kinds = [
        Observed::Never,
        Observed::Sometimes,
        Observed::Always,
        Observed::Race,
        Observed::NotSearched,
    ];
    let counts: Vec<String> = kinds.into_iter().filter_map(count).collect();
    let mut models: Vec<&str> = tests.iter().map(|test| test.memory).collect();
    models.sort_unstable();
    models.dedup();
    let model = models.join(" and ");
    let answer =
        format!("{} under {model}: {}", counted(tests.len(), "litmus test"), counts.join(", "));
    let mut sections =
        vec![Section::open("Results", vec![Block::Table(PageTable::plain("", table, &[]))])];
    let reasons = tests.iter().filter_map(|test| {
        let why = test.why.as_ref()?;
        Some(format!("{} ({}): {why}", test.name, test.observed))
    });
    let reasons: Vec<String> = reasons.collect();
    if !reasons.is_empty() {
        sections.push(Section::open("Reasons", vec![Block::Text(reasons)]));
    }
    let title = format!("litmus tests in {}", path.display());
    Page { answers: vec![answer], sections, ..Page::new(&title, PageKind::Check) }
}
