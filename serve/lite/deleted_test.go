package lite

import (
	"fmt"
	"regexp"
	"testing"
)

var picked = regexp.MustCompile(`name="m" value="([0-9a-f]+)"`)

// checked returns the fields of a form in which the first n messages of the page are checked.
func (b *browser) checked(n int) (fields []string) {
	b.w.t.Helper()
	all := picked.FindAllStringSubmatch(b.page, -1)
	if len(all) < n {
		b.w.t.Fatalf("%s lists %d messages, want %d", b.at, len(all), n)
	}
	for _, m := range all[:n] {
		fields = append(fields, "+m", m[1])
	}
	return fields
}

// TestRestoreDeleted checks that messages that were deleted for good are listed to their owner alone, page by page, and
// go back to the folder from which they came.
func TestRestoreDeleted(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathDeleted)
	b.want(200, "No deleted messages can be restored.")
	const two = 2
	for i := range perPage + two {
		w.put("alice", "INBOX", simple(fmt.Sprintf("Number %02d", i), "words"))
	}
	for _, folder := range []string{"Inbox", "Trash"} {
		for _, n := range []int{perPage, two} {
			b.get(Path)
			b.follow(folder)
			b.send("move", nil, append([]string{"do", "delete"}, b.checked(n)...)...)
			b.want(200)
		}
	}
	b.get(Path)
	b.follow("Trash")
	b.follow("Recover deleted messages")
	b.want(200, "Eve", ", from Inbox", "Older", "Number 24")
	b.send("Restore", nil)
	b.want(200, "Nothing was selected.")
	some := b.checked(two)
	b.send("Restore", nil, some...)
	b.want(200, "2 restored")
	b.lacks(some[1], some[3], "Older")
	// They are not there a second time.
	b.send("Restore", nil, some...)
	b.want(200, "This message can no longer be restored.")
	b.get(Path)
	b.want(200, some[1], some[3])
	b.get(pathDeleted + "?p=99")
	b.want(200, "Eve")

	// Another person neither sees nor restores them.
	left := b.checked(1)
	c := w.signed("bob")
	c.get(pathDeleted)
	c.want(200, "No deleted messages can be restored.")
	_, values := c.form("Sign out")
	values.Set("m", left[1])
	c.post(pathDeleted, values, nil)
	c.want(200, "This message can no longer be restored.")
	b.get(pathDeleted)
	b.want(200, left[1])
}
