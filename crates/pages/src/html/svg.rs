//! The curves of a page as one SVG file that needs nothing else: the drawings of the HTML page below each other, with
//! their style.

use reports::CurvePanel;

use crate::html::Markup;
use crate::html::chart::picture;
use crate::page::{Block, Page};

const WIDTH: f64 = 720.0;
/// Free on the left and on the right.
const MARGIN: f64 = 16.0;
/// Room of the head above all drawings.
const HEAD: f64 = 52.0;

/// The page's style for drawings, with plain colours, which every viewer of SVG knows.
const STYLE: &str = ".axis,.field{overflow:visible}text{font:12px sans-serif;fill:#545d68}.title{font-weight:bold;fill:#1a1f25}\
    .grid{stroke:#d5dbe1}.base{stroke:#545d68}.curve,.ideal{fill:none;vector-effect:non-scaling-stroke}\
    .curve{stroke-width:2.25;stroke-linejoin:round}.curve.thin{stroke-width:1.5}.curve.dashed{stroke-dasharray:7 4}\
    .ideal{stroke:#545d68;stroke-width:1.5;stroke-dasharray:1 4;stroke-linecap:round}\
    .band{opacity:.16}rect.knee{opacity:.09}line.knee{stroke-dasharray:4 3}rect.cliff{fill:#ab4200;opacity:.16}\
    .s0{fill:#0072b2;stroke:#0072b2}.s1{fill:#d55e00;stroke:#d55e00}.s2{fill:#007a5a;stroke:#007a5a}\
    .s3{fill:#a8427f;stroke:#a8427f}.s4{fill:#a66f00;stroke:#a66f00}.s5{fill:#2f8fc4;stroke:#2f8fc4}\
    .s6{fill:#222;stroke:#222}.s7{fill:#6a3d9a;stroke:#6a3d9a}.s8{fill:#5f7d00;stroke:#5f7d00}\
    .s9{fill:#8b3a2b;stroke:#8b3a2b}.s10{fill:#7a8087;stroke:#7a8087}.s11{fill:#1b3fae;stroke:#1b3fae}.band,rect.knee,rect.cliff,line.cliff{stroke:none}.curve{fill:none}\
    .mark path{stroke:#fff;stroke-width:1}text.knee,text.cliff{fill:#1a1f25;stroke:none}";

/// The file; `None` where the page has no curve.
pub fn svg(page: &Page) -> Option<String> {
    let panels: Vec<(&str, &CurvePanel)> = page
        .sections
        .iter()
        .flat_map(|section| section.blocks.iter().map(|block| (section.title.as_str(), block)))
        .filter_map(|(title, block)| match block {
            Block::Curves(panel) if panel.is_curve() => Some((title, panel)),
            _ => None,
        })
        .collect();
    if panels.is_empty() {
        return None;
    }
    let mut drawings = Markup::default();
    let width = WIDTH - 2.0 * MARGIN;
    let bottom = panels
        .iter()
        .fold(HEAD, |top, (title, panel)| picture(&mut drawings, title, panel, (width, top)));
    let [width, height] = [WIDTH, bottom + MARGIN].map(|size| size.to_string());
    let title = format!("{}: {}", page.kind.name(), page.brief_title());
    let is_place =
        |(label, _): &&(String, String)| ["record", "host", "kernel"].contains(&&**label);
    let place: Vec<&str> =
        page.facts.iter().filter(is_place).map(|(_, value)| value.as_str()).collect();
    let view = format!("-{MARGIN} 0 {width} {height}");
    let mut file = Markup::default();
    let root = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("viewBox", view.as_str()),
        ("width", width.as_str()),
        ("height", height.as_str()),
    ];
    file.element("svg", &root, |file| {
        file.leaf("title", &[], &title);
        file.ours("style", &[], STYLE);
        let white = [("x", "-16"), ("width", "100%"), ("height", "100%"), ("fill", "white")];
        file.empty("rect", &white);
        file.leaf("text", &[("class", "title"), ("y", "22")], &title);
        file.leaf("text", &[("y", "40")], &place.join(", "));
        file.written(drawings);
    });
    Some(file.finish() + "\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use reports::Detail;

    use super::*;

    fn page(rename: impl FnOnce(&mut records::Opened)) -> Page {
        let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store");
        let golden = records.join("tests/golden/v1/20261120-115530-7f3a9c");
        let mut golden = store::open(&golden).unwrap();
        rename(&mut golden);
        crate::record(&golden, &Detail::default(), "")
    }

    #[test]
    fn a_page_becomes_one_file_with_a_drawing_for_each_load() {
        let drawn = svg(&page(|_| ())).unwrap();
        assert_eq!(drawn.matches("operations/s over CPUs").count(), 2, "title and label: {drawn}");
        for outside in ["href", "<script", "url(", "@import", "var("] {
            assert!(!drawn.contains(outside), "{outside}");
        }
    }

    #[test]
    fn names_from_elsewhere_cannot_leave_their_text() {
        let hostile = "</text><script>alert(1)</script>\"&\u{1b}]";
        let drawn = svg(&page(|golden| golden.record.experiment.name = hostile.into())).unwrap();
        assert!(!drawn.contains("<script") && !drawn.contains('\u{1b}'));
        assert!(drawn.contains("&lt;/text&gt;&lt;script&gt;"), "{drawn}");
    }

    #[test]
    fn values_at_one_cpu_count_are_no_curve() {
        assert_eq!(svg(&page(|golden| golden.runs.retain(|run| run.point == 0))), None);
    }
}
