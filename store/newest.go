package store

import (
	"cmp"
	"slices"

	"doublet/store/layout"
)

// maxNewest bounds the changes that newest holds: at least so many of the latest, and at most twice as many, with 24
// bytes each.
const maxNewest = 2048

// newest holds the latest changes of the feed in memory, so that a consumer that keeps up does not read the engine. The
// lock of the horizon protects it.
//
// Invariant: list holds, in order, every change above floor that the horizon has passed. Its elements never change, so
// a part of it may be read without the lock.
type newest struct {
	floor uint64
	list  []layout.FeedItem
}

// add appends the changes of a commit that the horizon passes.
func (n *newest) add(items []layout.FeedItem) {
	n.list = append(n.list, items...)
	if drop := len(n.list) - maxNewest; drop >= maxNewest {
		n.floor = max(n.floor, n.list[drop-1].Seq)
		n.list = slices.Clone(n.list[drop:])
	}
}

// since returns the changes after a sequence. ok is false if changes that are not held are among them.
func (n *newest) since(seq uint64) (list []layout.FeedItem, ok bool) {
	if seq < n.floor {
		return nil, false
	}
	i, found := slices.BinarySearchFunc(n.list, seq, func(it layout.FeedItem, seq uint64) int {
		return cmp.Compare(it.Seq, seq)
	})
	if found {
		i++
	}
	return n.list[i:], true
}
