//! `knee check --orderings`: which orders of accesses are needed, shown by executions, and a weakest set of them.

use std::collections::BTreeSet;
use std::process::ExitCode;

use answers::{AccessOrder, OrderRefutation, OrderSet, OrderedAlgorithm, SearchedTasks};
use anyhow::Result;
use engines::checker::{Failure, Fault, Memory};
use engines::{Ordered, Ordering, Unsupported};
use host::terminal::hint;
use pages::{Block, Page, PageKind, PageTable, Section, ViewFlags};
use studies::checks::CheckSize;
use studies::checks::orderings::{Judged, JudgedOrder, Orderings, Refutation, WeakestSet, judge};
use text::prose::counted;
use text::table::{Align, Table};

use super::{Checkable, CompilerFlags, NOT_CHECKED, c_files, page, subject};

/// An algorithm, and its orders.
struct Answer {
    name: String,
    orders: std::result::Result<Orderings, Refused>,
}

/// Why orders were not judged.
struct Refused {
    verdict: &'static str,
    why: String,
    way_out: String,
}

/// Judges the orders of each, and prints them. The status is 1 if one has a fault as it is, else [`NOT_CHECKED`] if one
/// could not be judged.
pub fn run(
    subjects: &[Checkable],
    memory: Memory,
    flags: &CompilerFlags,
    view: &ViewFlags,
) -> Result<ExitCode> {
    let mut all = Vec::new();
    for file in subjects {
        let name = c_files::name(file);
        hint(format_args!("judging orders of {name} …"));
        let orders = orders(file, memory, flags)?;
        all.push(Answer { name, orders });
    }
    view.print(
        || Ok(answers::Orderings(all.iter().map(algorithm).collect())),
        || Ok(results(&all, memory)),
    )?;
    let any = |verdict: &str| {
        all.iter().any(|one| one.orders.as_ref().is_err_and(|why| why.verdict == verdict))
    };
    Ok(if any(WRONG) {
        ExitCode::FAILURE
    } else if any(NOT_JUDGED) {
        ExitCode::from(NOT_CHECKED)
    } else {
        ExitCode::SUCCESS
    })
}

const WRONG: &str = "wrong";
const NOT_JUDGED: &str = "not checked";

fn orders(
    file: &Checkable,
    memory: Memory,
    flags: &CompilerFlags,
) -> Result<std::result::Result<Orderings, Refused>> {
    let judged = subject(file).and_then(|subject| judge(subject, memory));
    let refused = match judged {
        Ok(Judged::Orders(orders)) => return Ok(Ok(orders)),
        Ok(Judged::Faulty(CheckSize { threads, acquires, locks }, failure)) => {
            let locks = if locks > 1 { format!(" --locks {locks}") } else { String::new() };
            Refused {
                verdict: WRONG,
                why: failure.fault.to_string(),
                way_out: format!(
                    "see knee check {} --threads {threads} --acquires {acquires}{locks} --memory {}{}",
                    c_files::as_argument(file),
                    page::memory(memory),
                    flags.to_line()
                ),
            }
        }
        Err(error) => {
            let Some(Unsupported { why, way_out }) = error.downcast_ref::<Unsupported>() else {
                return Err(error);
            };
            Refused { verdict: NOT_JUDGED, why: why.to_string(), way_out: way_out.to_string() }
        }
    };
    Ok(Err(refused))
}

/// An order, in the words of C. A fence without one is none.
fn word(ordered: Ordered, order: Ordering) -> &'static str {
    match (ordered, order) {
        (Ordered::Fence, Ordering::Relaxed) => "none",
        (_, Ordering::Relaxed) => "relaxed",
        (_, Ordering::Acquire) => "acquire",
        (_, Ordering::Release) => "release",
        (_, Ordering::AcqRel) => "acq_rel",
        _ => "seq_cst",
    }
}

impl Answer {
    fn accesses(&self) -> &[JudgedOrder] {
        self.orders.as_ref().map_or(&[], |orders| &orders.accesses)
    }
}

fn is_needed(one: &JudgedOrder) -> bool {
    one.alone == one.today && one.unknown.is_empty()
}

/// Needed, but a search of x86 cannot tell.
fn is_needed_beyond_x86(one: &JudgedOrder) -> bool {
    is_needed(one) && one.on_x86.is_some_and(|on_x86| on_x86 != one.today)
}

fn place(one: &JudgedOrder, has_several_files: bool) -> String {
    if has_several_files { one.access.site.to_string() } else { one.access.site.line.to_string() }
}

fn has_several_files(accesses: &[JudgedOrder]) -> bool {
    accesses.iter().map(|one| one.access.site.file).collect::<BTreeSet<_>>().len() > 1
}

// The page.

fn results(all: &[Answer], memory: Memory) -> Page {
    let (mut answers, mut sections) = (Vec::new(), Vec::new());
    for one in all {
        match &one.orders {
            Ok(orders) => {
                answers.extend(sentences(&one.name, orders));
                if !orders.accesses.is_empty() {
                    sections.push(section(&one.name, orders));
                    sections.extend(executions(orders));
                }
            }
            Err(Refused { verdict, why, way_out }) => {
                let said = if *verdict == WRONG { "is WRONG as it is" } else { "not judged" };
                answers.push(format!("{}: {said}: {why}", one.name));
                answers.push(format!("way out: {way_out}"));
            }
        }
    }
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let title = format!("orders of {}", names.join(", "));
    let method = if sections.is_empty() { Vec::new() } else { method(memory) };
    Page { answers, sections, method, ..Page::new(&title, PageKind::Check) }
}

fn method(memory: Memory) -> Vec<String> {
    let model = page::memory(memory);
    let mut method = vec![
        format!(
            "alone: the weakest order that holds under {model} while the others stay; set: all weakened at a time; \
             without it: what a weaker order fails with, tasks×acquires"
        ),
        "a fault that takes more tasks than were searched is not found".to_string(),
    ];
    if memory == Memory::Rc11 {
        method.push(
            "x86: the weakest under --memory x86, where plain accesses, too, must be ordered by the language's rules"
                .to_string(),
        );
    } else {
        method.push(format!("what is as good weaker under {model} may be needed under rc11"));
    }
    method
}

/// The answers about one algorithm.
fn sentences(name: &str, orders: &Orderings) -> Vec<String> {
    let Orderings { accesses, set, .. } = orders;
    if accesses.is_empty() {
        let why = "it has no order of its own: what it is built from has, or nothing does";
        return vec![format!("{name}: {why}")];
    }
    let several = has_several_files(accesses);
    let places = |test: &dyn Fn(&JudgedOrder) -> bool| {
        let those = accesses.iter().filter(|one| test(one));
        those.map(|one| place(one, several)).collect::<Vec<_>>()
    };
    let count = |test: &dyn Fn(&JudgedOrder) -> bool| places(test).len();
    let weaker = count(&|one| one.alone != one.today && one.alone != Ordering::Relaxed);
    let mut first = format!(
        "{name}: {} of {} needed {} as they are",
        count(&is_needed),
        counted(accesses.len(), "order"),
        model(orders.memory)
    );
    if weaker > 0 {
        first += &format!(", {weaker} in a weaker form");
    }
    let mut answers = vec![first];
    let mut list = |said: &str, places: Vec<String>| {
        if !places.is_empty() {
            answers.push(format!("{said}: {}", lines(&places, several)));
        }
    };
    list("as good weaker", places(&|one| one.alone != one.today));
    list(
        "not known, as the search gave up",
        places(&|one| one.alone == one.today && !one.unknown.is_empty()),
    );
    list("not needed on x86, needed by C11 (see the executions)", places(&is_needed_beyond_x86));
    answers.push(set_sentence(orders, set));
    answers
}

fn lines(places: &[String], has_files: bool) -> String {
    let what = match (has_files, places.len()) {
        (true, _) => "",
        (false, 1) => "line ",
        (false, _) => "lines ",
    };
    format!("{what}{}", places.join(", "))
}

fn model(memory: Memory) -> &'static str {
    match memory {
        Memory::Rc11 => "by C11 (rc11)",
        Memory::Armv8 => "on armv8",
        Memory::Lkmm => "by the kernel's model (lkmm)",
        Memory::LkmmUntil62 => "by the kernel's model until Linux 6.2 (lkmm-6.2)",
        Memory::TotalStoreOrder => "on x86",
        Memory::SequentiallyConsistent => "under sc",
    }
}

fn set_sentence(orders: &Orderings, set: &WeakestSet) -> String {
    let weaker = orders.accesses.iter().filter(|one| one.in_set != one.today).count();
    let what = match weaker {
        0 => "nothing can be weaker".to_string(),
        1 => "1 order weaker".to_string(),
        weaker => format!("{weaker} orders weaker at a time"),
    };
    let how = match set.of {
        Some(1) => "the only weakest set of all".to_string(),
        Some(sets) => format!("the cheapest of {sets} weakest sets"),
        None => "found one after the other, the costliest first: others may be as weak".to_string(),
    };
    match &set.failure {
        None if weaker == 0 => format!("weakest set: {what}"),
        None => format!("weakest set: {what}, {how}; it holds"),
        Some(failure) => {
            format!("weakest set: {what}, {how}; its last check FAILS: {}", failure.fault)
        }
    }
}

/// Sizes as `2×1, 3×1`.
fn sizes(sizes: &[CheckSize]) -> String {
    let said: Vec<String> = sizes.iter().map(tasks).collect();
    said.join(", ")
}

fn tasks(size: &CheckSize) -> String {
    let CheckSize { threads, acquires, locks } = *size;
    let locks = if locks > 1 { format!(" ({locks} locks)") } else { String::new() };
    format!("{threads}×{acquires}{locks}")
}

/// All accesses of an algorithm.
fn section(name: &str, orders: &Orderings) -> Section {
    let Orderings { accesses, sizes: [whole, partial], set, .. } = orders;
    let has_x86 = accesses.iter().any(|one| one.on_x86.is_some());
    let mut columns = vec![
        ("line", Align::Right),
        ("access", Align::Left),
        ("today", Align::Left),
        ("alone", Align::Left),
    ];
    columns.extend(has_x86.then_some(("x86", Align::Left)));
    columns.extend(["set", "without it", "source"].map(|name| (name, Align::Left)));
    let mut table = Table::new(columns);
    let several = has_several_files(accesses);
    for one in accesses {
        let ordered = one.access.ordered;
        let word = |order| word(ordered, order).to_string();
        let short = match ordered {
            Ordered::Update => "rmw",
            Ordered::Failure => "rmw fails",
            _ => ordered.word(),
        };
        let mut row =
            vec![place(one, several), short.to_string(), word(one.today), word(one.alone)];
        row.extend(one.on_x86.map(word));
        row.extend([word(one.in_set), without(one), one.line.clone()]);
        table.row(row);
    }
    let mut searched = format!("searched whole: {}", sizes(whole));
    if !partial.is_empty() {
        searched += &format!("; in part: {}", sizes(partial));
    }
    let last = format!(
        "{} searched for the weakest; its last check took {} states",
        counted(set.searched, "set"),
        set.states
    );
    let blocks = vec![Block::Table(PageTable::of_prose(table)), Block::Text(vec![searched, last])];
    Section::open(&format!("Orders of {name}"), blocks)
}

/// What fails without an order, in a cell.
fn without(one: &JudgedOrder) -> String {
    let several = one.refutations.len() > 1;
    let said = |Refutation { order, size, failure }: &Refutation| {
        let only =
            if several { format!("{}: ", word(one.access.ordered, *order)) } else { String::new() };
        format!("{only}{} {}", failure.fault.word(), tasks(size))
    };
    let said: Vec<String> = one.refutations.iter().map(said).collect();
    said.join(", ")
}

/// The executions that show what x86 does not need, and the faults of all others.
fn executions(orders: &Orderings) -> Vec<Section> {
    let accesses = &orders.accesses;
    let several = has_several_files(accesses);
    let said = |one: &JudgedOrder, Refutation { order, failure, .. }: &Refutation| {
        let line = if several { "" } else { "line " };
        let order = word(one.access.ordered, *order);
        format!("{line}{}, {order}: {}", place(one, several), failure.fault)
    };
    let (mut faults, mut sections) = (Vec::new(), Vec::new());
    for one in accesses {
        for refutation in &one.refutations {
            faults.push(said(one, refutation));
            if is_needed_beyond_x86(one) {
                sections.push(execution(one, refutation, several));
            }
        }
    }
    if !faults.is_empty() {
        sections.insert(0, Section::open("Faults of weaker orders", vec![Block::Text(faults)]));
    }
    sections
}

fn execution(one: &JudgedOrder, refutation: &Refutation, has_several_files: bool) -> Section {
    let Refutation { order, size, failure } = refutation;
    let Failure { fault, steps, .. } = failure;
    let line = if has_several_files { "" } else { "line " };
    let title = format!(
        "Execution: {line}{} {} instead of {}, {}",
        place(one, has_several_files),
        word(one.access.ordered, *order),
        word(one.access.ordered, one.today),
        tasks(size),
    );
    let fault = Block::Text(vec![Fault::to_string(fault)]);
    Section::open(&title, vec![page::trace(steps), fault])
}

// Data.

fn algorithm(answer: &Answer) -> OrderedAlgorithm {
    let name = answer.name.clone();
    let accesses = answer.accesses().iter().map(access).collect();
    match &answer.orders {
        Ok(Orderings { memory, sizes: [whole, partial], set, .. }) => OrderedAlgorithm::Judged {
            name,
            memory: page::memory(*memory),
            searched: whole.iter().map(searched).collect(),
            partly_searched: partial.iter().map(searched).collect(),
            accesses,
            weakest_set: OrderSet {
                method: if set.of.is_some() { "exhaustive" } else { "greedy" },
                weakest_sets: set.of,
                sets_searched: set.searched,
                states: set.states,
                fault: set.failure.as_ref().map(|failure| failure.fault.to_string()),
            },
        },
        Err(Refused { verdict, why, way_out }) => OrderedAlgorithm::NotChecked {
            name,
            verdict,
            why: why.clone(),
            way_out: way_out.clone(),
        },
    }
}

fn searched(size: &CheckSize) -> SearchedTasks {
    let CheckSize { threads, acquires, locks } = *size;
    SearchedTasks { threads, acquires, locks }
}

fn access(one: &JudgedOrder) -> AccessOrder {
    let word = |order| word(one.access.ordered, order);
    let refutation = |Refutation { order, size, failure }: &Refutation| OrderRefutation {
        order: word(*order),
        fault: failure.fault.to_string(),
        tasks: searched(size),
        interleaving: failure.steps.clone(),
        shortest: failure.is_shortest,
    };
    let file = one.access.site.file;
    AccessOrder {
        file: file.rsplit('/').next().unwrap_or(file).to_string(),
        line: one.access.site.line,
        source: one.line.clone(),
        access: one.access.ordered.word(),
        today: word(one.today),
        alone: word(one.alone),
        on_x86: one.on_x86.map(word),
        in_set: word(one.in_set),
        needed: is_needed(one),
        unknown: one.unknown.iter().map(|&order| word(order)).collect(),
        refutations: one.refutations.iter().map(refutation).collect(),
    }
}
