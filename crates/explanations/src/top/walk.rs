//! Where the reader of a screen is, and how keys move them.

use super::{Place, ScreenPage};

/// A movement on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Up,
    Down,
    /// So many rows up or down: those of a screen.
    Rows(isize),
    First,
    Last,
    NextBlock,
    In,
    Back,
}

/// The places on the way to what is shown, each with its chosen row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    way: Vec<(Place, usize)>,
}

impl Walk {
    /// Begins at a place.
    pub fn from(place: Place) -> Walk {
        Walk { way: vec![(place, 0)] }
    }

    /// The place that is shown.
    pub fn place(&self) -> &Place {
        &self.way[self.way.len() - 1].0
    }

    /// The chosen row, of all rows of the page.
    pub fn chosen(&self) -> usize {
        self.way[self.way.len() - 1].1
    }

    /// Whether a place is on the way to the one that is shown, or is it.
    pub fn has(&self, place: &Place) -> bool {
        self.way.iter().any(|(known, _)| known == place)
    }

    /// Goes to a place, from which a step back leads here.
    pub fn enter(&mut self, place: Place) {
        self.way.push((place, 0));
    }

    /// Moves on a page. Without more behind the chosen row, a step in moves nothing; nor does one back from the first page.
    pub fn step(&mut self, step: Step, page: &ScreenPage) {
        let rows = page.leads_to().count();
        let at = self.chosen();
        let moved = match step {
            Step::Up => at.saturating_sub(1),
            Step::Down => at + 1,
            Step::Rows(rows) => at.saturating_add_signed(rows),
            Step::First => 0,
            Step::Last => rows,
            Step::NextBlock => next_block(page, at),
            Step::In => {
                let next = page.leads_to().nth(at).cloned().flatten();
                return next.into_iter().for_each(|next| self.enter(next));
            }
            Step::Back => {
                if self.way.len() > 1 {
                    self.way.pop();
                }
                return;
            }
        };
        self.choose(moved.min(rows.saturating_sub(1)));
    }

    /// Keeps the chosen row, where the page has been made anew and its rows have another order or number.
    pub fn follow(&mut self, before: &ScreenPage, now: &ScreenPage) {
        let chosen = before.leads_to().nth(self.chosen()).cloned().flatten();
        let same = chosen
            .and_then(|chosen| now.leads_to().position(|place| place.as_ref() == Some(&chosen)));
        let rows = now.leads_to().count();
        self.choose(same.unwrap_or(self.chosen()).min(rows.saturating_sub(1)));
    }

    fn choose(&mut self, row: usize) {
        self.way.iter_mut().last().into_iter().for_each(|(_, chosen)| *chosen = row);
    }
}

/// The first row of the block after that of a row; behind the last block, the first one.
fn next_block(page: &ScreenPage, at: usize) -> usize {
    let mut first = 0;
    for block in &page.blocks {
        if first > at && !block.leads_to.is_empty() {
            return first;
        }
        first += block.leads_to.len();
    }
    0
}

#[cfg(test)]
mod tests {
    use text::table::{Align, Table};

    use super::super::Block;
    use super::*;

    fn page(locks: &[&str]) -> ScreenPage {
        let block = |names: &[&str]| {
            let mut table = Table::new([("name", Align::Left)]);
            names.iter().for_each(|name| table.row(vec![name.to_string()]));
            let leads_to = names.iter().map(|name| Some(Place::Lock(name.to_string())));
            Block { table, leads_to: leads_to.collect() }
        };
        ScreenPage { blocks: vec![block(locks), block(&["last"])], ..ScreenPage::default() }
    }

    #[test]
    fn keys_move_within_the_rows_and_into_them() {
        let page = page(&["a", "b"]);
        let mut walk = Walk::from(Place::Overview);
        let mut check = |step, expected| {
            walk.step(step, &page);
            assert_eq!(walk.chosen(), expected, "{step:?}");
        };
        check(Step::Up, 0);
        check(Step::Down, 1);
        check(Step::NextBlock, 2);
        check(Step::Down, 2);
        check(Step::NextBlock, 0);
        check(Step::Rows(9), 2);
        check(Step::First, 0);
        check(Step::Last, 2);
        walk.step(Step::In, &page);
        assert_eq!(walk.place(), &Place::Lock("last".to_string()));
        walk.step(Step::In, &ScreenPage::default());
        walk.step(Step::Back, &ScreenPage::default());
        assert_eq!((walk.place(), walk.chosen()), (&Place::Overview, 2));
        walk.step(Step::Back, &page);
        assert_eq!(walk.place(), &Place::Overview);
    }

    #[test]
    fn the_chosen_row_stays_chosen_where_the_order_changes() {
        let mut walk = Walk::from(Place::Overview);
        walk.step(Step::Down, &page(&["a", "b"]));
        walk.follow(&page(&["a", "b"]), &page(&["b", "c", "a"]));
        assert_eq!(walk.chosen(), 0);
        walk.follow(&page(&["b", "c", "a"]), &page(&[]));
        assert_eq!(walk.chosen(), 0);
    }
}
