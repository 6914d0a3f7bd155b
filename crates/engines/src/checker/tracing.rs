//! Writes the trace of the live state: see `trace`.

use machine::{CodeSite, Op};

use super::failure::Fault;
use super::happens_before::Unordered;
use super::request::{Reply, Request, RequestKind};
use super::trace::{PastAccess, step_line};
use super::world::World;

impl World {
    /// Notes an access, where the steps are wanted.
    pub fn note(&mut self, access: PastAccess) {
        if let Some(trace) = &mut self.trace {
            trace.past.push(access);
        }
    }

    pub fn trace_line(&mut self, line: String, site: Option<CodeSite>) {
        if let Some(trace) = &mut self.trace {
            trace.steps.push(line);
            trace.sites.push(site);
        }
    }

    /// A step that was taken, with its reply; before, the word held this value.
    pub fn trace_result(
        &mut self,
        task: usize,
        request: &Request,
        before: u64,
        reply: Reply,
        was_buffered: bool,
        note: &str,
    ) {
        let result = match (was_buffered, reply.held) {
            (true, _) => "-> store buffer".to_string(),
            (false, true) => format!("-> {}{note}", reply.value),
            (false, false) => format!("-> {}, timed out{note}", reply.value),
        };
        // Under weak memory the value that was read may be an old one.
        let is_store = matches!(request.kind, RequestKind::Access(Op::Store(_)));
        let before = if self.is_weak && !is_store { reply.value } else { before };
        self.trace_step(task, request, before, &result);
    }

    /// A step on a word, which held `before`, with what came of it.
    pub fn trace_step(&mut self, task: usize, request: &Request, before: u64, result: &str) {
        if self.trace.is_none() {
            return;
        }
        let Request { kind, offset, size, location, .. } = *request;
        let name = if size > 0 { self.layout.name(offset, size) } else { String::new() };
        let parts = match kind {
            RequestKind::Access(op) => match op.written(before, size) {
                Some(after) => self.layout.changes(offset, size, before, after),
                None => self.layout.parts(offset, size, before),
            },
            RequestKind::Await(_) | RequestKind::AwaitFor(_) => {
                self.layout.parts(offset, size, before)
            }
            _ => String::new(),
        };
        let step = self.with_names(&format!("{name} {kind} {result}{parts}"));
        self.trace_line(step_line(task, &step, location), Some(location));
    }

    /// The oldest store of each task that waits in its buffer.
    fn buffered(&self) -> Vec<String> {
        let of = |task: usize| {
            let oldest = self.state.buffered_stores(task).first();
            oldest.map(move |store| {
                format!("t{task} {}", self.written(store.offset, store.size, store.value))
            })
        };
        (0..self.tasks()).filter_map(of).collect()
    }

    /// A plain write, or a buffered one that becomes visible.
    pub fn written(&self, offset: u32, size: u8, value: u64) -> String {
        self.with_names(&format!("{} = {value}", self.layout.name(offset, size)))
    }

    /// A step in which numbers that are addresses of words are written as `&node[1].next`: algorithms in C keep pointers.
    fn with_names(&self, step: &str) -> String {
        let name = |word: &str| {
            let offset = word.parse::<u64>().ok()?.checked_sub(self.base_address())?;
            Some(format!("&{}", self.layout.name_at(u32::try_from(offset).ok()?)?))
        };
        let words = step.split(' ').map(|word| name(word).unwrap_or(word.to_string()));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Reports an access that is not ordered after another one: both and what is missing, where the steps are wanted.
    pub fn report_race(&mut self, now: &PastAccess, word: usize, unordered: Unordered) {
        let PastAccess { task, site, .. } = now;
        let begin = format!("t{task} {} {} at {site}", now.verb(), self.layout.words[word].name);
        let buffered = self.buffered();
        let trace = self.trace.as_mut();
        let more = trace.and_then(|it| it.find_race(&self.layout, now, word, unordered, &buffered));
        let why = more.map_or_else(
            || {
                let other = match unordered {
                    Unordered::Write => "the last plain write".to_string(),
                    Unordered::Read(reader) => format!("the last read by t{reader}"),
                };
                format!("{begin}, not ordered after {other}")
            },
            |more| format!("{begin}; {more}"),
        );
        self.report_fault(Fault::Race(why));
    }
}
