package lite

import (
	"fmt"
	"testing"

	"doublet/serve/condition"
)

// TestConditions checks that the pages show the texts of package condition.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, c := range condition.All {
		for _, err := range c.Errors() {
			if status, key := refusal(fmt.Errorf("below: %w", err)); status != c.HTTP || key != c.Text {
				t.Errorf("%v: %d %s, want %d %s", err, status, key, c.HTTP, c.Text)
			}
		}
	}
}
