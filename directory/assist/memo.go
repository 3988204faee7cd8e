package assist

import (
	"sync"
	"time"
)

// memo holds answers for some time. When it is full, it drops expired answers, then any until a quarter is free.
type memo[V any] struct {
	mu    sync.Mutex
	size  int
	table map[string]kept[V]
}

type kept[V any] struct {
	value V
	until time.Time
}

func (m *memo[V]) get(key string, now time.Time) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.table[key]
	if !ok || !now.Before(k.until) {
		return v, false
	}
	return k.value, true
}

// put stores an answer until a time. A time that is past stores nothing.
func (m *memo[V]) put(key string, v V, now, until time.Time) {
	if !now.Before(until) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.table == nil {
		m.table = map[string]kept[V]{}
	}
	if _, have := m.table[key]; !have && len(m.table) >= m.size {
		m.shrink(now)
	}
	m.table[key] = kept[V]{v, until}
}

func (m *memo[V]) shrink(now time.Time) {
	for k, v := range m.table {
		if !now.Before(v.until) {
			delete(m.table, k)
		}
	}
	for k := range m.table {
		if len(m.table) <= m.size*3/4 {
			return
		}
		delete(m.table, k)
	}
}
