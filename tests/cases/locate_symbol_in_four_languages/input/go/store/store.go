package store

type Store struct{}

// Load reads.
func (s *Store) load(name string) error {
	return nil
}
