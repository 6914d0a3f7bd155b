//! What the compiled code accesses is seen, whatever the compiler made of the C file, or the file is refused by line.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use c_locks::compile;
use engines::checker::{Memory, Options, search};
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::{CheckSize, Mutation, with_tasks};

/// The fault that a search finds, if any.
fn fault(file: &Path, flags: &[&str], acquires: u32) -> Option<String> {
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    let program = compile(&Permitted::typed(file.to_path_buf()), &flags);
    let program = program.unwrap_or_else(|error| panic!("{flags:?}: {error:#}"));
    let size = CheckSize { threads: 2, acquires, locks: 1 };
    let options = Options { memory: Memory::TotalStoreOrder, ..Options::default() };
    let subject = Subject::InC(Arc::new(program));
    let found = with_tasks(&subject, size, Mutation::None, |setup| search(setup, &options));
    let found = found.unwrap().unwrap();
    found.failure.map(|failure| format!("{}\n{}", failure.fault, failure.steps.join("\n")))
}

fn written(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("my.c"), text).unwrap();
    folder
}

/// An operation with this body, where `s` points to what is shared, has this fault: words of it, or none.
fn check(types: &str, body: &str, flags: &[&str], expected: Option<&str>) {
    let folder = written(&format!(
        "#include <assert.h>\n#include <knee_lock.h>\n#include <stdatomic.h>\n#include <string.h>\n{types}\n\
         static void operate(struct s *s)\n{{\n{body}\n}}\nKNEE_OPERATION(struct s, operate(shared))\n"
    ));
    let said = fault(&folder.path().join("my.c"), flags, 2);
    match (expected, &said) {
        (None, None) => {}
        (Some(words), Some(said)) if said.contains(words) => {}
        _ => panic!("{flags:?}, expected {expected:?} of\n{body}\nsaid {said:?}"),
    }
}

/// A file with this body is refused in these words.
fn refused(body: &str, words: &[&str]) {
    let folder = written(&format!(
        "#include <immintrin.h>\n#include <knee_lock.h>\nstruct s {{ long word; long more[3]; }};\n\
         static void operate(struct s *s)\n{{\n{body}\n}}\nKNEE_OPERATION(struct s, operate(shared))\n"
    ));
    let file = folder.path().join("my.c");
    let said = format!("{:#}", compile(&Permitted::typed(file), &[]).map(drop).expect_err(body));
    for word in words {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

const OPTIMISED: [&str; 3] = ["-O2", "-O3", "-Os"];

#[test]
fn an_element_is_seen_however_it_is_copied() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks/copied.c");
    for (index, bytes) in [3, 33, 136].into_iter().enumerate() {
        for how in 0..8 {
            let words = if bytes % 8 == 0 && how % 2 == 0 { "-DWORDS" } else { "-DBYTEWISE" };
            let (how_flag, bytes) = (format!("-DHOW={how}"), format!("-DBYTES={bytes}"));
            let level = OPTIMISED[(index + how) % OPTIMISED.len()];
            let flags = [level, &how_flag, &bytes, words];
            assert_eq!(fault(&file, &flags, 3), None, "{flags:?}");
            let wrong = ["-DEARLY", "-DEARLY_TAIL"][(index + how / 2) % 2];
            let said = fault(&file, &[&flags[..], &[wrong]].concat(), 3);
            let is_race = said.as_ref().is_some_and(|said| said.contains("data race"));
            assert!(is_race, "{flags:?} {wrong}: {said:?}");
        }
    }
}

/// The compiler of the environment's CC is that of the whole process.
#[test]
fn clang_hides_nothing_either() {
    let Ok(clang) = Command::new("clang").arg("--version").output() else {
        return println!("skipped: there is no clang");
    };
    assert!(clang.status.success());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("CC", "clang").args(["--skip", "clang_hides_nothing_either"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn bytes_that_are_set_compared_and_measured_are_seen() {
    let types = "struct s { char text[40]; atomic_int ready; };";
    for (index, (writes, reads)) in [
        ("__builtin_memset(s->text, 'a', 4)", "assert(s->text[3] != 1)"),
        ("memset(s->text, 'a', 39)", "assert(strlen(s->text) == 39)"),
        ("strcpy(s->text, \"four\")", "assert(!strcmp(s->text, \"four\"))"),
        ("strcpy(s->text, \"four\")", "assert(!memcmp(s->text, \"four\", 5))"),
        ("strncpy(s->text, \"four\", 40)", "assert(memchr(s->text, 'u', 40) == s->text + 2)"),
        ("memcpy(s->text, \"four\", 5)", "assert(!strncmp(s->text, \"fourteen\", 4))"),
    ]
    .into_iter()
    .enumerate()
    {
        let level = OPTIMISED[index % OPTIMISED.len()];
        let body = |release: &str, acquire: &str| {
            format!(
                "if (knee_cpu()) {{ if (!s->ready) {{ {writes}; \
                     atomic_store_explicit(&s->ready, 1, {release}); }} }} else {{\n\
                     if (atomic_load_explicit(&s->ready, {acquire})) {reads}; }}"
            )
        };
        let (release, acquire) = ("memory_order_release", "memory_order_acquire");
        let relaxed = "memory_order_relaxed";
        check(types, &body(release, acquire), &[level], None);
        check(types, &body(relaxed, acquire), &[level], Some("data race"));
        check(types, &body(release, relaxed), &[level], Some("data race"));
    }
}

#[test]
fn accesses_of_every_kind_are_seen() {
    let types = "struct bits { unsigned low : 4, high : 12; };\n\
        struct s { double real; long double wide; float single; struct bits bits; long words[6];\n\
        long (*call)(long); _Complex double both; char odd[9]; };\n\
        static __attribute__((noinline)) long next(long n) { return n + 1; }";
    for (index, (writes, reads)) in [
        ("s->real += 1.5", "volatile double d = s->real; (void)d"),
        ("s->wide = s->real + 2", "volatile long double d = s->wide; (void)d"),
        ("s->single *= 2", "volatile int i = s->single; (void)i"),
        ("s->bits.low++", "volatile int i = s->bits.high; (void)i"),
        ("s->words[knee_cpu() + 1] |= 4", "volatile long l = s->words[2]; (void)l"),
        ("s->call = next", "if (s->call) s->call(1)"),
        ("s->both = 1", "volatile double d = __real__ s->both; (void)d"),
        ("*(int *)(s->odd + 3) = 7", "volatile char c = s->odd[5]; (void)c"),
        (
            "__builtin_memset(s->words, 0, sizeof s->words)",
            "volatile long l = s->words[5]; (void)l",
        ),
        ("for (int i = 0; i < 6; i++) s->words[i] = i", "assert(s->words[4] != 9)"),
    ]
    .into_iter()
    .enumerate()
    {
        let level = OPTIMISED[index % OPTIMISED.len()];
        let racing = format!("if (knee_cpu()) {{ {writes}; }} else {{ {reads}; }}");
        check(types, &racing, &[level], Some("data race"));
        let alone = format!("if (knee_cpu()) {{ {writes}; {reads}; }}");
        check(types, &alone, &[level], None);
    }
}

/// The bytes of a neighbour are another's, even where one word holds both.
#[test]
fn neighbours_in_one_word_do_not_race() {
    let types = "struct s { char first, second; short third; int fourth; };";
    check(
        types,
        "if (knee_cpu()) s->first++; else { s->second++; s->third++; s->fourth++; }",
        &[],
        None,
    );
}

/// clang splits a static array into its elements, which debug information then tells nothing of.
#[test]
fn parts_of_a_split_variable_are_words_of_their_own() {
    let types = "struct s { int unused; }; struct three { char bytes[3]; };\n\
        static struct three sides[2]; static struct { unsigned first : 5; unsigned : 0; unsigned second : 7; } bits;";
    let body = "struct three own; unsigned mine = knee_cpu(); memset(&own, mine + 1, 3);\n\
        memcpy(&sides[mine], &own, 3); if (mine) bits.second++; else bits.first++;\n\
        assert(sides[mine].bytes[2] == (char)(mine + 1));";
    check(types, body, &["-O2"], None);
    check(types, &format!("{body} if (mine) sides[0].bytes[2] = 0;"), &["-O2"], Some("data race"));
    let types = "struct s { int unused; }; static struct one { unsigned char byte; } ones[2];";
    let body = "struct one *own = &ones[knee_cpu()]; own->byte++; assert(own->byte < 9);";
    check(types, body, &["-O2"], None);
}

/// Its own stores that wait in the buffer are what the task reads, whatever it reads them by.
#[test]
fn a_task_reads_its_own_buffered_stores() {
    let types = "struct copy { int words[4]; }; struct s { atomic_int words[2][4]; };";
    let body = "struct copy seen; atomic_int *own = s->words[knee_cpu()];\n\
        for (int i = 0; i < 4; i++) atomic_store_explicit(&own[i], i + 5, memory_order_relaxed);\n\
        memcpy(&seen, (void *)own, sizeof seen);\n\
        assert(seen.words[0] == 5 && seen.words[1] == 6 && seen.words[2] == 7 && seen.words[3] == 8);\n\
        struct copy again = *(struct copy *)own; ((struct copy *)own)->words[3]++;\n\
        assert(again.words[3] == 8 && ((struct copy *)own)->words[3] == 9);";
    for level in OPTIMISED {
        check(types, body, &[level], None);
    }
}

#[test]
fn string_instructions_of_the_compiler_are_done_by_the_search() {
    let types = "struct s { long from[20], to[20]; };";
    let body = "if (knee_cpu()) { memcpy(s->to, s->from, sizeof s->to); memset(s->from, 0, 64); }";
    let flags =
        ["-Os", "-mmemcpy-strategy=rep_8byte:-1:noalign", "-mmemset-strategy=rep_8byte:-1:noalign"];
    let flags =
        if std::env::var("CC").is_ok_and(|cc| cc == "clang") { &flags[..1] } else { &flags[..] };
    check(types, body, flags, None);
    check(types, &format!("{body} else s->to[19] = 1;"), flags, Some("data race"));
    check(types, &format!("{body} else s->from[7] = 1;"), flags, Some("data race"));
}

#[test]
fn a_result_that_differs_each_time_is_refused_with_its_line() {
    for (body, instruction) in [
        ("s->word = __builtin_ia32_rdtsc();", "my.c:6: rdtsc"),
        ("unsigned aux;\n s->word = __builtin_ia32_rdtscp(&aux);", "my.c:7: rdtscp"),
        (
            "unsigned a, b, c, d;\n__asm__ volatile(\".byte 0x0f, 0xa2\" : \"=a\"(a), \"=b\"(b), \"=c\"(c), \"=d\"(d)); s->word = a;",
            "my.c:7: cpuid",
        ),
    ] {
        refused(body, &[instruction, "gives another result each time"]);
    }
    refused("__asm__ volatile(\"rdtsc\" : \"=A\"(s->word));", &["my.c:6: inline assembly: rdtsc"]);
    refused(
        "int rand(void); s->word = rand();",
        &["line 6: it calls rand", "another value each time"],
    );
}

#[test]
fn what_no_search_has_is_refused_by_its_instruction() {
    refused("_mm_stream_si64((long long *)&s->word, 1);", &["my.c:6", "movnti", "orders memory"]);
    refused("_mm_sfence(); s->word = 1;", &["the compiler's own sfence"]);
    refused(
        "__asm__ volatile(\"rep stosb\" : : \"D\"(s), \"c\"(8), \"a\"(0) : \"memory\");",
        &["my.c:6: inline assembly: rep stosb"],
    );
    refused("*(volatile int *)0x1000 = 1;", &["accesses memory unseen"]);
}

#[test]
fn a_trap_is_a_fault() {
    check("struct s { int a; };", "if (knee_cpu()) __builtin_trap();", &[], Some("traps"));
}

#[test]
fn a_call_by_a_pointer_to_no_function_is_a_fault() {
    let pointed = "struct s { int a; void (*next)(void); };";
    check(pointed, "if (knee_cpu()) s->next();", &[], Some("null pointer"));
    let global =
        "struct s { int a; }; static void nothing(void) {} static void (*volatile f)(void)";
    check(&format!("{global} = nothing;"), "f();", &[], None);
    check(&format!("{global};"), "(void)nothing; if (knee_cpu()) f();", &[], Some("null pointer"));
    let data = "struct s { int a; }; static int word; static void (*volatile f)(void) = (void (*)(void))&word;";
    check(data, "if (knee_cpu()) f();", &[], Some("pointer to no function"));
}
