//! Stub.
pub fn holm_levels(_p: &[f64], _alpha: f64) -> Vec<f64> {
    todo!()
}
pub fn holm_adjusted(_p: &[f64]) -> Vec<f64> {
    todo!()
}
pub fn benjamini_hochberg(_p: &[f64]) -> Vec<f64> {
    todo!()
}
