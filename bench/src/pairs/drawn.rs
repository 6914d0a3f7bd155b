//! The pairs of a seed.

use std::path::Path;

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus as Random;

/// Two lines, and what may be named first.
pub struct EverydayPair {
    pub name: &'static str,
    pub lines: [String; 2],
    /// Parts of paths of rows; none where nothing differs.
    pub truths: &'static [&'static str],
}

/// A kind of pair: a name, what may be named first, and how it is drawn.
type Kind = (&'static str, &'static [&'static str], fn(&mut Random, &str) -> [String; 2]);

/// Every how many pairs nothing differs.
const EQUAL_EVERY: usize = 5;

const KINDS: [Kind; 22] = [
    ("algorithm", &["user code"], |random, e| {
        let size = random.random_range(14_000..24_000);
        [format!("{e} sort {size} 0"), format!("{e} sort {size} 1")]
    }),
    ("work", &["user code"], |random, e| {
        let (size, more) = (random.random_range(40_000..100_000), random.random_range(300..2000));
        [format!("{e} work {size} 0"), format!("{e} work {size} {more}")]
    }),
    ("allocation", &["page faults", "munmap", "mmap", "madvise", "brk"], |random, e| {
        let size = random.random_range(300..900);
        [format!("{e} allocate {size} 0"), format!("{e} allocate {size} 1")]
    }),
    (
        "system calls",
        &["system call newfstatat", "system call stat", "entry and exit"],
        |random, e| {
            let (size, calls) = (random.random_range(15_000..40_000), random.random_range(2..6));
            [format!("{e} call {size} 0"), format!("{e} call {size} {calls}")]
        },
    ),
    ("read buffer", &["system call pread64", "entry and exit"], |random, e| {
        let size = random.random_range(30_000_000..80_000_000_u64);
        let small = [64, 128, 256, 512].choose(random).expect("some");
        [format!("{e} read {size} 65536"), format!("{e} read {size} {small}")]
    }),
    ("write buffer", &["system call pwrite64", "entry and exit"], |random, e| {
        let size = random.random_range(30_000_000..80_000_000_u64);
        let small = [128, 256, 512].choose(random).expect("some");
        [format!("{e} write {size} 65536"), format!("{e} write {size} {small}")]
    }),
    ("sleep", &["sleep"], |random, e| {
        let (size, us) = (random.random_range(80..200), random.random_range(300..1500));
        [format!("{e} sleep {size} 0"), format!("{e} sleep {size} {us}")]
    }),
    ("page faults", &["page faults", "madvise"], |random, e| {
        let size = random.random_range(300..900);
        [format!("{e} touch {size} 0"), format!("{e} touch {size} 1")]
    }),
    ("affinity", &["affinity"], |random, e| {
        let size = random.random_range(60_000_000..160_000_000_u64);
        [format!("{e} affinity {size} 0"), format!("{e} affinity {size} 1")]
    }),
    ("affinity by taskset", &["affinity"], |random, e| {
        let size = random.random_range(60_000_000..160_000_000_u64);
        [format!("{e} affinity {size} 0"), format!("taskset -c 1 {e} affinity {size} 0")]
    }),
    ("tasks in turn", &["lost parallelism"], |random, e| {
        let size = random.random_range(60_000_000..160_000_000_u64);
        [format!("{e} in-turn {size} 0"), format!("{e} in-turn {size} 1")]
    }),
    ("lock", &["lost parallelism", "futex"], |random, e| {
        let (size, held) = (random.random_range(2000..4000), random.random_range(32_000..38_000));
        [format!("{e} lock {size} 100"), format!("{e} lock {size} {held}")]
    }),
    ("pipe", &["user code"], |random, e| {
        let (size, more) = (random.random_range(5000..12_000), random.random_range(8000..25_000));
        [format!("{e} pipe {size} 0"), format!("{e} pipe {size} {more}")]
    }),
    ("two processes", &["user code"], |random, e| {
        let size = random.random_range(60_000_000..120_000_000_u64);
        let more = size * random.random_range(3..12) / 10;
        [format!("{e} processes {size} 0"), format!("{e} processes {size} {more}")]
    }),
    ("more processes", &["processes"], |random, e| {
        let (size, more) =
            (random.random_range(40_000_000..80_000_000_u64), random.random_range(60..150));
        [format!("{e} forks {size} 2"), format!("{e} forks {size} {more}")]
    }),
    ("shell starts programs", &["processes"], |random, _| {
        let more = random.random_range(60..150);
        let line = |n: u32| {
            format!(
                "sh -c 'i=0; while [ $i -lt {n} ]; do /bin/true; i=$((i+1)); done; seq 300000 | tail -1'"
            )
        };
        [line(2), line(more)]
    }),
    ("shell sleeps", &["sleep"], |random, _| {
        let pause = random.random_range(10..40);
        [
            "sh -c 'seq 1500000 | tail -1'".to_string(),
            format!("sh -c 'seq 1500000 | tail -1; sleep 0.{pause}'"),
        ]
    }),
    ("gzip", &["user code"], |random, _| {
        let level = random.random_range(5..9);
        let line = |level: u32| format!("sh -c 'seq 700000 | gzip -{level} | wc -c'");
        [line(1), line(level)]
    }),
    ("dd", &["system call read", "system call write", "entry and exit"], |random, _| {
        let blocks = random.random_range(300..900) * 1024;
        let line = |bs: u32, count: u32| {
            format!("dd if=/dev/zero of=/dev/null bs={bs} count={count} status=none")
        };
        [line(65536, blocks / 128 * 8), line(512, blocks)]
    }),
    ("python loop", &["user code"], |random, _| {
        let n = random.random_range(800_000..2_000_000);
        [
            format!("python3 -c 'print(sum(range({n})))'"),
            format!("python3 -c 's = 0\nfor i in range({n}): s += i\nprint(s)'"),
        ]
    }),
    ("python list", &["user code"], |random, _| {
        let n = random.random_range(1200..2500);
        [
            format!("python3 -c 'a = set(range({n}))\nprint(sum(i in a for i in range(2 * {n})))'"),
            format!(
                "python3 -c 'a = list(range({n}))\nprint(sum(i in a for i in range(2 * {n})))'"
            ),
        ]
    }),
    ("python processes", &["processes"], |random, _| {
        let n = random.random_range(60..120);
        let line = |n: u32| {
            format!(
                "python3 -c 'import subprocess\nfor i in range({n}): subprocess.run([\"/bin/true\"])'"
            )
        };
        [line(2), line(n)]
    }),
];

/// Pairs of all kinds in turn, from a kind that is drawn on; every fifth of them equal.
pub fn drawn(random: &mut Random, number: usize, program: &Path) -> Vec<EverydayPair> {
    let program = program.to_string_lossy();
    let mut kinds: Vec<Kind> = Vec::new();
    while kinds.len() < number {
        use rand::seq::SliceRandom;
        let mut all = KINDS.to_vec();
        all.shuffle(random);
        kinds.extend(all);
    }
    let pair = |(index, (name, truths, draw)): (usize, Kind)| {
        let [before, after] = draw(random, &program);
        if index % EQUAL_EVERY == EQUAL_EVERY - 1 {
            return EverydayPair { name, lines: [after.clone(), after], truths: &[] };
        }
        EverydayPair { name, lines: [before, after], truths }
    };
    kinds.into_iter().take(number).enumerate().map(pair).collect()
}
