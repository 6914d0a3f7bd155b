//! The page of contended lines: which the operation needs, how often, and where that ends.

use answers::{
    ChangedLine, ConflictAnswer, ConflictDifference, ConflictLine, Conflicts, LineChange, LineKind,
    Sharing,
};
use reports::met_sentence;
use text::prose::counted;
use text::quantity::{fixed, short, signed};
use text::table::{Align, Table};

use crate::page::{Block, Page, PageKind, PageTable, Section, Wide};

mod matrix;

/// Rows of a table.
const ROWS: usize = 24;

/// Functions named in a row.
const FUNCTIONS: usize = 3;

const METHOD: &str = "Counted on emulated CPUs, whose operations take turns: exact, and without times. A transfer is \
                      counted where many CPUs want the line: at least one for each burst of accesses with a write, \
                      at most one for each write. Timers, other interrupts and other tasks are left out.";

const READING: &[&str] = &[
    "transfers: how often an operation must get the line from another CPU, where many want it; at least and at most",
    "writes: stores an operation, of which atomic in brackets; reads: loads an operation",
    "the member named is the one that is written most; false sharing: no two CPUs need the same bytes of the line",
];

/// The page of an answer.
pub fn conflicts(answer: &ConflictAnswer) -> Page {
    let mut page = Page::new(&title(answer), PageKind::Conflicts);
    for difference in &answer.differences {
        page.answers.push(difference_sentence(difference));
        page.sections.extend(difference_section(difference));
    }
    for traced in &answer.traced {
        let is_on_many = answer.traced.iter().any(|other| other.on != traced.on);
        page.answers.extend(sentences(traced, is_on_many));
        page.sections.push(section(traced, answer.traced.len() > 1));
        page.warnings.extend(warnings(traced));
    }
    matrix::sections(&mut page, &answer.pairs);
    page.method.push(METHOD.to_string());
    let facts = answer.traced.iter().map(|traced| {
        let tasks = counted(traced.tasks as usize, "task");
        let windows = match traced.window_operations {
            [0, _] => "all counts are of the whole program".to_string(),
            [all, 0] => format!("{all} operations in all"),
            [first, second] => format!("windows of {first} and {second} operations each"),
        };
        (traced.operation.clone(), format!("{}, {tasks}, {windows}", traced.on))
    });
    page.facts = facts.collect();
    page
}

fn title(answer: &ConflictAnswer) -> String {
    let mut names: Vec<&str> = Vec::new();
    for traced in &answer.traced {
        if !names.contains(&traced.operation.as_str()) {
            names.push(&traced.operation);
        }
    }
    if let [pair, ..] = &answer.pairs[..] {
        return format!("Pairs of operations on Linux {}", pair.on);
    }
    names.join(", ")
}

/// What the operation needs, and the rate that it cannot pass.
fn sentences(traced: &Conflicts, is_on_many: bool) -> Vec<String> {
    let on = if is_on_many { format!(" on {}", traced.on) } else { String::new() };
    let name = traced.operation.clone() + &on;
    let Some(worst) =
        traced.lines.first().filter(|line| line.transfers[0] >= traced.least_transfers)
    else {
        let name = &traced.operation;
        return vec![format!("{name} on {}: no line is needed by more than one CPU", traced.on)];
    };
    let functions = writers(worst);
    let others =
        traced.lines.iter().filter(|line| line.transfers[0] >= traced.least_transfers).count() - 1;
    let subject =
        if traced.window_operations[0] > 0 { "each operation writes" } else { "its threads write" };
    let mut sentences = vec![format!(
        "{name}: {subject} {} {} ({functions}){}",
        worst.member,
        match times(worst.writes).as_str() {
            "1" => "once".to_string(),
            often => format!("{often} times"),
        },
        match others {
            0 => String::new(),
            1 => ", and 1 more line is contended".to_string(),
            n => format!(", and {n} more lines are contended"),
        }
    )];
    for ceiling in &traced.ceilings {
        let [low, high] = ceiling.operations_per_s.map(short);
        let [least, most] = ceiling.transfer_ns.map(|ns| fixed(ns, 0));
        let met = ceiling.meets.as_ref();
        let met = met.map_or(String::new(), |met| format!("; {}", met_sentence(met)));
        sentences.push(format!(
            "All CPUs need {}: at {least} to {most} ns a transfer ({}), the rate ends between {low} and {high} \
             operations/s, whatever the CPUs{met}",
            ceiling.member, ceiling.host
        ));
    }
    sentences
}

fn section(traced: &Conflicts, is_one_of_many: bool) -> Section {
    let (shown, few): (Vec<_>, Vec<_>) =
        traced.lines.iter().partition(|line| line.transfers[0] >= traced.least_transfers);
    let title = if is_one_of_many {
        format!("{} on {}", traced.operation, traced.on)
    } else {
        "Contended lines".to_string()
    };
    let mut blocks = Vec::new();
    if !shown.is_empty() {
        let table = table(&shown[..shown.len().min(ROWS)]);
        let table = PageTable { wide: Wide::Prose, ..PageTable::plain("", table, READING) };
        blocks.push(Block::Table(table));
    }
    let mut notes = Vec::new();
    if let Some(more) = shown.len().checked_sub(ROWS).filter(|more| *more > 0) {
        notes.push(format!("{} with fewer transfers: --json has them", counted(more, "more line")));
    }
    if !few.is_empty() {
        let least = traced.least_transfers;
        let least = match traced.window_operations[0] {
            0 => format!("met less than {} times", fixed(least.ceil(), 0)),
            _ => "met less than once in 32 operations".to_string(),
        };
        notes.push(format!("{} {least}", counted(few.len(), "more line")));
    }
    notes.extend(instructions(traced));
    blocks.push(Block::Text(notes));
    let neighbours = shown
        .iter()
        .take(ROWS)
        .filter(|line| line.sharing == Sharing::False)
        .map(|line| layout(line));
    let neighbours: Vec<String> = neighbours.collect();
    if !neighbours.is_empty() {
        blocks.push(Block::Folded("False sharing", neighbours));
    }
    Section::open(&title, blocks)
}

fn instructions(traced: &Conflicts) -> Option<String> {
    let instructions = traced.instructions?;
    if traced.window_operations[1] == 0 {
        let of = if traced.window_operations[0] > 0 { " an operation" } else { "" };
        let user = fixed(instructions.user, 0);
        return Some(match instructions.kernel_mean {
            0.0 => format!("instructions{of}, from the start of the second thread on: {user}"),
            mean => {
                let kernel = fixed(mean, 0);
                format!(
                    "instructions{of}: {kernel} in the kernel, {user} in the program's own code"
                )
            }
        });
    }
    let steady = if instructions.kernel == instructions.kernel_again {
        "the same in both windows".to_string()
    } else {
        format!("{} in the second window", fixed(instructions.kernel_again, 1))
    };
    Some(format!(
        "instructions an operation: {} in the kernel (median operation; {steady}; mean {}), {} in the task's own code",
        fixed(instructions.kernel, 1),
        fixed(instructions.kernel_mean, 1),
        fixed(instructions.user, 1)
    ))
}

fn table(lines: &[&ConflictLine]) -> Table {
    let mut table = Table::new([
        ("member", Align::Left),
        ("transfers", Align::Right),
        ("writes", Align::Right),
        ("reads", Align::Right),
        ("what", Align::Left),
        ("written by", Align::Left),
    ]);
    for line in lines {
        let [least, most] = line.transfers.map(times);
        let transfers = if least == most { least } else { format!("{least} to {most}") };
        let steady = if line.is_steady { "" } else { ", not steady" };
        let lines = if line.lines > 1 { format!(", {} lines", line.lines) } else { String::new() };
        table.row(vec![
            line.member.clone(),
            transfers,
            format!("{} ({})", times(line.writes), times(line.atomics)),
            times(line.reads),
            format!("{}{lines}{steady}", what(line.kind, line.sharing)),
            writers(line),
        ]);
    }
    table
}

fn what(kind: LineKind, sharing: Sharing) -> &'static str {
    match (kind, sharing) {
        (_, Sharing::False) => "false sharing",
        (LineKind::Lock, _) => "lock",
        (LineKind::ReferenceCount, _) => "reference count",
        (LineKind::List, _) => "list",
        (LineKind::Counter, _) => "counter",
        (LineKind::Flag, _) => "seldom written",
        (LineKind::Data, _) => "data",
    }
}

/// Which members share a line that no two CPUs need the same bytes of.
fn layout(line: &ConflictLine) -> String {
    let members = line.members.iter().take(6).map(|member| {
        let use_of = match (member.writes > 0.0, member.reads > 0.0) {
            (true, true) => "written, read",
            (true, false) => "written",
            _ => "read",
        };
        format!("{} at {} ({use_of})", member.names.join(" or "), member.offset)
    });
    format!("{}: {}", line.place, members.collect::<Vec<_>>().join(", "))
}

fn writers(line: &ConflictLine) -> String {
    let mut functions: Vec<&str> = Vec::new();
    for name in line.members.iter().flat_map(|member| &member.written_by) {
        if !functions.contains(&name.as_str()) {
            functions.push(name);
        }
    }
    let more = if functions.len() > FUNCTIONS { ", …" } else { "" };
    functions.truncate(FUNCTIONS);
    functions.join(", ") + more
}

/// A count an operation: `6`, `0.25`, `1 in 32`.
pub fn times(count: f64) -> String {
    if count == 0.0 {
        return "0".to_string();
    }
    let nearest = count.round();
    let inverse = (1.0 / count).round();
    if nearest >= 1.0 && (count - nearest).abs() < 0.005 * nearest {
        format!("{nearest}")
    } else if count > 0.0 && count < 0.5 {
        format!("1 in {inverse}")
    } else {
        fixed(count, 2)
    }
}

fn difference_sentence(difference: &ConflictDifference) -> String {
    let ConflictDifference { operation, before, after, changed, instructions } = difference;
    let count = |change: LineChange| changed.iter().filter(|line| line.change == change).count();
    let parts = [
        (count(LineChange::Gone), "gone"),
        (count(LineChange::New), "new"),
        (count(LineChange::Fewer), "with fewer transfers"),
        (count(LineChange::More), "with more transfers"),
        (count(LineChange::Split), "split"),
        (count(LineChange::Joined), "joined by others"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let lines = if parts.is_empty() {
        "the same contended lines".to_string()
    } else {
        format!("contended lines: {}", parts.join(", "))
    };
    let executed = instructions.map(|[before, after]| {
        format!(
            "; {} instructions an operation in the kernel ({} to {})",
            signed(after - before, 1),
            fixed(before, 1),
            fixed(after, 1)
        )
    });
    format!("{operation}, {after} against {before}: {lines}{}", executed.unwrap_or_default())
}

fn difference_section(difference: &ConflictDifference) -> Option<Section> {
    if difference.changed.is_empty() {
        return None;
    }
    let mut table = Table::new([
        ("member", Align::Left),
        ("change", Align::Left),
        ("transfers before", Align::Right),
        ("after", Align::Right),
        ("writes before", Align::Right),
        ("after", Align::Right),
    ]);
    let mut moved = Vec::new();
    for ChangedLine { member, change, transfers, writes, left, joined, .. } in &difference.changed {
        for (names, what) in [(left, "left by"), (joined, "joined by")] {
            let names = names.join(", ");
            moved.extend(
                (!names.is_empty()).then(|| format!("the line of {member} is {what} {names}")),
            );
        }
        let change = match change {
            LineChange::Gone => "gone",
            LineChange::New => "new",
            LineChange::Fewer => "fewer",
            LineChange::More => "more",
            LineChange::Split => "split",
            LineChange::Joined => "joined",
        };
        let mut cells = vec![member.clone(), change.to_string()];
        cells.extend(transfers.iter().chain(writes).map(|count| times(*count)));
        table.row(cells);
    }
    let title =
        format!("{}: {} against {}", difference.operation, difference.after, difference.before);
    let table = PageTable { wide: Wide::FirstColumns, ..PageTable::plain("", table, &[]) };
    let blocks = vec![Block::Table(table)].into_iter();
    let moved = (!moved.is_empty()).then_some(Block::Text(moved));
    Some(Section::open(&title, blocks.chain(moved).collect()))
}

fn warnings(traced: &Conflicts) -> Option<(String, Vec<String>)> {
    let sentences =
        traced.warnings.iter().map(|warning| format!("{}: {warning}", traced.operation));
    let sentences: Vec<String> = sentences.collect();
    (!sentences.is_empty()).then(|| ("Warnings".to_string(), sentences))
}

#[cfg(test)]
mod tests {
    use super::times;

    #[test]
    fn counts_read_as_a_person_would_say_them() {
        let cases = [
            (6.0, "6"),
            (5.996, "6"),
            (0.03125, "1 in 32"),
            (0.75, "0.75"),
            (2.5, "2.50"),
            (0.0, "0"),
        ];
        for (count, expected) in cases {
            assert_eq!(times(count), expected);
        }
    }
}
