package internal

import "testing"

func TestDescribe(t *testing.T) {
	for _, total := range []int{0, 100} {
		t.Run(Describe(total), func(t *testing.T) {
			if Describe(total) == "" {
				t.Error("Expected a description")
			}
		})
	}
}

func TestDatabase(t *testing.T) {
	t.Skip("there is no database here")
}
