//! Names that want to be markup: whatever stands in a record, its page has the elements of a harmless one.

use std::path::Path;

use analysis::{Arm, CompareOptions, compare};
use pages::{Page, Purpose, comparison, html, mail, markdown, record};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use records::Opened;
use reports::Detail;

/// Pages in each form, each with [`NAMES`] names; `make fuzz` sets $KNEE_HOSTILE_PAGES to ten times as many.
const PAGES: usize = 50;
/// Names of a record that [`rename`] replaces.
const NAMES: usize = 20;

fn golden(which: &str) -> Opened {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/golden");
    store::open(&records.join(which)).unwrap()
}

const COMPARED: &str = "v2/20261120-165542-d10222";
const MEASURED: &str = "v1/20261120-115530-7f3a9c";

/// Pieces that mean something to a parser of HTML, of scripts, of styles, of policies or of Markdown.
const PIECES: [&str; 26] = [
    "<script>alert(1)</script>",
    "</script>",
    "</style>",
    "<!--",
    "-->",
    "]]>",
    "\" onload=\"alert(1)",
    "' onclick='alert(1)",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "&lt;script&gt;",
    "&#60;b&#62;",
    "\u{0}",
    "\u{202e}",
    "\u{1b}[31m",
    "\u{2028}",
    "{{7*7}}",
    "${alert(1)}",
    "`code`",
    "](https://evil.example)",
    "\r\n\r\n",
    "<base href=//evil.example>",
    "</title><plaintext>",
    "\u{feff}\u{1f468}\u{200d}\u{1f469}",
    "\u{fdfd}\u{e01ef}",
];

fn name(random: &mut Xoshiro256PlusPlus) -> String {
    let mut name = String::new();
    for _ in 0..random.random_range(1..6) {
        match random.random_range(0..3) {
            0 => name.push(char::from_u32(random.random_range(0..0x3000)).unwrap_or('<')),
            _ => name.push_str(PIECES[random.random_range(0..PIECES.len())]),
        }
    }
    // Some are as long as anybody would write.
    if random.random_range(0..50) == 0 {
        name = name.repeat(4096 / name.len() + 1);
    }
    name
}

/// Replaces names all over a record. Variants keep different names.
fn rename(opened: &mut Opened, mut name: impl FnMut() -> String) -> [String; 2] {
    let [base, new] = [0, 1].map(|index| format!("{}{index}", name()));
    let record = &mut opened.record;
    let old: Vec<String> = record.variants.iter().map(|variant| variant.name.clone()).collect();
    let renamed = |known: &str| match old.iter().position(|old| old == known) {
        Some(0) => base.clone(),
        Some(_) => new.clone(),
        None => known.to_string(),
    };
    record.variants.iter_mut().for_each(|variant| variant.name = renamed(&variant.name));
    let workload = name();
    for point in &mut record.points {
        point.variant = renamed(&point.variant);
        point.workload.clone_from(&workload);
        point.dir = name().into();
        let parameters = point.parameters.keys().cloned().collect::<Vec<_>>();
        parameters.into_iter().for_each(|key| drop(point.parameters.insert(key, "x".to_string())));
    }
    let dir = name();
    record.points.iter_mut().for_each(|point| point.dir = dir.clone().into());
    record.label = name();
    record.note = name();
    record.experiment.name = name();
    record.experiment.description = name();
    record.host.hostname = Some(name());
    record.host.kernel_release = Some(name());
    record.host.cpu_model = Some(name());
    record.directories.iter_mut().for_each(|directory| directory.file_system = Some(name()));
    record.sessions.iter_mut().for_each(|session| session.command = vec![name(), name()]);
    for run in &mut opened.runs {
        for warning in &mut run.warnings {
            warning.text = name();
            warning.advice = name();
        }
    }
    [base, new]
}

/// The page of the golden comparison, and of the golden record, with other names.
fn pages_with(mut name: impl FnMut() -> String) -> [Page; 2] {
    let mut opened = golden(COMPARED);
    let names = rename(&mut opened, &mut name);
    let arms = names.each_ref().map(|name| Arm { name, record: &opened, variant: name });
    let compared = compare(&arms, &CompareOptions::default()).unwrap();
    let mut measured = golden(MEASURED);
    rename(&mut measured, &mut name);
    [
        comparison(&compared, &[&opened], "knee report"),
        record(&measured, &Detail::default(), "knee report"),
    ]
}

/// The elements and the names of their attributes, in order. What stands between backquotes is code, and lists
/// of what is new or known depend on names: these are left out.
fn elements(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("an element ends");
        let element = &rest[at..=end];
        rest = &rest[end + 1..];
        let own = element.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
        for raw in ["script", "style"] {
            if element.starts_with(&format!("<{raw}")) {
                let close = format!("</{raw}>");
                rest = &rest[rest.find(&close).expect("it ends")..];
            }
        }
        if !own.contains("code>") {
            found.push(own);
        }
    }
    found
}

/// Markdown without code between backquotes and in indented lines, where nothing is markup.
fn without_code(text: &str) -> String {
    let text = text.replace("\\`", "").replace("\\](", "");
    let lines = text.lines().filter(|line| !line.starts_with("    "));
    lines.flat_map(|line| line.split('`').step_by(2).chain(["\n"])).collect()
}

fn counted(elements: &[String]) -> std::collections::BTreeMap<&str, usize> {
    let mut counted = std::collections::BTreeMap::new();
    elements.iter().for_each(|element| *counted.entry(element.as_str()).or_default() += 1);
    counted
}

#[test]
fn no_name_becomes_markup() {
    let mut number = 0;
    let harmless = pages_with(|| {
        number += 1;
        format!("name{number}")
    });
    let harmless = harmless.map(|page| elements(&html(&page, Purpose::File)));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(20_261_124);
    let mut names = 0;
    let asked = std::env::var("KNEE_HOSTILE_PAGES").ok();
    let count = asked.map_or(PAGES, |pages| pages.parse().expect("KNEE_HOSTILE_PAGES is a number"));
    for number in 0..count {
        let pages = pages_with(|| {
            names += 1;
            // Equal warnings would be told once.
            format!("{}{names}", name(&mut random))
        });
        for (page, harmless) in pages.iter().zip(&harmless) {
            let html = html(page, Purpose::File);
            let hostile = elements(&html);
            assert_eq!(counted(&hostile), counted(harmless), "page {number}");
            assert!(!html.contains(['\u{0}', '\u{202e}', '\u{1b}', '\u{2028}']), "page {number}");
            for line in mail(page).lines() {
                assert!(line.chars().count() <= 72, "page {number}: {line}");
            }
            let text = without_code(&markdown(page));
            for markup in ["<script", "<img", "<svg", "<base", "](https"] {
                assert!(!text.contains(markup), "page {number}: {markup} in {text}");
            }
        }
    }
    assert!(names >= count * NAMES, "{names} names");
    println!("{names} names in {} pages", 2 * count);
}

#[test]
fn equal_records_give_equal_bytes_of_few_kilobytes() {
    let [first, second] = [0, 1].map(|_| pages_with(|| "name".to_string()));
    for (first, second) in first.iter().zip(&second) {
        let html = [first, second].map(|page| html(page, Purpose::File));
        assert!(html[0] == html[1]);
        assert!(html[0].len() < 150_000, "{} bytes", html[0].len());
    }
}

#[test]
fn a_page_names_no_other_file() {
    for page in pages_with(|| "name".to_string()) {
        let html = html(&page, Purpose::File);
        assert!(!html.contains("href=\"http") && !html.contains("href=\"//"));
        let elements = elements(&html);
        for outside in ["src=", "<link", "<iframe", "<object", "style=", " on"] {
            let found = elements.iter().find(|element| element.contains(outside));
            assert_eq!(found, None, "{outside}");
        }
        assert!(html.contains("default-src &#39;none&#39;"));
    }
}
