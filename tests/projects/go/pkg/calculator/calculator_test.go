package calculator

import "testing"

func TestCalculate(t *testing.T) {
	if total := Calculate(60, 40); total != 100 {
		t.Errorf("Expected 100, got %d", total)
	}
}

func TestCalculateNothing(t *testing.T) {
	if total := Calculate(1, 0); total != 0 {
		t.Errorf("Expected 0, got %d", total)
	}
}
