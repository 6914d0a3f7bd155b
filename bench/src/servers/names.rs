//! Names as servers have them, drawn so that no program can be told by its names.

use rand::seq::{IndexedRandom, SliceRandom};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use super::template::{Filling, Fillings};

const NOUNS: &[&str] = &[
    "account",
    "archive",
    "balance",
    "batch",
    "block",
    "bucket",
    "cache",
    "cart",
    "catalog",
    "channel",
    "cluster",
    "contact",
    "cursor",
    "device",
    "document",
    "entity",
    "event",
    "feed",
    "frame",
    "gateway",
    "history",
    "index",
    "inventory",
    "invoice",
    "journal",
    "label",
    "lease",
    "manifest",
    "member",
    "message",
    "metric",
    "order",
    "packet",
    "partition",
    "payment",
    "profile",
    "quote",
    "region",
    "replica",
    "route",
    "schema",
    "segment",
    "session",
    "shard",
    "snapshot",
    "stream",
    "tenant",
    "ticket",
    "token",
    "topic",
    "vector",
    "voucher",
];

/// The roles of a program, with the words that may follow a noun in their names.
const ROLES: &[(&str, &[&str])] = &[
    ("handle", &["request", "serve", "process", "answer"]),
    ("locked", &["update", "append", "commit", "insert", "merge", "refresh", "publish", "apply"]),
    ("reader", &["lookup", "find", "get", "peek"]),
    ("inner", &["scan", "rebuild", "verify", "encode", "score", "fold"]),
    ("inner2", &["summarize", "compact", "align", "balance", "weigh", "trace"]),
    ("outside", &["parse", "decode", "render", "prepare", "validate"]),
    ("decode", &["unpack", "expand", "resolve", "inspect"]),
    ("hash_work", &["digest", "checksum", "fingerprint"]),
    ("sort_work", &["arrange", "rank", "order"]),
    ("copy_work", &["copy", "clone", "mirror"]),
    ("small_work", &["gather", "collect", "tally"]),
    ("text_work", &["format", "print", "describe"]),
    ("sync", &["flush", "persist", "harden", "save"]),
    ("fresh", &["buffer", "workspace", "staging", "arena"]),
    ("fetch", &["fetch", "ask", "query", "pull"]),
    ("grow", &["build", "expand", "grow", "derive"]),
    ("node", &["node", "entry", "item", "cell"]),
    ("live", &["set", "index", "tree", "view"]),
    ("push", &["emit", "send", "post", "submit"]),
    ("drain", &["take", "next", "receive", "pop"]),
    ("busy", &["writer", "loop", "sink", "pump"]),
    ("busy_loop", &["poll", "turn", "step", "cycle"]),
    ("queue", &["queue", "ring", "backlog", "mailbox"]),
    ("work_queue", &["jobs", "tasks", "calls", "inbox"]),
    ("enqueue", &["enqueue", "offer", "accept", "admit"]),
    ("dequeue", &["dequeue", "obtain", "claim", "await"]),
    ("worker", &["worker", "runner", "agent", "main"]),
    ("lock", &["lock", "mutex", "guard", "latch"]),
    ("table", &["table", "store", "registry", "map"]),
    ("counters", &["counts", "hits", "totals", "stats"]),
    ("type", &["state", "data", "group", "area"]),
    ("owner", &["service", "context", "manager", "core"]),
    ("decoy", &["stats_lock", "count_lock", "total_mutex"]),
    ("count", &["count", "note", "account", "mark"]),
    ("main", &["server", "daemon", "service", "engine"]),
];

/// Draws a name for each role, no noun twice.
pub fn drawn_names(random: &mut Random) -> Fillings {
    let mut nouns = NOUNS.to_vec();
    nouns.shuffle(random);
    let mut fillings = Fillings::default();
    for ((role, words), noun) in ROLES.iter().zip(&nouns) {
        let word = words.choose(random).expect("each role has words");
        fillings.name(role, format!("{noun}_{word}"));
    }
    let member = ["lock", "mutex", "guard", "latch"].choose(random).expect("there are some");
    fillings.name("member", member.to_string());
    // Names of threads have 15 letters at most.
    fillings.text("worker_name", format!("{}-worker", &shortened(nouns[ROLES.len()])));
    fillings.text("busy_name", format!("{}-io", &shortened(nouns[ROLES.len() + 1])));
    fillings
}

fn shortened(noun: &str) -> String {
    noun.chars().take(8).collect()
}

/// Draws which filler work three functions do; those under a lock do what allocates nothing.
pub fn draw_work(random: &mut Random, fillings: &mut Fillings) {
    let mut draw = |role: &str, works: &[&str]| {
        let work = works.choose(random).expect("there are some").to_string();
        fillings.roles.insert(format!("{role}_work"), Filling::Role(work));
    };
    draw("inner", &["hash_work", "sort_work", "copy_work"]);
    draw("inner2", &["hash_work", "sort_work", "copy_work"]);
    draw("outside", &["hash_work", "sort_work", "copy_work", "small_work", "text_work"]);
}
