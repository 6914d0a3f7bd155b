//! A small fuzzer: it damages valid examples, and finds inputs on which a reader panics, allocates an
//! absurd amount of memory, or does not read back what it has written.
//!
//!     KNEE_FUZZ_INPUTS   number of inputs that all fuzzing tests share (12 000; `make fuzz` has more)
//!     KNEE_SEED          seed of the series of inputs (1)
//!     KNEE_FUZZ_INPUT    number of the only input to feed, which is printed

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

/// Number of inputs of which each fuzzing test says its share.
const INPUTS: u64 = 200_000;

/// Default number of inputs of all fuzzing tests together.
const FEW: u64 = 12_000;

/// Feeds damaged examples to `feed`, on all CPUs. `feed` gets the fuzzer of one input, and returns what
/// is wrong. `share` is this test's part of [`INPUTS`], `replay` the command that runs the test.
pub fn fuzz(share: u64, replay: &str, feed: impl Fn(&mut Fuzzer) -> Result<(), String> + Sync) {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seed = number("KNEE_SEED").unwrap_or(1);
    if let Some(input) = number("KNEE_FUZZ_INPUT") {
        let mut fuzzer = Fuzzer::new(seed, input);
        fuzzer.show = true;
        return feed(&mut fuzzer).unwrap();
    }
    let inputs = number("KNEE_FUZZ_INPUTS").unwrap_or(FEW) * share / INPUTS;
    let since = Instant::now();
    let next = AtomicU64::new(0);
    let failure: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while failure.lock().unwrap().is_none() {
                    let input = next.fetch_add(1, Relaxed);
                    if input >= inputs {
                        return;
                    }
                    if let Err(what) = feed_one(Fuzzer::new(seed, input), &feed) {
                        *failure.lock().unwrap() = Some((input, what));
                    }
                }
            });
        }
    });
    if let Some((input, what)) = failure.into_inner().unwrap() {
        panic!(
            "input {input} of seed {seed}: {what}\n\
             again: KNEE_SEED={seed} KNEE_FUZZ_INPUT={input} {replay}"
        );
    }
    println!("{inputs} inputs of seed {seed} in {:.1} s", since.elapsed().as_secs_f64());
}

fn feed_one(
    mut fuzzer: Fuzzer,
    feed: impl Fn(&mut Fuzzer) -> Result<(), String>,
) -> Result<(), String> {
    LARGEST.with(|largest| largest.store(0, Relaxed));
    let fed = catch_unwind(AssertUnwindSafe(|| feed(&mut fuzzer)));
    fed.unwrap_or_else(|_| Err("a panic, see above".to_string()))?;
    let largest = LARGEST.with(|largest| largest.load(Relaxed));
    if largest > ABSURD { Err(format!("allocated {largest} bytes in one request")) } else { Ok(()) }
}

/// More bytes than any input here may need in one allocation.
const ABSURD: usize = 256 << 20;

thread_local! {
    /// The largest allocation of the current input.
    static LARGEST: AtomicUsize = const { AtomicUsize::new(0) };
}

/// The system's allocator, which also records the largest request. Every program that links this crate
/// uses it.
struct RecordingAllocator;

#[global_allocator]
static ALLOCATOR: RecordingAllocator = RecordingAllocator;

// SAFETY: the system's allocator does the work; recording a size allocates nothing.
unsafe impl GlobalAlloc for RecordingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        record_size(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        record_size(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        record_size(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

fn record_size(size: usize) {
    // A thread that is ending no longer has the variable.
    let _ = LARGEST.try_with(|largest| largest.fetch_max(size, Relaxed));
}

/// Makes one input.
pub struct Fuzzer {
    pub random: Xoshiro256PlusPlus,
    /// Whether to print the input.
    pub show: bool,
}

/// Tokens that readers often mishandle.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "[[",
    "]]",
    "\"",
    "'",
    "\"\"\"",
    ",",
    ":",
    "=",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "nan",
    "inf",
    "-inf",
    "-0",
    "0",
    "1",
    "-1",
    "255",
    "256",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e309",
    "5e-324",
    "0.1",
    "1e-9",
    "..",
    "-",
    "1..all",
    "1-4294967295",
    "all",
    "cores",
    "\u{0}",
    "\u{feff}",
    "\u{202e}",
    "é",
    "\n",
    "\r\n",
    "# ",
    "[load.parameters]\n",
    "[[load]]\n",
    "\"format\":2",
    "/",
    "../..",
    "1979-05-27T07:32:00Z",
];

impl Fuzzer {
    fn new(seed: u64, input: u64) -> Fuzzer {
        let seed = seed.rotate_left(32) ^ input.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fuzzer { random: Xoshiro256PlusPlus::seed_from_u64(seed), show: false }
    }

    /// A random number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.random.random_range(0..n)
    }

    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    /// A damaged example: its bytes, or the tree of a JSON document.
    pub fn damage(&mut self, examples: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.pick(examples).clone();
        if self.below(2) == 0
            && let Ok(mut tree) = serde_json::from_slice::<Value>(&input)
        {
            for _ in 0..1 + self.below(3) {
                self.damage_tree(&mut tree);
            }
            input = tree.to_string().into_bytes();
        }
        if self.below(3) > 0 {
            for _ in 0..1 + self.below(4) {
                self.damage_bytes(&mut input, examples);
            }
        }
        // Blocks may be repeated several times, but the input must stay small.
        input.truncate(1 << 20);
        if self.show {
            println!("{}", String::from_utf8_lossy(&input));
        }
        input
    }

    fn damage_bytes(&mut self, input: &mut Vec<u8>, examples: &[Vec<u8>]) {
        let (from, to) = self.range(input.len());
        match self.below(10) {
            0 => input.truncate(from),
            1 => drop(input.drain(from..to)),
            2 => {
                let block = input[from..to].repeat(1 + self.below(3));
                input.splice(from..from, block);
            }
            3 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] ^= 1 << self.below(8);
            }
            4 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] = self.random.random();
            }
            5 => {
                let token = self.pick(TOKENS).bytes();
                input.splice(from..from, token);
            }
            6 => {
                let token = self.pick(TOKENS).bytes();
                let end = (from + self.below(8)).min(input.len());
                input.splice(from..end, token);
            }
            7 => self.change_number(input),
            8 => {
                let other = self.pick(examples).clone();
                let (first, last) = self.range(other.len());
                input.splice(from..to, other[first..last].iter().copied());
            }
            _ => {
                let deep = self
                    .pick(&["[", "{\"a\":", "[[a]]\n", "{a=", "a."])
                    .repeat(1 << self.below(14));
                input.splice(from..from, deep.into_bytes());
            }
        }
    }

    /// Replaces a number by an extreme one.
    fn change_number(&mut self, input: &mut Vec<u8>) {
        let is_digit = |at: &usize| input[*at].is_ascii_digit();
        let digits: Vec<usize> = (0..input.len()).filter(is_digit).collect();
        if digits.is_empty() {
            return;
        }
        let start = *self.pick(&digits);
        let length = input[start..].iter().take_while(|b| b.is_ascii_digit()).count();
        let numbers: Vec<&&str> = TOKENS.iter().filter(|t| t.parse::<f64>().is_ok()).collect();
        let number = self.pick(&numbers).bytes();
        input.splice(start..start + length, number);
    }

    fn range(&mut self, length: usize) -> (usize, usize) {
        let (a, b) = (self.below(length + 1), self.below(length + 1));
        // Most ranges are short.
        let b = if self.below(4) > 0 { (a + self.below(16)).min(length) } else { b };
        (a.min(b), a.max(b))
    }

    /// Changes one node of a tree, at the end of a random branch: replaces, removes or adds a value.
    fn damage_tree(&mut self, tree: &mut Value) {
        let inner = match tree {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        if inner == 0 || self.below(6) == 0 {
            *tree = self.value();
            return;
        }
        let at = self.below(inner);
        match (tree, self.below(8)) {
            (Value::Array(list), 0) => drop(list.remove(at)),
            (Value::Array(list), 1) => list.insert(at, self.value()),
            (Value::Array(list), 2) => list.push(list[at].clone()),
            (Value::Array(list), _) => self.damage_tree(&mut list[at]),
            (Value::Object(map), what) => {
                let key = map.keys().nth(at).expect("a key").clone();
                match what {
                    0 => drop(map.remove(&key)),
                    1 => drop(map.insert(self.pick(TOKENS).to_string(), self.value())),
                    _ => self.damage_tree(&mut map[&key]),
                }
            }
            _ => unreachable!("only lists and maps have something inside"),
        }
    }

    fn value(&mut self) -> Value {
        let token = *self.pick(TOKENS);
        match self.below(6) {
            0 => Value::Null,
            1 => Value::Array(vec![Value::from(token); self.below(4)]),
            2 => Value::Object([(token.to_string(), Value::from(1))].into_iter().collect()),
            3 => Value::from(token),
            4 => Value::from(f64::from_bits(self.random.random())),
            _ => serde_json::from_str(token).unwrap_or(Value::from(-1)),
        }
    }
}
