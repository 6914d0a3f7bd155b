//! A drawn server: its language, shape and sizes, the limit planted in it, and the truth about it.

use std::collections::BTreeMap;

use anyhow::Result;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;
use serde::Serialize;

use super::language::Language;
use super::names::{draw_work, drawn_names};
use super::template::Fillings;
use super::truth::Truth;

/// What limits a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The holder of one mutex runs user code.
    Mutex,
    /// Most of a read-write lock's holders write.
    Rwlock,
    /// Threads write to neighbouring counters.
    SharedLine,
    /// One thread does most of each request, or formats the log of all.
    BusyThread,
    /// The CPU quota of the control group.
    Quota,
    /// All threads may run on one CPU only.
    Affinity,
    /// The holder of a mutex waits for the disk.
    IoLock,
    /// The holder of a mutex takes page faults.
    FaultLock,
    /// Real-time tasks take the CPU from the holder of a mutex.
    Preempted,
    /// A heap so small that it is collected all the time.
    Gc,
    /// One arena of malloc for all threads.
    Allocator,
    /// A lock of the kernel: a system call on one file or directory by all threads.
    Kernel,
    /// Python's interpreter lock.
    Interpreter,
    /// Nothing.
    Healthy,
}

impl Kind {
    /// Each kind as often as it shall be drawn.
    const DRAWN: &[Kind] = &[
        Kind::Mutex,
        Kind::Rwlock,
        Kind::SharedLine,
        Kind::BusyThread,
        Kind::Quota,
        Kind::Affinity,
        Kind::IoLock,
        Kind::FaultLock,
        Kind::Preempted,
        Kind::Gc,
        Kind::Allocator,
        Kind::Kernel,
        Kind::Interpreter,
        Kind::Healthy,
        Kind::Healthy,
        Kind::Healthy,
    ];

    /// The word of templates and tables.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::Rwlock => "rwlock",
            Kind::SharedLine => "shared_line",
            Kind::BusyThread => "busy_thread",
            Kind::Quota => "quota",
            Kind::Affinity => "affinity",
            Kind::IoLock => "io_lock",
            Kind::FaultLock => "fault_lock",
            Kind::Preempted => "preempted",
            Kind::Gc => "gc",
            Kind::Allocator => "allocator",
            Kind::Kernel => "kernel",
            Kind::Interpreter => "interpreter",
            Kind::Healthy => "healthy",
        }
    }

    fn languages(self) -> &'static [Language] {
        use Language::{C, Cpp, Go, Java, Python, Rust};
        match self {
            Kind::Mutex | Kind::BusyThread | Kind::IoLock | Kind::Kernel | Kind::Healthy => {
                &[C, Cpp, Go, Java, Python, Rust]
            }
            Kind::Quota => &[C, Cpp, Go, Java, Python, Rust],
            Kind::Rwlock | Kind::SharedLine | Kind::Affinity | Kind::Preempted => {
                &[C, Cpp, Go, Java, Rust]
            }
            Kind::FaultLock => &[C, Cpp, Go, Rust],
            Kind::Gc => &[Java, Java, Go, Go, Python],
            Kind::Allocator => &[C, Cpp, Rust],
            Kind::Interpreter => &[Python],
        }
    }

    /// Whether templates prepare something for it before they serve.
    fn is_prepared(self, language: Language, variant: &str) -> bool {
        match self {
            Kind::BusyThread => variant == "log_thread",
            Kind::Gc => language != Language::Python,
            Kind::IoLock | Kind::Allocator | Kind::Kernel => true,
            _ => false,
        }
    }

    /// Whether the shared state of the program has a lock of its own.
    pub fn has_lock(self) -> bool {
        use Kind::{FaultLock, IoLock, Mutex, Preempted, Rwlock};
        matches!(self, Mutex | Rwlock | IoLock | FaultLock | Preempted)
    }
}

/// Who calls the handler of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A thread for each connection.
    Connections,
    /// Workers that take requests from a queue.
    Pool,
    /// Workers that make their own work.
    Batch,
}

impl Shape {
    /// The word of templates and tables.
    pub fn word(self) -> &'static str {
        match self {
            Shape::Connections => "connections",
            Shape::Pool => "pool",
            Shape::Batch => "batch",
        }
    }
}

/// How a case is started with its limit and without.
#[derive(Clone, Default, Serialize)]
pub struct Start {
    /// Flags of the Java machine.
    pub flags: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// The only CPU.
    pub cpu: Option<usize>,
    /// Share of one CPU, and the period in µs.
    pub quota: Option<(f64, u64)>,
    /// Burst and period of the real-time tasks beside it, in ms.
    pub hog_ms: Option<(u64, u64)>,
}

/// A drawn server.
#[derive(Clone, Serialize)]
pub struct Case {
    pub seed: u64,
    pub index: usize,
    pub language: Language,
    pub kind: Kind,
    /// How the limit is planted, where that differs: `kernel_read`, `log_thread`, `lock_heap`.
    pub variant: String,
    pub shape: Shape,
    pub threads: u32,
    pub connections: u32,
    /// Between an answer and the next request, in µs.
    pub pause_us: u64,
    /// Whether the program has debug information.
    pub has_debug_information: bool,
    /// How it is started with the limit, and without.
    pub starts: [Start; 2],
    pub truth: Truth,
    #[serde(skip)]
    pub fillings: Fillings,
}

/// Draws `number` cases of the languages that can be built here, all kinds in turn.
pub fn drawn_cases(seed: u64, number: usize, languages: &[Language]) -> Result<Vec<Case>> {
    let mut random = Random::seed_from_u64(seed);
    let mut kinds = Vec::new();
    while kinds.len() < number {
        let mut round = Kind::DRAWN.to_vec();
        round.shuffle(&mut random);
        kinds.extend(round);
    }
    kinds.truncate(number);
    let case = |(index, kind): (usize, Kind)| {
        // Each case by itself, so that one can be drawn again without the others.
        let mut random = Random::seed_from_u64(seed ^ (index as u64 + 1).wrapping_mul(0x9E37_79B9));
        let usable: Vec<Language> =
            kind.languages().iter().copied().filter(|one| languages.contains(one)).collect();
        let language = usable.choose(&mut random).copied()?;
        Some(Case::draw(seed, index, kind, language, &mut random))
    };
    kinds.into_iter().enumerate().filter_map(case).collect()
}

impl Case {
    fn draw(
        seed: u64,
        index: usize,
        kind: Kind,
        language: Language,
        random: &mut Random,
    ) -> Result<Case> {
        let variant = drawn_variant(kind, language, random);
        let mut case = Case {
            seed,
            index,
            language,
            kind,
            shape: drawn_shape(kind, variant, random),
            variant: variant.to_string(),
            threads: drawn_threads(kind, random),
            connections: 0,
            pause_us: 0,
            has_debug_information: random.random(),
            starts: Default::default(),
            truth: Truth::default(),
            fillings: drawn_names(random),
        };
        let is_pool = case.shape == Shape::Pool;
        let waiting = if is_pool { random.random_range(0..=case.threads) } else { 0 };
        case.connections = case.threads + waiting;
        draw_work(random, &mut case.fillings);
        case.draw_words(random);
        case.draw_sizes(random);
        case.draw_starts(random);
        case.draw_pools(random);
        case.truth = Truth::of(&case)?;
        Ok(case)
    }

    /// One line about the case.
    pub fn name(&self) -> String {
        let Case { seed, index, language, kind, variant, shape, threads, .. } = self;
        let variant = if variant.is_empty() { String::new() } else { format!(" ({variant})") };
        let (language, kind, shape) = (language.word(), kind.word(), shape.word());
        format!("{seed}/{index} {language} {kind}{variant}, {shape}, {threads} threads")
    }

    /// A short name for tables.
    pub fn kind_name(&self) -> String {
        let words = [self.language.word(), self.kind.word(), &self.variant];
        words.join(" ").trim().to_string()
    }

    fn draw_words(&mut self, random: &mut Random) {
        let fillings = &mut self.fillings;
        for word in [self.kind.word(), &self.variant, self.shape.word(), self.language.word()] {
            fillings.word(word);
        }
        // Without a variant, the lock lies somewhere all the same.
        if self.kind.has_lock() && !self.variant.starts_with("lock_") {
            fillings.word("lock_global");
        }
        if self.kind.is_prepared(self.language, &self.variant) {
            fillings.word("prepared");
        }
        for word in ["decoy", "unix_socket", "volatile_counts", "monitor"] {
            if random.random() {
                fillings.word(word);
            }
        }
        if self.kind == Kind::Interpreter {
            fillings.word("processes");
        }
    }

    fn draw_sizes(&mut self, random: &mut Random) {
        let is_python = self.language == Language::Python;
        let hold_us: u32 = match self.kind {
            Kind::IoLock => random.random_range(4..12),
            Kind::FaultLock => random.random_range(5..15),
            Kind::Mutex if is_python => random.random_range(50..150),
            _ => random.random_range(60..300),
        };
        let first_us = hold_us * random.random_range(2..8) / 10;
        let outside_us = match self.kind {
            Kind::FaultLock | Kind::SharedLine | Kind::Allocator | Kind::Kernel | Kind::Gc => {
                random.random_range(4..12)
            }
            Kind::Healthy | Kind::Quota | Kind::Affinity => random.random_range(20..200),
            _ => (hold_us / random.random_range(6..12)).max(2),
        };
        let rounds = match self.kind {
            Kind::IoLock => 1,
            Kind::Mutex if is_python => 1,
            Kind::Kernel | Kind::FaultLock | Kind::SharedLine | Kind::Allocator | Kind::Gc => {
                random.random_range(6..14)
            }
            _ => (random.random_range(1000..3000) / (hold_us + outside_us)).max(1),
        };
        let kernel_bytes: u32 = *[65536, 131_072, 262_144].choose(random).expect("there are some");
        // Between short calls, threads of Python wait for the interpreter.
        let kernel_bytes = if is_python { 8 * kernel_bytes } else { kernel_bytes };
        let live_trees = match self.language {
            Language::Java => random.random_range(300..500),
            _ => random.random_range(60..120),
        };
        let sizes = [
            ("threads", self.threads),
            ("connections", self.connections),
            ("inner_us", first_us.max(1)),
            ("inner2_us", (hold_us - first_us).max(1)),
            ("outside_us", outside_us),
            ("rounds", rounds),
            ("line_rounds", random.random_range(20_000..50_000)),
            ("io_bytes", 4096 << random.random_range(0..4)),
            ("fault_pages", random.random_range(64..400)),
            ("allocations", random.random_range(200..600)),
            ("allocation_spread", random.random_range(3000..30_000)),
            ("kernel_bytes", kernel_bytes),
            ("kernel_rounds", 4),
            ("live_trees", live_trees),
            ("live_objects", random.random_range(5000..20_000)),
            ("gc_rounds", random.random_range(40..100)),
            ("sleep_us", random.random_range(500..3000)),
        ];
        for (role, size) in sizes {
            self.fillings.text(role, size);
        }
        if self.variant == "low_load" {
            // All connections together keep a CPU busy for a tenth to a quarter of the time: an interpreter's lock, too, is
            // free for most of it.
            let request_us = rounds * (hold_us + outside_us);
            let load = random.random_range(0.1..0.25);
            self.pause_us = (f64::from(self.connections * request_us) / load) as u64;
        }
    }

    /// Draws whether there is a pool of threads without work, and whether Python's workers are those of its library.
    fn draw_pools(&mut self, random: &mut Random) {
        let pools = ["idle_pool", "executor"];
        pools.into_iter().filter(|_| random.random()).for_each(|word| self.fillings.word(word));
    }

    fn draw_starts(&mut self, random: &mut Random) {
        let [limited, free] = &mut self.starts;
        match self.kind {
            Kind::Quota => {
                let period_us = *[20_000, 50_000, 100_000].choose(random).expect("some");
                limited.quota = Some((random.random_range(0.25..0.5), period_us));
            }
            Kind::Affinity => limited.cpu = Some(random.random_range(0..2)),
            Kind::Preempted => {
                let period_ms: u64 = random.random_range(12..40);
                limited.hog_ms = Some((period_ms * 65 / 100, period_ms));
            }
            Kind::Allocator => {
                limited.environment.insert("MALLOC_ARENA_MAX".into(), "1".into());
            }
            Kind::Gc if self.language == Language::Go => {
                limited.environment.insert("GOGC".into(), random.random_range(4..10).to_string());
                free.environment.insert("GOGC".into(), "1000".into());
            }
            _ => (),
        }
        if self.language != Language::Java {
            return;
        }
        let collector = ["-XX:+UseSerialGC", "-XX:+UseParallelGC"].choose(random).expect("two");
        if self.kind == Kind::Gc {
            // A tree of depth 10 has 2047 nodes of 32 bytes.
            let trees: u64 = self
                .fillings
                .written("live_trees", super::template::Style::Snake)
                .ok()
                .and_then(|trees| trees.parse().ok())
                .unwrap_or(400);
            let live_mb = trees * 2047 * 32 / 1_000_000;
            limited.flags = vec![collector.to_string(), format!("-Xmx{}m", live_mb * 3 / 2)];
            free.flags = vec![
                collector.to_string(),
                "-Xms1500m".into(),
                "-Xmx1500m".into(),
                "-Xmn1200m".into(),
            ];
        } else {
            for start in &mut self.starts {
                start.flags = vec!["-Xmx256m".to_string()];
            }
        }
    }
}

fn drawn_variant(kind: Kind, language: Language, random: &mut Random) -> &'static str {
    let is_c = matches!(language, Language::C | Language::Cpp);
    let is_native = !matches!(language, Language::Java | Language::Python);
    let choices: &[&'static str] = match kind {
        Kind::BusyThread if is_c => &["log_thread", "dispatch_thread"],
        Kind::BusyThread => &["log_thread"],
        Kind::Kernel if !is_native => &["kernel_write"],
        Kind::Kernel => &["kernel_write", "kernel_allocate", "kernel_read"],
        Kind::Healthy if language == Language::Python => &["low_load"],
        Kind::Healthy => &["all_cpus", "all_cpus", "low_load"],
        _ if kind.has_lock() && is_native => &["lock_global", "lock_member", "lock_heap"],
        _ => &[""],
    };
    choices.choose(random).expect("there are some")
}

fn drawn_shape(kind: Kind, variant: &str, random: &mut Random) -> Shape {
    let shapes: &[Shape] = match (kind, variant) {
        (_, "dispatch_thread") => &[Shape::Pool],
        (_, "low_load") => &[Shape::Connections, Shape::Pool],
        // Without the limit, these fork, which a server with connections cannot.
        (Kind::Interpreter, _) => &[Shape::Batch],
        _ => &[Shape::Connections, Shape::Connections, Shape::Pool, Shape::Pool, Shape::Batch],
    };
    *shapes.choose(random).expect("there are some")
}

fn drawn_threads(kind: Kind, random: &mut Random) -> u32 {
    match kind {
        Kind::SharedLine => random.random_range(2..=4),
        Kind::Allocator | Kind::Kernel | Kind::Interpreter => random.random_range(2..=8),
        Kind::Quota | Kind::Affinity | Kind::Gc | Kind::Healthy => random.random_range(2..=10),
        _ => random.random_range(3..=16),
    }
}
