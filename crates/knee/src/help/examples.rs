//! Two examples for each verb, the last lines of its help.

/// The lines for a verb, by the words of its name.
pub fn of(path: &str) -> Option<[&'static str; 2]> {
    EXAMPLES.iter().find(|(verb, _)| *verb == path).map(|(_, lines)| *lines)
}

/// Verbs, in the order of the overview, and their examples.
pub const EXAMPLES: &[(&str, [&str; 2])] = &[
    ("", ["knee run posix_lock_shared --cpus 1..all", "knee explain posix_lock_shared --grow"]),
    (
        "run",
        [
            "knee run posix_lock_shared --cpus 1..all",
            "knee run --command './app {size}' --axis size=1,2",
        ],
    ),
    ("fleet", ["knee fleet plan exp.toml /shared/exp", "knee fleet status /shared/exp"]),
    (
        "fleet plan",
        [
            "knee fleet plan exp.toml /shared/exp",
            "knee fleet plan getppid /shared/exp --cpus 1,2 --blocks 100",
        ],
    ),
    ("fleet status", ["knee fleet status /shared/exp", "knee fleet status /shared/exp --json"]),
    (
        "fleet collect",
        ["knee fleet collect /shared/exp --label exp", "knee fleet collect /shared/exp --partial"],
    ),
    (
        "fleet chunk",
        [
            "knee fleet chunk /shared/exp",
            "knee fleet chunk /shared/exp 7 # chunk 7, for schedulers",
        ],
    ),
    ("kernel", ["knee kernel build --git ../linux v6.1 HEAD", "knee kernel list"]),
    (
        "kernel build",
        [
            "knee kernel build --git ../linux v6.1 HEAD~3 mybranch",
            "knee kernel build . --with typical",
        ],
    ),
    ("kernel config", ["knee kernel config --with typical", "knee kernel config v6.12"]),
    ("kernel list", ["knee kernel list", "knee kernel list --json"]),
    ("kernel remove", ["knee kernel remove 3fa9", "knee kernel remove 3fa9 77b0"]),
    (
        "kernel boot",
        ["knee kernel boot ../linux", "knee kernel boot bzImage --cores 4 -- /knee run getppid"],
    ),
    ("doctor", ["knee doctor --dir /mnt/test", "knee doctor --clean"]),
    (
        "doctor calibrate",
        [
            "knee doctor calibrate > hosts/mine.toml",
            "knee doctor calibrate --quiet > hosts/mine.toml",
        ],
    ),
    (
        "doctor verdicts",
        ["knee doctor verdicts --share 0.1", "knee doctor verdicts --json > host.json"],
    ),
    (
        "compare",
        ["knee compare base new --metric wall_s", "knee compare before after --layout curves"],
    ),
    (
        "compare fragile",
        ["knee compare fragile base new", "knee compare fragile last --cpus 8 --blocks 20"],
    ),
    ("scale", ["knee scale last", "knee scale curve.csv --rate ops"]),
    (
        "scale forecast",
        ["knee scale forecast --to 64,128", "knee scale forecast curve.csv --to 64 --held 210ns"],
    ),
    (
        "bisect",
        [
            "knee bisect --git . --good v1 --bad v2 --build make --command ./app",
            "knee bisect --resume",
        ],
    ),
    (
        "bisect series",
        [
            "knee bisect series v1..tip --build make --command './app bench'",
            "knee bisect series v1..tip --command ./app --metric cpu_s",
        ],
    ),
    (
        "bisect screen",
        [
            "knee bisect screen getppid --option as=processes,threads",
            "knee bisect screen --command './app {size}' --option size=1,4",
        ],
    ),
    ("bisect log", ["knee bisect log", "knee bisect log last --json"]),
    (
        "bisect replay",
        [
            "knee bisect replay git-bisect.log --git . --command ./app",
            "knee bisect replay git-bisect.log --git . --command ./app --plan",
        ],
    ),
    (
        "gate",
        [
            "knee gate --base main --command './b {case}' --cases './b -l'",
            "knee gate --base main --harness go=bench.test --comment out.md",
        ],
    ),
    (
        "watch",
        [
            "knee watch init line.toml --build make --command './app bench'",
            "knee watch line.toml --html line.html",
        ],
    ),
    (
        "watch init",
        [
            "knee watch init line.toml --git ../app --command './app bench'",
            "knee watch init odometer.toml --kernels",
        ],
    ),
    ("watch add", ["knee watch add line.toml", "knee watch add line.toml --every v1..HEAD"]),
    ("watch show", ["knee watch show line.toml", "knee watch show line.toml --html line.html"]),
    (
        "watch ack",
        [
            "knee watch ack line.toml 3fa9 --why 'checks each block now'",
            "knee watch ack line.toml 3fa9 --false --why 'the fan had failed'",
        ],
    ),
    (
        "watch bisect",
        ["knee watch bisect line.toml 3fa9", "knee watch bisect line.toml 3fa9 --json"],
    ),
    ("watch check", ["knee watch check line.toml", "knee watch check line.toml # status 3: open"]),
    (
        "explain",
        ["knee explain posix_lock_shared --cpus 8", "knee explain './old 1000' './new 1000'"],
    ),
    ("top", ["knee top --pid 4711", "knee top --name postgres --seconds 5"]),
    (
        "conflicts",
        ["knee conflicts open_close_own", "knee conflicts stat --kernel base=v6.12 --kernel new=."],
    ),
    ("check", ["knee check ticket mcs --threads 3 --acquires 2", "knee check my_lock.c --mutants"]),
    (
        "simulate",
        ["knee simulate ticket,mcs --host generic-2s", "knee simulate my_lock.c --cpus 1..all"],
    ),
    (
        "simulate operation",
        [
            "knee simulate operation stat --host modern-8n",
            "knee simulate operation steps.json --rate 1.2M/s",
        ],
    ),
    ("simulate replay", ["knee simulate replay I5", "knee simulate replay --all"]),
    ("new", ["knee new load my_load.c", "knee new lock my_lock.c"]),
    ("list", ["knee list -n 50 --since 7d", "knee list workloads"]),
    ("show", ["knee show last --counters", "knee show posix_lock_shared"]),
    ("report", ["knee report last --html page.html", "knee report base new --view markdown"]),
    ("serve", ["knee serve --open", "knee serve --port 9000"]),
    (
        "record",
        [
            "knee record note last 'before the patch' --label v1",
            "knee record prune --older-than 30d",
        ],
    ),
    (
        "record note",
        ["knee record note last 'before the patch'", "knee record note last --label v1"],
    ),
    ("record rm", ["knee record rm last", "knee record rm before after --yes"]),
    (
        "record prune",
        ["knee record prune --older-than 30d", "knee record prune --keep 100 --size 10G"],
    ),
    (
        "record import",
        [
            "knee record import old.json new.json --as old,new",
            "knee record import out.txt --value 'tps = {}'",
        ],
    ),
    (
        "record export",
        ["knee record export last > runs.csv", "knee record export all --compact parquet"],
    ),
    ("help", ["knee help bisect", "knee help --search 'false sharing'"]),
    ("selfcheck", ["knee selfcheck --trials 1000", "knee selfcheck --scale --only knees"]),
    ("schema", ["knee schema", "knee schema compare > compare.schema.json"]),
    ("completions", ["knee completions bash > knee.bash", "knee completions zsh > _knee"]),
];
