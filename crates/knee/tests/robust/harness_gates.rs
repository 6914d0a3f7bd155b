//! Gates of each harness, which a script here stands for: it lists its cases and answers a run in the harness's own format,
//! taken from a run of the harness itself, with a cost that a file of the commit names.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::bisect::Project;
use crate::skip::skip;

/// For all scripts: the cost of a case, with noise of up to 1 %.
const COST: &str = r#"#!/bin/sh
cost() {
    CASE=$1 awk -F'\t' -v noise="$(od -An -N2 -tu2 /dev/urandom)" \
        '$1 == ENVIRON["CASE"] { printf "%.4f", $2 * (1 + noise / 6553600) }' costs
}
"#;

const CATCH2: &str = r#"
escape() { sed 's/&/\&amp;/g; s/</\&lt;/g; s/"/\&quot;/g'; }
case $1 in
    '~[.],[!benchmark]') tests=$(cut -f1 costs | sed 's/ :: .*//' | sort -u) ;;
    *) tests=$(printf '%s\n' "$1" | sed 's/\\\(.\)/\1/g') ;;
esac
echo '<?xml version="1.0" encoding="UTF-8"?>'
printf '%s\n' "$tests" | while read -r test; do
    echo "    <TestCase name=\"$(printf %s "$test" | escape)\" tags=\"[bench]\" filename=\"catch.cc\" line=\"6\">"
    cut -f1 costs | grep -F "$test :: " | while read -r case; do
        echo "      <BenchmarkResults name=\"$(printf %s "${case#* :: }" | escape)\" samples=\"$5\" estimatedDuration=\"2e+06\">"
        echo '        <!--All values in nano seconds-->'
        [ "$5" = 1 ] || [ "$5" = 30 ] || exit 1
        echo "        <mean value=\"$(cost "$case")\" lowerBound=\"1\" upperBound=\"2\" ci=\"0\"/>"
        echo '      </BenchmarkResults>'
    done
    echo '    </TestCase>'
done
"#;

const CRITERION: &str = r#"
[ "$1" = --bench ] || exit 1
[ "$2" != --list ] || { sed 's/\t.*/: benchmark/' costs; exit; }
folder=$CRITERION_HOME/$(printf %s "$3" | tr '/ ' '__')/new
mkdir -p "$folder"
mean=$(cost "$3")
echo '{"mean":{"confidence_interval":{"confidence_level":0.95,"lower_bound":1.0,"upper_bound":2.0},"point_estimate":'"$mean"',' \
    '"standard_error":1.6},"median":{"confidence_interval":{"confidence_level":0.95,"lower_bound":7.0,"upper_bound":8.0},' \
    '"point_estimate":7.5,"standard_error":0.2}}' > "$folder/estimates.json"
echo 'group/one  time:   [1.0946 us 1.0985 us 1.1032 us]'
"#;

const GO: &str = r#"
pattern=.
for word; do
    case $word in
        -test.list=*) cut -f1 costs | cut -d/ -f1 | uniq; echo 'ok  	example.org/gob	0.1s'; exit ;;
        -test.bench=*) pattern=${word#*=} ;;
    esac
done
if [ "$pattern" = '^BenchmarkB$' ] && grep -q '^BenchmarkB.fails' costs; then
    printf 'goos: linux\n--- FAIL: BenchmarkB\n    gob_test.go:3: no input\nFAIL\n'; exit 1
fi
printf 'goos: linux\ngoarch: amd64\npkg: example.org/gob\ncpu: some\n'
cut -f1 costs | while read -r case; do
    parts=$(printf %s "$pattern" | sed 's:\$/^:/:g; s:\$$:(/|$):')
    echo "$case" | grep -qE "$parts" && printf '%s-2         \t   41665\t      %s ns/op\n' "$case" "$(cost "$case")"
done
echo PASS
"#;

const GOOGLE_BENCHMARK: &str = r#"
case $1 in
    --benchmark_list_tests=true) cut -f1 costs ;;
    --benchmark_filter=*)
        for word; do
            case $word in --benchmark_out=*) file=${word#*=} ;; esac
        done
        case=$(cut -f1 costs | grep -E -e "${1#*=}")
        echo '"real_time": 3.0'
        {
            echo '{"context": {"date": "2026-11-29T19:29:13+00:00", "load_avg": [7.9,7.2,5.4]}, "benchmarks": [ {'
            echo "\"name\": \"$case\", \"run_type\": \"iteration\", \"iterations\": 123178,"
            ! grep -q "^$case.fails" costs || printf '"error_occurred": true,\n"error_message": "no input",\n'
            echo "\"real_time\": $(cost "$case")e+00,"
            echo '"cpu_time": 1.0968616879637596e+00, "time_unit": "us" },'
            echo '{"name": "cv", "run_type": "aggregate", "real_time": 2.7e-02, "time_unit": "us" } ] }'
        } > "$file" ;;
esac
"#;

/// `hyperfine` itself.
const HYPERFINE: &str = r#"
for word; do
    case $before in --export-json) file=$word ;; esac
    before=$word
done
printf '{\n  "results": [\n    {\n      "command": "x",\n      "mean": 9.0,\n      "median": %s,\n      "min": 0.1\n    }\n  ]\n}\n' \
    "$(cost "$word")" > "$file"
"#;

/// `java`, with JMH in the jar.
const JMH: &str = r#"
[ "$3" != -lp ] || { printf 'Benchmarks: \norg.x.Speed.one\norg.x.Speed.two\n  param "size" = {1, 20}\n  param "word" = {a b}\n'; exit; }
case=$(printf %s "$3" | sed 's/[\^$]//g')
[ "$4" != -p ] || { case=$case:$5:$7; }
for word; do
    case $before in -rff) file=$word ;; esac
    before=$word
done
printf '[ { "benchmark": "x", "primaryMetric": { "score": %s, "scoreUnit": "ns/op" } } ]\n' "$(cost "$case")" > "$file"
"#;

/// `python3 -m pytest`.
const PYTEST_BENCHMARK: &str = r#"
for word; do
    case $word in --benchmark-json=*) file=${word#*=} ;; esac
done
if [ "$file" = /dev/stdout ]; then
    cut -f1 costs | sed 's/.*/            "fullname": "&",/'
else
    printf '{"benchmarks": [ {"fullname": "x", "stats": {"min": %s, "max": 9.0} } ] }\n' "$(cost "$word")" > "$file"
fi
"#;

const WILL_IT_SCALE: &str = r#"
printf 'testcase:Mix\nwarmup\n'
for second in 1 2 3; do
    total=$(cost "./${0##*/}")
    echo "min:1 max:1 total:${total%.*}"
done
"#;

/// Gates a commit in which the first case costs 7 % more.
fn check(harness: &str, program: &str, script: &str, cases: &[&str]) {
    let costs = |commit: usize| -> String {
        let cost = |case: &str| if commit == 1 && case == cases[0] { 107_000 } else { 100_000 };
        cases.iter().map(|case| format!("{case}\t{}\n", cost(case))).collect()
    };
    let answer = gated(harness, program, script, cases, costs);
    let gated = answer["cases"].as_array().unwrap();
    let names: Vec<&str> = gated.iter().map(|case| case["case"].as_str().unwrap()).collect();
    assert_eq!(names, cases, "{harness}: {answer}");
    let is_faster_if_more = harness == "will-it-scale";
    for (case, cost) in gated.iter().zip([0.07].into_iter().chain(std::iter::repeat(0.0))) {
        let Some(change) = case["change"].as_f64() else {
            skip(&format!("a gate of {harness}"), &format!("a busy host: {case}"));
            continue;
        };
        assert!((change - cost).abs() < 0.01, "{harness}: {case}");
        let expected: &[&str] = match (cost > 0.0, is_faster_if_more) {
            (true, true) => &["better", "cannot_tell"],
            (true, false) => &["worse", "cannot_tell"],
            _ => &["harmless", "cannot_tell"],
        };
        assert!(expected.contains(&case["is"].as_str().unwrap()), "{harness}: {case}");
    }
}

/// Gates a commit by a harness whose program is this script: in the build, or on the path where its name has no slash.
fn gated(
    harness: &str,
    program: &str,
    script: &str,
    cases: &[&str],
    costs: impl Fn(usize) -> String,
) -> serde_json::Value {
    let script = [COST, script].concat();
    let project = Project::new(2, |commit| {
        let files =
            [("costs", costs(commit)), ("script", script.clone()), ("commands", cases.join("\n"))];
        files.map(|(name, text)| (name.to_string(), text)).into()
    });
    let bin = project.home.path("bin");
    fs::create_dir(&bin).unwrap();
    executable(&bin.join(program), &script);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let of_harness = match harness {
        "hyperfine" => "commands",
        "jmh" => "x.jar",
        "pytest-benchmark" => "tests",
        _ => "./*_processes",
    };
    let build = "cp script ./x_processes; chmod +x ./x_processes; ln x_processes y_processes; touch x.jar; mkdir tests";
    let mut knee = project.home.knee("gate --git project --head main --cpus 1 --json --budget 20s");
    knee.args(["--base", &project.ids[0], "--harness", &format!("{harness}={of_harness}")]);
    knee.args(["--build", build, "--no-layouts"]).env("PATH", path);
    let ended = project.home.start(&mut knee).end_within(Duration::from_secs(300));
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{harness}: {}", ended.stderr))
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn harnesses_whose_programs_are_built_list_and_time_their_cases() {
    check(
        "catch2",
        "unused",
        CATCH2,
        &["mix, in \"turn\" [1] :: of <a> & b", "sums :: a :: b", "sums :: one"],
    );
    check("criterion", "unused", CRITERION, &["group of words/one (1)", "two"]);
    check("go", "unused", GO, &["BenchmarkA/of_words/1", "BenchmarkAB/of_words/10", "BenchmarkB"]);
    check(
        "google-benchmark",
        "unused",
        GOOGLE_BENCHMARK,
        &["BM_T<int>/8", "BM_T<int>/80", "named one/real_time"],
    );
    check("will-it-scale", "unused", WILL_IT_SCALE, &["./x_processes", "./y_processes"]);
}

#[test]
fn harnesses_that_the_host_has_list_and_time_their_cases() {
    check("hyperfine", "hyperfine", HYPERFINE, &["printf '%s\\n' \"a  b\" | wc", "./work 1 --all"]);
    let jmh =
        ["org.x.Speed.one", "org.x.Speed.two:size=1:word=a b", "org.x.Speed.two:size=20:word=a b"];
    check("jmh", "java", JMH, &jmh);
    check(
        "pytest-benchmark",
        "python3",
        PYTEST_BENCHMARK,
        &["tests/a.py::b[a b]", "tests/a.py::T::c[d/e]"],
    );
}

#[test]
fn a_case_that_fails_on_head_is_named_with_what_it_says_and_the_others_are_judged() {
    let check = |harness: &str, script: &str, cases: &[&str], said: &str| {
        let costs = |commit: usize| -> String {
            let cost =
                |case: &str| if commit == 1 && case == cases[1] { "fails" } else { "100000" };
            cases.iter().map(|case| format!("{case}\t{}\n", cost(case))).collect()
        };
        let answer = gated(harness, "unused", script, cases, costs);
        let [other, failing] = [0, 1].map(|case| &answer["cases"][case]);
        let is_judged = ["harmless", "cannot_tell"].contains(&other["is"].as_str().unwrap());
        assert!(is_judged, "{harness}: {answer}");
        assert_eq!((&failing["case"], &failing["is"]), (&cases[1].into(), &"failed".into()));
        let why = failing["why"].as_str().unwrap();
        assert!(why.starts_with("all runs of head fail: ") && why.contains(said), "{why}");
    };
    check("go", GO, &["BenchmarkA", "BenchmarkB"], "no input");
    check(
        "google-benchmark",
        GOOGLE_BENCHMARK,
        &["BM_A", "BM_B"],
        "\"error_message\": \"no input\"",
    );
}
