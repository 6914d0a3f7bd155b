//! The page of a line of kernels: what changed from kernel to kernel first, then what each counts.

use answers::{ChangedLine, LineChange};
use bisection::watch::Fate;
use bisector::kernel_line::{
    FunctionChange, KernelChange, KernelLineAnswer, KernelPoint, WorkloadCounts,
};
use host::counted;
use pages::{Block, Page, PageKind, PageTable, Section, times};
use text::quantity::{fixed, signed};
use text::table::{Align, Table};

use super::super::page::score_sentence;

/// Changes of a kernel that are shown before the reader asks.
const SHOWN: usize = 16;

/// Kernels that the answer has a sentence about, the newest ones.
const KERNELS: usize = 4;

/// Lines that a row names.
const LINES: usize = 2;

/// Functions that a row names.
const FUNCTIONS: usize = 4;

const READING: &[&str] = &[
    "instructions: what an operation executes in the kernel, on the fewest CPUs; of the median operation, or of the mean one \
     where only some operations changed",
    "function +n: so many more instructions an operation in that function, with what is inlined there",
    "new, gone, more, fewer: a line of memory that many CPUs need, with the transfers an operation before and after; split, \
     joined: members that others read have left the line, or come to it",
];

const METHOD: &str = "Counted on emulated CPUs, in two boots of each kernel: nothing is timed. A change is what both boots of \
                      both kernels agree about: a difference of instructions is larger than four times what boots and \
                      windows of one kernel differ by, and of the mean operation at least 5 %.";

/// The page of an answer.
pub fn page(answer: &KernelLineAnswer) -> Page {
    let mut page = Page::new(&answer.line, PageKind::Watch);
    page.answers = sentences(answer);
    for (number, kernel) in answer.kernels.iter().rev().enumerate() {
        page.sections.extend(changes(answer, kernel, number == 0));
        page.warnings.extend(warnings(kernel));
    }
    if !answer.kernels.is_empty() {
        let counts = "Instructions an operation in the kernel";
        let instructions = table(answer, |one| &one.instructions, |count| fixed(count, 1));
        page.sections.push(closed(counts, vec![plain(instructions)]));
        if answer.cpus.iter().any(|cpus| *cpus > 1) {
            let transfers = table(answer, |one| &one.transfers, times);
            let title = "Transfers of contended lines an operation";
            page.sections.push(closed(title, vec![plain(transfers)]));
        }
    }
    page.method.push(METHOD.to_string());
    page.facts = facts(answer);
    page
}

/// What adding says at its end: of each kernel that is new, what changed; and what is open.
pub fn news(before: &KernelLineAnswer, answer: &KernelLineAnswer) -> Vec<String> {
    let is_new = |kernel: &&KernelPoint| !before.kernels.iter().any(|old| old.name == kernel.name);
    let kernels = answer.kernels.iter().filter(is_new);
    kernels.filter_map(|kernel| summary(answer, kernel)).chain(open_sentence(answer)).collect()
}

/// "6.12/stat: 2511 → 3266 instructions an operation, +30.1 %; split: dentry.d_lockref".
pub fn sentence(change: &KernelChange) -> String {
    let instructions = change.instructions.map(|instructions| {
        let [before, after] = [instructions.before, instructions.after].map(count);
        let share = signed(100.0 * instructions.share(), 1);
        format!("{before} → {after} instructions an operation, {share} %")
    });
    let parts: Vec<String> = instructions.into_iter().chain(line_words(&change.lines)).collect();
    format!("{}: {}", change.id, parts.join("; "))
}

fn sentences(answer: &KernelLineAnswer) -> Vec<String> {
    if answer.kernels.is_empty() {
        let line = &answer.line;
        return vec![format!(
            "The line has no kernels yet: knee watch add {line} NAME=VMLINUZ counts the first."
        )];
    }
    let newest = answer.kernels.iter().rev();
    let mut sentences: Vec<String> =
        newest.filter_map(|kernel| summary(answer, kernel)).take(KERNELS).collect();
    if sentences.is_empty() {
        sentences.push(format!(
            "{}: nothing to compare it with yet.",
            counted(answer.kernels.len(), "kernel")
        ));
    }
    sentences.extend(open_sentence(answer));
    sentences.extend(score_sentence(&answer.score));
    sentences
}

/// What changed on a kernel, in one sentence; the first kernel has none.
fn summary(answer: &KernelLineAnswer, kernel: &KernelPoint) -> Option<String> {
    let before = kernel.before.as_deref()?;
    let name = &kernel.name;
    if let Some(same) = &kernel.same_as {
        return Some(format!("{name} is the image of {same}."));
    }
    let changes: Vec<&KernelChange> = of_kernel(answer, kernel).collect();
    let instructions = changes.iter().filter_map(|change| change.instructions);
    let (fewer, more): (Vec<_>, Vec<_>) =
        instructions.partition(|change| change.after < change.before);
    let smallest = fixed(100.0 * answer.smallest_effect, 1);
    let executed = match (fewer.len(), more.len()) {
        (0, 0) => format!("instructions an operation differ by {smallest} % in none"),
        (fewer, more) => format!(
            "instructions an operation are fewer in {fewer} and more in {more}, by {smallest} % at least"
        ),
    };
    let of = |kinds: &[LineChange]| {
        let lines = changes.iter().flat_map(|change| &change.lines);
        lines.filter(|line| kinds.contains(&line.change)).count()
    };
    let kinds = [
        (of(&[LineChange::New]), "new"),
        (of(&[LineChange::Gone]), "gone"),
        (of(&[LineChange::More]), "needed more often"),
        (of(&[LineChange::Fewer]), "needed less often"),
        (of(&[LineChange::Split]), "split"),
        (of(&[LineChange::Joined]), "joined by others"),
    ];
    let kinds = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    let kinds: Vec<String> = kinds.collect();
    let lines = if kinds.is_empty() {
        "no contended line differs".to_string()
    } else {
        format!("contended lines of all operations: {}", kinds.join(", "))
    };
    let workloads = counted(kernel.counted, "workload");
    let unfinished = if kernel.is_whole { "" } else { " (knee watch add has more to count)" };
    Some(format!("{name} against {before}, {workloads}: {executed}; {lines}{unfinished}."))
}

fn of_kernel<'a>(
    answer: &'a KernelLineAnswer,
    kernel: &'a KernelPoint,
) -> impl Iterator<Item = &'a KernelChange> {
    answer.said().filter(|change| change.after == kernel.name)
}

fn open_sentence(answer: &KernelLineAnswer) -> Option<String> {
    let open = answer.open().count();
    (open > 0).then(|| {
        let are = if open == 1 { "is" } else { "are" };
        format!(
            "{} for the worse {are} open: knee watch ack {} KERNEL/WORKLOAD --why TEXT accepts one, or with KERNEL all.",
            counted(open, "change"),
            answer.line
        )
    })
}

/// The changes of a kernel: the largest ones, then the others.
fn changes(answer: &KernelLineAnswer, kernel: &KernelPoint, is_newest: bool) -> Vec<Section> {
    let changes: Vec<&KernelChange> = of_kernel(answer, kernel).collect();
    let Some(before) = kernel.before.as_ref().filter(|_| !changes.is_empty()) else {
        return Vec::new();
    };
    let (shown, others) = changes.split_at(changes.len().min(SHOWN));
    let title = format!("{} against {before}", kernel.name);
    let block = |changes| {
        let table = PageTable { reading: READING, ..PageTable::of_prose(change_table(changes)) };
        vec![Block::Table(table)]
    };
    let mut sections = vec![Section { is_open: is_newest, ..Section::open(&title, block(shown)) }];
    if !others.is_empty() {
        sections.push(closed(&format!("{title}: smaller changes"), block(others)));
    }
    sections
}

fn change_table(changes: &[&KernelChange]) -> Table {
    let mut table = Table::new([
        ("workload", Align::Left),
        ("instructions", Align::Right),
        ("change", Align::Right),
        ("where", Align::Left),
    ]);
    for change in changes {
        let instructions = change.instructions.map(|instructions| {
            let [before, after] = [instructions.before, instructions.after].map(count);
            let mean = if instructions.of_mean { " mean" } else { "" };
            format!("{before} → {after}{mean}")
        });
        let share = change.instructions.map(|change| signed(100.0 * change.share(), 1) + " %");
        table.row(vec![
            change.workload.clone(),
            instructions.unwrap_or_default(),
            share.unwrap_or_default(),
            what(change),
        ]);
    }
    table
}

/// "lookup_fast +120, …; new: dentry.d_lockref (0 → 2); accepted: REASON".
fn what(change: &KernelChange) -> String {
    let function = |one: &FunctionChange| {
        let by = signed((one.after - one.before).round(), 0);
        format!("{} {by}", one.function)
    };
    let functions: Vec<String> = change.functions.iter().take(FUNCTIONS).map(function).collect();
    let functions = (!functions.is_empty()).then(|| functions.join(", "));
    let is = match change.is {
        Fate::Accepted => Some(format!("accepted: {}", change.why)),
        Fate::False => Some(format!("declared to be none: {}", change.why)),
        Fate::GoneAgain => Some("gone again".to_string()),
        // Nothing moves between the counts of a line of kernels: they are no parts of a sum.
        Fate::Open | Fate::NotConfirmed | Fate::Moved => None,
    };
    let lines = line_words(&change.lines);
    let parts: Vec<String> = functions.into_iter().chain(lines).chain(is).collect();
    parts.join("; ")
}

/// The lines that differ, by what became of them: "new: a (0 → 2), b (0 → 1)".
fn line_words(lines: &[ChangedLine]) -> Vec<String> {
    let kinds = [
        (LineChange::New, "new"),
        (LineChange::More, "more"),
        (LineChange::Joined, "joined"),
        (LineChange::Gone, "gone"),
        (LineChange::Fewer, "fewer"),
        (LineChange::Split, "split"),
    ];
    let of_kind = |(kind, word): (LineChange, &str)| {
        let these: Vec<&ChangedLine> = lines.iter().filter(|line| line.change == kind).collect();
        let named: Vec<String> = these.iter().take(LINES).map(|line| line_word(line)).collect();
        let more = these.len().saturating_sub(LINES);
        let more = if more > 0 { format!(", {more} others") } else { String::new() };
        (!named.is_empty()).then(|| format!("{word}: {}{more}", named.join(", ")))
    };
    kinds.into_iter().filter_map(of_kind).collect()
}

fn line_word(line: &ChangedLine) -> String {
    let [before, after] = line.transfers.map(times);
    match line.change {
        LineChange::Split => format!("{} (left by {})", line.member, line.left.join(", ")),
        LineChange::Joined => format!("{} (by {})", line.member, line.joined.join(", ")),
        _ => format!("{} ({before} → {after})", line.member),
    }
}

/// A number of instructions: whole, unless it is the mean of two.
fn count(instructions: f64) -> String {
    fixed(instructions, if instructions.fract() == 0.0 { 0 } else { 1 })
}

fn closed(title: &str, blocks: Vec<Block>) -> Section {
    Section { is_open: false, ..Section::open(title, blocks) }
}

fn plain(table: Table) -> Block {
    Block::Table(PageTable::plain("", table, &[]))
}

/// A row for each workload, with what each kernel counts.
fn table(
    answer: &KernelLineAnswer,
    counts: impl Fn(&WorkloadCounts) -> &Vec<Option<f64>>,
    text: impl Fn(f64) -> String,
) -> Table {
    let kernels = answer.kernels.iter().map(|kernel| (kernel.name.clone(), Align::Right));
    let columns = [("workload".to_string(), Align::Left)].into_iter().chain(kernels);
    let mut table = Table::new(columns);
    for one in &answer.workloads {
        let cells = counts(one).iter().map(|count| count.map_or("–".to_string(), &text));
        table.row([one.workload.clone()].into_iter().chain(cells).collect());
    }
    table
}

fn warnings(kernel: &KernelPoint) -> Vec<(String, Vec<String>)> {
    let failed = kernel.failed.iter().map(|one| format!("{}: {}", one.workload, one.why));
    let unsteady = kernel.unsteady.iter().map(|one| {
        let [low, high] = one.instructions.map(count);
        format!("{}: {low} to {high} instructions", one.workload)
    });
    let all = [
        (format!("Not counted on {}", kernel.name), failed.collect::<Vec<_>>()),
        (format!("Counts of {} that do not repeat", kernel.name), unsteady.collect()),
        (format!("{} was counted otherwise", kernel.name), kernel.counted_by.clone()),
    ];
    all.into_iter().filter(|(_, sentences)| !sentences.is_empty()).collect()
}

fn facts(answer: &KernelLineAnswer) -> Vec<(String, String)> {
    let kernels = answer.kernels.iter().map(|kernel| {
        let day = kernel.added.get(..10).unwrap_or_default();
        let minutes = fixed(kernel.seconds / 60.0, 1);
        let counts = match &kernel.same_as {
            Some(same) => format!("the image of {same}"),
            None => format!("{} counted in {minutes} CPU minutes", kernel.counted),
        };
        (kernel.name.clone(), format!("Linux {}, {counts}, added {day}", kernel.release))
    });
    let cpus: Vec<String> = answer.cpus.iter().map(u32::to_string).collect();
    let [first, second] = [answer.operations, 2 * answer.operations];
    let counted =
        format!("on {} CPUs, in windows of {first} and {second} operations", cpus.join(" and "));
    kernels.chain([("counted".to_string(), counted)]).collect()
}
