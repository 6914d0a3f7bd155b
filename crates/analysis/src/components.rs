//! Stub.
pub struct Split {
    pub within: f64,
    pub between: f64,
}
pub fn split(_g: &[Vec<f64>]) -> Option<Split> {
    todo!()
}
