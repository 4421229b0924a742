pub struct Store;

impl Store {
    /// Reads.
    pub fn load(&self) {}
}
