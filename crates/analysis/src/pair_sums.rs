//! The sums of all pairs of two lists of numbers, by rank. The two rank statistics ask a few ranks of n (n + 1) / 2 or
//! n m sums: sums of long lists are never listed.
//!
//! Sources: J. F. Monahan, "Algorithm 616: Fast Computation of the Hodges–Lehmann Location Estimator", ACM Transactions on
//! Mathematical Software 10, 1984: how many sums are at most some value takes one pass over sorted lists, and a range of
//! values is narrowed until few sums are left in it.

/// Sums of pairs, of which some rank is asked. Numbers must be finite; -0 is less than 0.
#[derive(Clone, Debug)]
pub(crate) enum PairSums {
    /// All sums, ascending.
    Listed(Vec<f64>),
    /// Sums of long lists, which are counted.
    Counted(SortedLists),
}

/// Two ascending lists.
#[derive(Clone, Debug)]
pub(crate) struct SortedLists {
    rows: Vec<f64>,
    columns: Vec<f64>,
    /// Whether both lists are the same, and a pair is two places of it in either order, or one place twice.
    is_one_list: bool,
}

/// It is quicker to list and sort up to this number of sums.
const LISTED_MAX: usize = 5000;

/// A range with at most so many sums for each number of the lists is narrow enough to list them.
const LEFT_PER_NUMBER: usize = 4;

impl PairSums {
    /// The sums of each two numbers of a list, and of each number with itself.
    pub fn within(mut numbers: Vec<f64>) -> PairSums {
        numbers.sort_unstable_by(f64::total_cmp);
        PairSums::new(SortedLists { rows: numbers.clone(), columns: numbers, is_one_list: true })
    }

    /// The sums of each number of `a` with each of `b`.
    pub fn between(mut a: Vec<f64>, mut b: Vec<f64>) -> PairSums {
        a.sort_unstable_by(f64::total_cmp);
        b.sort_unstable_by(f64::total_cmp);
        PairSums::new(SortedLists { rows: a, columns: b, is_one_list: false })
    }

    fn new(lists: SortedLists) -> PairSums {
        match lists.pairs() {
            0..=LISTED_MAX => PairSums::Listed(lists.between(i64::MIN, i64::MAX)),
            _ => PairSums::Counted(lists),
        }
    }

    /// The number of sums.
    pub fn len(&self) -> usize {
        match self {
            PairSums::Listed(sums) => sums.len(),
            PairSums::Counted(lists) => lists.pairs(),
        }
    }

    /// How many sums are at most this.
    pub fn at_most(&self, most: f64) -> usize {
        match self {
            PairSums::Listed(sums) => sums.partition_point(|sum| sum.total_cmp(&most).is_le()),
            PairSums::Counted(lists) => lists.at_most(most),
        }
    }

    /// The sum with so many others below it, counted from 0.
    pub fn nth(&self, below: usize) -> f64 {
        match self {
            PairSums::Listed(sums) => sums[below],
            PairSums::Counted(lists) => lists.nth(below),
        }
    }

    /// The middle sum, or the mean of the two in the middle; `None` without any.
    pub fn median(&self) -> Option<f64> {
        let n = self.len();
        (n > 0).then(|| self.nth((n - 1) / 2) / 2.0 + self.nth(n / 2) / 2.0)
    }
}

impl SortedLists {
    fn pairs(&self) -> usize {
        let n = self.rows.len();
        if self.is_one_list { n * (n + 1) / 2 } else { n * self.columns.len() }
    }

    /// The first column of a row.
    fn start(&self, row: usize) -> usize {
        if self.is_one_list { row } else { 0 }
    }

    /// For each row: the end of the columns with sums at most this. The larger a row's number, the fewer fit.
    fn ends(&self, most: f64) -> impl Iterator<Item = usize> + '_ {
        let mut end = self.columns.len();
        self.rows.iter().enumerate().map(move |(row, number)| {
            let start = self.start(row);
            while end > start && (number + self.columns[end - 1]).total_cmp(&most).is_gt() {
                end -= 1;
            }
            end.max(start)
        })
    }

    fn at_most(&self, most: f64) -> usize {
        self.ends(most).enumerate().map(|(row, end)| end - self.start(row)).sum()
    }

    /// The sums whose places in the order of all numbers are above `low` and at most `high`, ascending.
    fn between(&self, low: i64, high: i64) -> Vec<f64> {
        let ends = self.ends(at_place(low)).zip(self.ends(at_place(high)));
        let sums = self.rows.iter().zip(ends).flat_map(|(number, (from, to))| {
            self.columns[from..to].iter().map(move |other| number + other)
        });
        let mut sums: Vec<f64> = sums.collect();
        sums.sort_unstable_by(f64::total_cmp);
        sums
    }

    /// Narrows the range that holds the sum: in turn where a straight line through the counts at its ends expects the
    /// sum, which takes a few steps if sums are spread evenly, and in the middle of the numbers that there are, which
    /// takes 64 whatever the sums are.
    fn nth(&self, below: usize) -> f64 {
        let last = |list: &[f64]| list[list.len() - 1];
        // The sum's place is above `low` and at most `high`; so many sums are at most these.
        let (mut low, mut few) = (place(self.rows[0] + self.columns[0]) - 1, 0);
        let (mut high, mut many) = (place(last(&self.rows) + last(&self.columns)), self.pairs());
        let enough = LEFT_PER_NUMBER * (self.rows.len() + self.columns.len());
        for step in 0.. {
            if many - few <= enough || high - 1 == low {
                break;
            }
            let middle = low + (high.wrapping_sub(low) as u64 / 2) as i64;
            let (from, to) = (at_place(low), at_place(high));
            let share = (below - few) as f64 / (many - few) as f64;
            let pivot = match from + share * (to - from) {
                expected if step % 2 == 0 && expected.is_finite() => {
                    place(expected).clamp(low + 1, high - 1)
                }
                _ => middle,
            };
            match self.at_most(at_place(pivot)) {
                count if count > below => (high, many) = (pivot, count),
                count => (low, few) = (pivot, count),
            }
        }
        if high - 1 == low { at_place(high) } else { self.between(low, high)[below - few] }
    }
}

/// A number's place in the order of all, as `f64::total_cmp` has it.
fn place(number: f64) -> i64 {
    let bits = number.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The number of this place.
fn at_place(place: i64) -> f64 {
    f64::from_bits((place ^ (((place >> 63) as u64) >> 1) as i64) as u64)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Asks counted sums for ranks and counts, and compares with all sums, listed and sorted.
    fn check(lists: SortedLists, what: &str) {
        let mut listed: Vec<f64> = Vec::new();
        for (row, number) in lists.rows.iter().enumerate() {
            listed.extend(lists.columns[lists.start(row)..].iter().map(|other| number + other));
        }
        listed.sort_unstable_by(f64::total_cmp);
        let n = listed.len();
        assert_eq!(lists.pairs(), n);
        for below in [0, 1, n / 40, n / 3, n / 2, n - 2, n - 1] {
            assert_eq!(lists.nth(below).to_bits(), listed[below].to_bits(), "{what}: {below}");
        }
        for most in [-0.0, 0.0, 0.5, -f64::from_bits(1), listed[n / 4], f64::MAX, f64::MIN] {
            let expected = listed.iter().filter(|one| one.total_cmp(&most).is_le()).count();
            assert_eq!(lists.at_most(most), expected, "{what}: {most}");
        }
    }

    #[test]
    fn ranks_are_those_of_the_sums_listed() {
        let seed = 11;
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for round in 0..60 {
            let mut list = |n: usize| -> Vec<f64> {
                let number = |_| match round % 6 {
                    0 => f64::from(random.random_range(-3..=3)),
                    1 => random.random_range(-1e-300..1e-300),
                    2 => random.random_range(0.0..8e307),
                    3 => random.random_range(-1.0_f64..1.0).powi(25) * 1e200,
                    4 => [0.0, -0.0, 1.0][random.random_range(0..3)],
                    _ => random.random_range(-1.0..2.0),
                };
                let mut list: Vec<f64> = (0..n).map(number).collect();
                list.sort_unstable_by(f64::total_cmp);
                list
            };
            let rows = list(2 + 3 * round);
            let columns = list(1 + 5 * (round * 7 % 60));
            let within =
                SortedLists { rows: rows.clone(), columns: rows.clone(), is_one_list: true };
            check(within, &format!("within, round {round}"));
            let between = SortedLists { rows, columns, is_one_list: false };
            check(between, &format!("between, round {round}"));
        }
    }
}
