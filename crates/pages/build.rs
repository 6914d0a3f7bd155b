//! Embeds what scripts add to pages, where `make` has built it from `web/`. Without it pages are whole all
//! the same.

use std::path::Path;
use std::{env, fs};

fn main() {
    let built = Path::new("../../web/build");
    let out = env::var("OUT_DIR").expect("cargo names the folder");
    // A folder that is missing is looked at each time; one that exists is there before cargo starts.
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["page.js", "page.css", "live.js"] {
        let path = built.join(name);
        println!("cargo:rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).unwrap_or_default();
        fs::write(Path::new(&out).join(name), text.trim_end()).expect("the folder is writable");
    }
}
