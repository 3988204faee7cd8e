package store

import (
	"errors"
	"fmt"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
)

// Replay applies parts of the transaction log to a store that is not open. It opens only the engine, with the folders
// that o names, calls each with the function that applies an encoded batch, and makes everything durable.
//
// Batches set and delete rows. So a log that begins before the state of the store leads to the same result as one that
// begins at it, if it ends at that state or after it: the last change of each row decides.
func Replay(e *env.Env, dir string, o Options, each func(apply func(batch []byte) error) error) (err error) {
	o.fill()
	o.KeepLog = 0
	s := compose(e, dir, o)
	if s.eng, err = openEngine(s); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.eng.Close()) }()
	if err := each(s.replay); err != nil {
		return err
	}
	incarnation, err := s.metaUint(metaIncarnation)
	if err == nil && incarnation == 0 {
		err = fmt.Errorf("%w: the log does not belong to the store", ErrDamaged)
	}
	if err != nil {
		return err
	}
	if err := s.eng.Flush(); err != nil {
		return fmt.Errorf("store: replay the log: %w", err)
	}
	return nil
}

// replay applies one batch. It takes the batch's memory over.
func (s *Store) replay(batch []byte) error {
	h, ok := batchrepr.ReadHeader(batch)
	r := batchrepr.Read(batch)
	n := uint32(0)
	for ok && len(r) > 0 {
		kind, _, _, more, err := r.Next()
		if err != nil || !more {
			return fmt.Errorf("%w: batch: %w", ErrDamaged, errors.Join(err, errTorn(more)))
		}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindRangeDelete:
			n++
		case pebble.InternalKeyKindLogData:
		default:
			// A change that depends on the state before it could not be applied twice.
			return fmt.Errorf("%w: batch has a change of kind %s", ErrDamaged, kind)
		}
	}
	if !ok || n != h.Count {
		return fmt.Errorf("%w: batch says that it has %d changes and has %d", ErrDamaged, h.Count, n)
	}
	b := s.eng.NewBatch()
	defer b.Close()
	err := b.SetRepr(batch)
	if err == nil {
		err = s.eng.Apply(b, pebble.NoSync)
	}
	return engineError(err)
}
