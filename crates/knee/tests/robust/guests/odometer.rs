//! A line of kernels: one kernel under two names counts alike.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::PoisonError;

use serde_json::Value;

use crate::guests::{ALONE, PATIENCE, kernel};
use crate::home::Home;

#[test]
fn a_kernel_under_two_names_counts_alike() {
    let Some(kernel) = kernel("a line of kernels") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    // Another image with the same code: a byte behind it, which nothing loads. Modules are beside each.
    let folder = home.path("again");
    fs::create_dir_all(folder.join("boot")).unwrap();
    let mut image = fs::read(&kernel).unwrap();
    image.push(0);
    let again = folder.join("boot").join(kernel.file_name().unwrap());
    fs::write(&again, image).unwrap();
    let modules = kernel.parent().unwrap().with_file_name("lib");
    if let Ok(modules) = modules.canonicalize() {
        symlink(modules, folder.join("lib")).unwrap();
    }
    let knee = |words: &str| {
        let ended = home.start(&mut home.knee(words)).end_within(PATIENCE);
        assert!(ended.status.success(), "{words}: {}", ended.stderr);
        ended
    };
    knee(
        "watch init line.toml --kernels --workloads open_close_own,posix_lock_own --operations 32",
    );
    let [first, again] = [&kernel, &again].map(|path| path.display().to_string());
    knee(&format!("watch add line.toml one={first}"));
    knee(&format!("watch add line.toml two={again} same={first}"));
    // All is there already.
    knee(&format!("watch add line.toml two={again}"));
    let answer: Value = serde_json::from_str(&knee("watch show line.toml --json").stdout).unwrap();
    let changes = answer["changes"].as_array().unwrap();
    // What happens once a batch may look changed in one boot, and is not said then.
    assert!(changes.iter().all(|change| change["is"] == "not_confirmed"), "{changes:#?}");
    let kernels = answer["kernels"].as_array().unwrap();
    let of_kernels =
        kernels.iter().map(|kernel| (kernel["counted"].as_u64(), kernel["same_as"].as_str()));
    let expected = [(Some(2), None), (Some(2), None), (Some(2), Some("one"))];
    assert_eq!(of_kernels.collect::<Vec<_>>(), expected);
    let open_close = &answer["workloads"][0];
    let counts = [0, 1].map(|point| open_close["instructions"][point].as_f64().unwrap());
    // What happens once a batch may be in one boot alone: some instructions of thousands.
    assert!(counts[0] > 1000.0 && (counts[1] / counts[0] - 1.0).abs() < 0.005, "{counts:?}");
    // AppArmor's label and its like.
    assert!(open_close["transfers"][0].as_f64().unwrap() >= 1.0, "{open_close}");
    let points = fs::read_to_string(home.path("line.points.ndjson")).unwrap();
    assert!(points.contains("\"do_dentry_open\":"), "functions are counted");
    knee("watch check line.toml");
}
