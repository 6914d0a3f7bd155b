//! Stub.
pub fn detectable(_n: usize, _cv: f64, _alpha: f64) -> Option<f64> {
    todo!()
}
