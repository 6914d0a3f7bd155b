//! A recording for the Firefox Profiler (profiler.firefox.com, or the same pages offline), in its
//! processed profile format, version 48, which newer versions upgrade: docs-developer/ and
//! src/types/profile.ts of github.com/firefox-devtools/profiler.

use std::collections::{BTreeMap, HashMap};

use records::recording::{PerfSample, Recording};
use serde_json::{Value, json};

use crate::recording::{NamedRecording, is_idle, task};

const VERSION: u32 = 48;
/// Indices into the categories below.
const CATEGORY_USER: u32 = 0;
const CATEGORY_KERNEL: u32 = 1;
const CATEGORY_IDLE: u32 = 2;

/// The profile as JSON text.
pub fn firefox(named: &NamedRecording) -> String {
    let recording = named.recording;
    let (start, end) = recording.span_ns();
    // The idle tasks of all CPUs have one number; here each is a thread of its own.
    let key = |sample: &PerfSample| {
        (sample.pid, sample.tid, if is_idle(sample) { sample.cpu } else { 0 })
    };
    let mut threads: BTreeMap<(i32, i32, u32), Vec<&PerfSample>> = BTreeMap::new();
    for sample in &recording.samples {
        threads.entry(key(sample)).or_default().push(sample);
    }
    let threads: Vec<Value> =
        threads.values().map(|samples| thread(recording, samples, (start, end))).collect();
    let category =
        |name: &str, color: &str| json!({"name": name, "color": color, "subcategories": ["Other"]});
    let interval = recording.event.hertz.map_or(1.0, |hertz| 1e3 / hertz.max(1) as f64);
    let profile = json!({
        "meta": {
            "categories": [category("User", "yellow"), category("Kernel", "orange"), category("Idle", "transparent")],
            "debug": false,
            "extensions": {"baseURL": [], "id": [], "length": 0, "name": []},
            "interval": interval,
            "preprocessedProfileVersion": VERSION,
            "processType": 0,
            "product": named.name,
            "oscpu": format!("Linux {}", recording.origin.release),
            "startTime": 0.0,
            "symbolicated": true,
            "stackwalk": 1,
            "version": 27,
            "usesOnlyOneStackType": true,
            "doesNotUseFrameImplementation": true,
            "sourceCodeIsNotOnSearchfox": true,
            "markerSchema": [],
        },
        "libs": [],
        "pages": [],
        "threads": threads,
        "counters": [],
    });
    profile.to_string() + "\n"
}

/// Tables of one thread; stacks are a tree, in which each node names its caller.
#[derive(Default)]
struct Tables<'a> {
    strings: Vec<&'a str>,
    string_index: HashMap<&'a str, u32>,
    /// String and resource of each function.
    functions: Vec<(u32, u32)>,
    function_index: HashMap<u32, u32>,
    /// The object of each resource.
    resources: Vec<u32>,
    resource_index: HashMap<u32, u32>,
    /// Function and category of each frame.
    frames: Vec<(u32, u32)>,
    frame_index: HashMap<(u32, u32), u32>,
    /// Caller and frame of each stack.
    stacks: Vec<(Option<u32>, u32)>,
    stack_index: HashMap<(Option<u32>, u32), u32>,
    chain_index: HashMap<(u32, u32), Option<u32>>,
}

/// The index of a key in a table; what is new goes to its end.
fn intern<K: std::hash::Hash + Eq, T>(
    index: &mut HashMap<K, u32>,
    table: &mut Vec<T>,
    key: K,
    new: T,
) -> u32 {
    *index.entry(key).or_insert_with(|| {
        table.push(new);
        table.len() as u32 - 1
    })
}

impl<'a> Tables<'a> {
    fn string(&mut self, text: &'a str) -> u32 {
        intern(&mut self.string_index, &mut self.strings, text, text)
    }

    fn function(&mut self, recording: &'a Recording, function: u32) -> u32 {
        if let Some(index) = self.function_index.get(&function) {
            return *index;
        }
        let object = recording.functions[function as usize].object;
        let name = self.string(&recording.functions[function as usize].name);
        let resource = intern(&mut self.resource_index, &mut self.resources, object, object);
        intern(&mut self.function_index, &mut self.functions, function, (name, resource))
    }

    /// The stack of a chain, from the outermost frame inwards.
    fn stack(&mut self, recording: &'a Recording, chain: u32, idle: bool) -> Option<u32> {
        let key = (chain, u32::from(idle));
        if let Some(stack) = self.chain_index.get(&key) {
            return *stack;
        }
        let kernel = recording.chains.kernel_frames(chain);
        let mut stack = None;
        for (depth, location) in recording.chains.locations(chain).iter().enumerate().rev() {
            let category = match depth < kernel {
                _ if idle => CATEGORY_IDLE,
                true => CATEGORY_KERNEL,
                false => CATEGORY_USER,
            };
            let function = recording.locations[*location as usize].function;
            let frame = (self.function(recording, function), category);
            let frame = intern(&mut self.frame_index, &mut self.frames, frame, frame);
            let node = (stack, frame);
            stack = Some(intern(&mut self.stack_index, &mut self.stacks, node, node));
        }
        self.chain_index.insert(key, stack);
        stack
    }
}

fn thread(recording: &Recording, samples: &[&PerfSample], (start, end): (u64, u64)) -> Value {
    let first = samples[0];
    let mut tables = Tables::default();
    let stack = |sample: &&PerfSample| tables.stack(recording, sample.chain, is_idle(sample));
    let stacks: Vec<Option<u32>> = samples.iter().map(stack).collect();
    let ms = |ns: u64| (ns - start) as f64 / 1e6;
    let idle = is_idle(first);
    let name =
        if idle { format!("idle, CPU {}", first.cpu) } else { task(recording, first).to_string() };
    // The last name of a task is the one that people know.
    let name =
        samples.last().filter(|_| !idle).map_or(name, |last| task(recording, last).to_string());
    let times: Vec<f64> = samples.iter().map(|sample| ms(sample.time_ns)).collect();
    json!({
        "processType": "default",
        "processName": name,
        "processStartupTime": 0.0,
        "processShutdownTime": ms(end),
        "registerTime": 0.0,
        "unregisterTime": ms(end),
        "pausedRanges": [],
        "name": name,
        "isMainThread": first.pid == first.tid,
        "pid": first.pid.to_string(),
        "tid": if idle { i64::from(first.cpu) } else { i64::from(first.tid) },
        "showMarkersInTimeline": false,
        "samples": {
            "length": samples.len(),
            "stack": stacks,
            "time": times,
            "weight": null,
            "weightType": "samples",
        },
        "markers": {
            "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [],
        },
        "stackTable": stack_table(&tables),
        "frameTable": frame_table(&tables),
        "funcTable": function_table(&tables),
        "resourceTable": resource_table(recording, &mut tables),
        "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
        "stringArray": tables.strings,
    })
}

fn column<T, V: Into<Value>>(rows: &[T], value: impl Fn(&T) -> V) -> Value {
    Value::Array(rows.iter().map(|row| value(row).into()).collect())
}

fn stack_table(tables: &Tables) -> Value {
    let category = |(_, frame): &(Option<u32>, u32)| tables.frames[*frame as usize].1;
    json!({
        "length": tables.stacks.len(),
        "prefix": column(&tables.stacks, |(caller, _)| *caller),
        "frame": column(&tables.stacks, |(_, frame)| *frame),
        "category": column(&tables.stacks, category),
        "subcategory": column(&tables.stacks, |_| 0),
    })
}

fn frame_table(tables: &Tables) -> Value {
    let nothing = || column(&tables.frames, |_| Value::Null);
    json!({
        "length": tables.frames.len(),
        "address": column(&tables.frames, |_| -1),
        "inlineDepth": column(&tables.frames, |_| 0),
        "category": column(&tables.frames, |(_, category)| *category),
        "subcategory": column(&tables.frames, |_| 0),
        "func": column(&tables.frames, |(function, _)| *function),
        "nativeSymbol": nothing(),
        "innerWindowID": nothing(),
        "implementation": nothing(),
        "line": nothing(),
        "column": nothing(),
    })
}

fn function_table(tables: &Tables) -> Value {
    let nothing = || column(&tables.functions, |_| Value::Null);
    json!({
        "length": tables.functions.len(),
        "name": column(&tables.functions, |(name, _)| *name),
        "isJS": column(&tables.functions, |_| false),
        "relevantForJS": column(&tables.functions, |_| false),
        "resource": column(&tables.functions, |(_, resource)| *resource),
        "fileName": nothing(),
        "lineNumber": nothing(),
        "columnNumber": nothing(),
    })
}

/// Files that code lies in, as libraries.
fn resource_table<'a>(recording: &'a Recording, tables: &mut Tables<'a>) -> Value {
    const LIBRARY: u32 = 1;
    let objects = tables.resources.clone();
    let names: Vec<u32> =
        objects.iter().map(|object| tables.string(recording.object_name(*object))).collect();
    json!({
        "length": names.len(),
        "lib": column(&names, |_| Value::Null),
        "name": names,
        "host": column(&names, |_| Value::Null),
        "type": column(&names, |_| LIBRARY),
    })
}
