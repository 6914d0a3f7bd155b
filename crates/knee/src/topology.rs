//! The CPUs of this host: which there are, and at how many of them a sweep stops to measure. The
//! types that a record keeps, and the order in which CPUs are taken into use, are in `records`.

mod points;
mod read;
#[cfg(test)]
mod tests;

pub use points::points;
pub use read::read;
