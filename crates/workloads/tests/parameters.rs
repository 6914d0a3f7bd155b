//! Values that parameters of a workload may have.

use workloads::{Values, Workload};

fn check(given: &[(&str, &str)], expected: Result<&[(&str, &str)], &str>) {
    let workload = Workload::find("create_files").unwrap();
    let given = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    match (Values::new(workload, &given), expected) {
        (Ok(values), Ok(expected)) => {
            for (name, value) in expected {
                assert_eq!(values.choice(name), *value, "{name}");
            }
        }
        (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
        (got, _) => panic!("{given:?} gave {got:?}"),
    }
}

#[test]
fn values_are_checked_normalised_and_completed_with_defaults() {
    check(&[], Ok(&[("size_bytes", "0"), ("sync", "none"), ("idle_ns", "0")]));
    check(&[("size_bytes", "16k")], Ok(&[("size_bytes", "16384")]));
    check(&[("sync", "sometimes")], Err("must be one of none, fdatasync"));
    check(&[("size_bytes", "-1")], Err("whole number"));
    check(&[("size_bytes", "99999999999G")], Err("whole number"));
    check(&[("size_bytes", "1kk")], Err("whole number"));
    check(&[("idle_ns", "1.5us")], Ok(&[("idle_ns", "1500")]));
    check(&[("idle_ns", "2us~exp")], Ok(&[("idle_ns", "2000~exp")]));
    check(&[("idle_ns", "2s")], Err("must be a time from 0 to 1000000000 ns"));
    check(&[("size_bytes", "2us")], Err("whole number"));
    check(&[("size", "1")], Err("no parameter 'size'"));
}
