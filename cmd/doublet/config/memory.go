package config

// MinMemory is the least memory that a server can be given.
const MinMemory Size = 128 << 20

// Within returns the configuration for a process that may use an amount of memory. Caches, memtables and budgets that
// are too large for it are made smaller: each gets at most its share. The engines keep up to four memtables. A budget
// for messages still holds two of the largest size, and so may be larger than its share.
func (c Config) Within(memory Size) Config {
	if memory <= 0 {
		return c
	}
	message := 2 * c.Limits.MessageSize
	for _, part := range []struct {
		size  *Size
		share Size
		least Size
	}{
		{&c.Store.CacheSize, 4, 1 << 20},
		{&c.Store.MemtableSize, 32, 1 << 20},
		{&c.Search.CacheSize, 16, 1 << 20},
		{&c.Search.MemtableSize, 64, 256 << 10},
		{&c.Search.DocumentsSize, 16, 1 << 20},
		{&c.Junk.Memory, 16, 1 << 20},
		{&c.Limits.MessageMemory, 8, message},
		{&c.Replica.ObjectMemory, 8, message},
	} {
		*part.size = min(*part.size, max(memory/part.share, part.least))
	}
	return c
}
