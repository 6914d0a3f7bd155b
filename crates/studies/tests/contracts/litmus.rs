//! Litmus tests in C: what is read, what is refused, and what is found.

use engines::checker::Memory;
use studies::litmus::{Quantifier, check, parse};

const MESSAGE_PASSING: &str = r#"C MP
"a comment"
{ [x] = 0; y = 0; }

P0 (atomic_int* x, atomic_int* y) {
  // the data
  atomic_store_explicit(x, 1, memory_order_relaxed);
  atomic_store_explicit(y, 1, RELEASE);
}

P1 (atomic_int* x, atomic_int* y) {
  int r0 = atomic_load_explicit(y, ACQUIRE);
  int r1 = 2;
  if (r0 == 1) {
    r1 = atomic_load_explicit(x, memory_order_relaxed);
  }
}

exists (1:r0=1 /\ 1:r1=0)
"#;

#[track_caller]
fn observed(text: &str, memory: Memory) -> &'static str {
    let litmus = parse(text).unwrap();
    check(&litmus, memory, 100_000).unwrap().observed.word()
}

#[test]
fn a_condition_is_never_sometimes_or_always_fulfilled() {
    let relaxed = MESSAGE_PASSING.replace("RELEASE", "memory_order_relaxed");
    let relaxed = relaxed.replace("ACQUIRE", "memory_order_relaxed");
    let ordered = MESSAGE_PASSING.replace("RELEASE", "memory_order_release");
    let ordered = ordered.replace("ACQUIRE", "memory_order_acquire");
    assert_eq!(observed(&relaxed, Memory::Rc11), "sometimes");
    assert_eq!(observed(&relaxed, Memory::TotalStoreOrder), "never");
    assert_eq!(observed(&ordered, Memory::Rc11), "never");
    let all = ordered.replace("exists (1:r0=1 /\\ 1:r1=0)", "forall (x=1 \\/ 1:r0=7)");
    assert_eq!(observed(&all, Memory::Rc11), "always");
    assert_eq!(parse(&all).unwrap().quantifier, Quantifier::Forall);
    let race = relaxed.replace("P1 (atomic_int* x", "P1 (int* x");
    let race = race.replace("atomic_load_explicit(x, memory_order_relaxed)", "*x");
    assert_eq!(observed(&race, Memory::Rc11), "race");
}

#[test]
fn read_modify_writes_and_plain_accesses_are_understood() {
    let text = r#"C counter
{}
P0 (atomic_int* x, int* p) { int r0 = atomic_fetch_add(x, 1); *p = r0 + 5 * 2; }
P1 (atomic_int* x) { int r0 = atomic_fetch_add_explicit(x, 1, memory_order_relaxed); }
~exists (0:r0=1:0)
"#;
    assert!(parse(text).is_err());
    let text = text.replace("~exists (0:r0=1:0)", "~exists (0:r0=1 /\\ not (p=11 /\\ x=2))");
    assert_eq!(observed(&text, Memory::Rc11), "never");
}

#[test]
fn what_is_not_understood_is_named() {
    let refused = |body: &str| {
        let text = format!("C t\n{{}}\nP0 (atomic_int* x) {{ {body} }}\nexists (x=1)\n");
        format!("{:#}", parse(&text).unwrap_err())
    };
    let cases = [
        ("while (1) {}", "a loop (while)"),
        ("synchronize_rcu();", "synchronize_rcu, whose rules are not searched"),
        ("int r0 = frobnicate(x, 1);", "a call of frobnicate"),
        ("int r0 = atomic_load_explicit(x, memory_order_consume);", "memory_order_consume"),
        ("*z = 1;", "z is no parameter"),
    ];
    for (body, said) in cases {
        assert!(refused(body).contains(said), "{body}: {}", refused(body));
    }
    assert!(parse("X86 SB\n{}\n").is_err() && parse("").is_err());
}

#[test]
fn what_is_nested_deeply_is_searched_or_refused() {
    let text = |body: &str, condition: &str| {
        format!("C t\n{{}}\nP0 (atomic_int* x) {{ {body} }}\nexists ({condition})\n")
    };
    let check = |deep: &dyn Fn(usize) -> String, most: usize| {
        observed(&deep(most), Memory::Rc11);
        let why = format!("{:#}", parse(&deep(20_000)).unwrap_err());
        assert!(why.contains("more than 1000 words"), "{why}");
    };
    let brackets = |n| text(&format!("int r0 = {}1{};", "(".repeat(n), ")".repeat(n)), "x=0");
    let signs = |n| text(&format!("int r0 = {}1;", "!".repeat(n)), "x=0");
    let sums = |n| text(&format!("int r0 = 1{};", "+1".repeat(n)), "x=0");
    let ifs = |n| text(&format!("{}{}", "if (1) { ".repeat(n), "}".repeat(n)), "x=0");
    let nots = |n| text("", &format!("{}x=0", "not ".repeat(n)));
    check(&brackets, 480);
    check(&signs, 900);
    check(&sums, 480);
    check(&ifs, 150);
    check(&nots, 900);
}

/// A test of the kernel's primitives, by what its two threads do.
fn of_kernel(first: &str, second: &str, condition: &str) -> String {
    format!(
        "C t\n{{ y=&z; }}\nP0 (int *x, int **y) {{ {first} }}\nP1 (int *x, int **y) {{ int *r0; int r1; {second} }}\nexists ({condition})\n"
    )
}

#[test]
fn the_primitives_of_the_kernel_order_as_its_model_says() {
    let published = "1:r0=x /\\ 1:r1=0";
    let store = "WRITE_ONCE(*x, 1); smp_wmb(); WRITE_ONCE(*y, x);";
    let release = "WRITE_ONCE(*x, 1); rcu_assign_pointer(*y, x);";
    let bare = "WRITE_ONCE(*x, 1); WRITE_ONCE(*y, x);";
    let address = "r0 = rcu_dereference(*y); r1 = READ_ONCE(*r0);";
    let branch = "r0 = READ_ONCE(*y); if (r0 == x) r1 = READ_ONCE(*x);";
    let fence = "r0 = READ_ONCE(*y); smp_rmb(); r1 = READ_ONCE(*x);";
    let acquire = "r0 = smp_load_acquire(y); r1 = READ_ONCE(*x);";
    for (first, second, observed_word) in [
        (store, address, "never"),
        (release, address, "never"),
        (bare, address, "sometimes"),
        (store, branch, "sometimes"),
        (store, fence, "never"),
        (release, acquire, "never"),
    ] {
        let text = of_kernel(first, second, published);
        for memory in [Memory::Lkmm, Memory::Armv8] {
            assert_eq!(observed(&text, memory), observed_word, "{} {text}", memory.name());
        }
        assert_eq!(observed(&text, Memory::TotalStoreOrder), "never", "{text}");
    }
    let missed = "0:r1=0 /\\ 1:r1=0";
    for (first, second, observed_word) in [
        (
            "WRITE_ONCE(*x, 1); smp_mb(); int r1 = READ_ONCE(*y);",
            "smp_store_mb(*y, 1); r1 = READ_ONCE(*x);",
            "never",
        ),
        (
            "int r2 = xchg(x, 1); int r1 = READ_ONCE(*y);",
            "r0 = xchg_relaxed(y, 1); smp_mb__after_atomic(); r1 = READ_ONCE(*x);",
            "never",
        ),
        (
            "int r2 = xchg_release(x, 1); int r1 = READ_ONCE(*y);",
            "smp_store_mb(*y, 1); r1 = READ_ONCE(*x);",
            "sometimes",
        ),
        (
            "int r2 = cmpxchg(x, 5, 1); int r1 = READ_ONCE(*y);",
            "smp_store_mb(*y, 1); r1 = READ_ONCE(*x);",
            "always",
        ),
    ] {
        let text = of_kernel(first, second, missed).replace("y=&z;", "y=0;");
        let is_failing = observed_word == "always";
        let found = observed(&text, Memory::Lkmm);
        assert!(found == observed_word || is_failing && found == "sometimes", "{found}: {text}");
    }
}

#[test]
fn primitives_whose_rules_are_not_searched_are_named() {
    let text = of_kernel("synchronize_rcu(); WRITE_ONCE(*x, 1);", "r1 = READ_ONCE(*x);", "1:r1=1");
    assert!(format!("{:#}", parse(&text).unwrap_err()).starts_with("synchronize_rcu, "));
}

#[test]
fn a_pointer_begins_no_comment_and_what_is_to_be_printed_no_condition() {
    let text = of_kernel("WRITE_ONCE(*x, 1);", "r1 = READ_ONCE(*x); // (reads)\n", "1:r1=1");
    let text = text.replace("exists", "locations [1:r1; x] (* Not in \"exists\". *)\nexists");
    let text = text.replace("C t", "C t\n(*all*)\n(* that (it)\n * does *)") + "(* good *)";
    assert_eq!(observed(&text, Memory::Lkmm), "sometimes");
}

/// Threads with the locks `s` and `t`, in our words: what a lock orders by itself is no more than release and acquire.
#[test]
fn spinlocks_order_what_stands_before_a_release_with_what_follows_the_next_taking() {
    let check = |threads: &[&str], condition: &str, by_kernel: &str, by_armv8: &str| {
        let thread = |(number, body): (usize, &&str)| {
            format!(
                "P{number} (int *x, int *y, int *z, spinlock_t *s, spinlock_t *t) {{ int r0; int r1; {body} }}\n"
            )
        };
        let threads: String = threads.iter().enumerate().map(thread).collect();
        let text = format!("C locks\n{{}}\n{threads}exists ({condition})\n");
        for (memory, expected) in [(Memory::Lkmm, by_kernel), (Memory::Armv8, by_armv8)] {
            assert_eq!(observed(&text, memory), expected, "{} {text}", memory.name());
        }
    };
    let takes_both = "spin_lock(s); spin_unlock(s);";
    check(
        &[
            "WRITE_ONCE(*x, 1); spin_lock(s); WRITE_ONCE(*y, 1); spin_unlock(s);",
            "spin_lock(s); r0 = READ_ONCE(*y); spin_unlock(s); r1 = READ_ONCE(*x);",
        ],
        "1:r0=1 /\\ 1:r1=0",
        "never",
        "never",
    );
    // Two locks of one task: the kernel's rules order what is around them, those of Arm do as well.
    check(
        &[
            "r0 = READ_ONCE(*x); spin_lock(s); spin_unlock(s); spin_lock(t); WRITE_ONCE(*y, 1); spin_unlock(t);",
            "r0 = smp_load_acquire(y); WRITE_ONCE(*x, 1);",
        ],
        "0:r0=1 /\\ 1:r0=1",
        "never",
        "never",
    );
    // The same without a lock's release before its taking.
    check(
        &[
            "r0 = READ_ONCE(*x); spin_lock(s); WRITE_ONCE(*y, 1); spin_unlock(s);",
            "r0 = smp_load_acquire(y); WRITE_ONCE(*x, 1);",
        ],
        "0:r0=1 /\\ 1:r0=1",
        "sometimes",
        "sometimes",
    );
    // A third task sees what the first two did, in their order.
    check(
        &[
            "spin_lock(s); WRITE_ONCE(*x, 1); spin_unlock(s);",
            "spin_lock(s); r0 = READ_ONCE(*x); WRITE_ONCE(*z, 1); spin_unlock(s);",
            "r0 = READ_ONCE(*z); smp_mb(); r1 = READ_ONCE(*x);",
        ],
        "1:r0=1 /\\ 2:r0=1 /\\ 2:r1=0",
        "never",
        "never",
    );
    check(
        &[takes_both, "r0 = spin_trylock(s); if (r0) { r1 = spin_is_locked(s); spin_unlock(s); }"],
        "1:r0=1 /\\ 1:r1=0",
        "never",
        "never",
    );
}
