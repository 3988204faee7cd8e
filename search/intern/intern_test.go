package intern

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestTable compares a table with a map, over words that come again, growth and resets.
func TestTable(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var table Table
	for round, size := range []int{10, most, 3, 1000} {
		numbers := map[string]int{}
		for range 3 * size {
			word := fmt.Sprint(r.IntN(size))
			known, there := numbers[word]
			b := []byte(word)
			n, isNew := table.Number(b)
			if isNew == there || there && n != known {
				t.Fatalf("round %d: %s has number %d, new %v; before %d, %v", round, word, n, isNew, known, there)
			}
			if isNew {
				numbers[word] = n
			}
			clear(b) // the caller's bytes
		}
		if table.Len() != len(numbers) {
			t.Fatalf("round %d: %d of %d", round, table.Len(), len(numbers))
		}
		for word, n := range numbers {
			if string(table.Text(n)) != word {
				t.Fatalf("round %d: number %d is %q, want %q", round, n, table.Text(n), word)
			}
		}
		table.Reset()
		if table.Len() != 0 || len(table.slots) > most || cap(table.bytes) > mostBytes {
			t.Fatalf("round %d: %d strings, %d slots, %d bytes after a reset", round, table.Len(), len(table.slots),
				cap(table.bytes))
		}
	}
}
