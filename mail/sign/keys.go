package sign

import (
	"context"
	"slices"
	"time"

	"doublet/directory"
	"doublet/note"
)

// Ensure creates active keys of all algorithms for a domain that has no keys. made reports whether it did. Until the
// key records are published, receivers cannot verify the signatures, and treat the mail as unsigned.
func Ensure(ctx context.Context, d *directory.Directory, who note.Who, domain string,
	now time.Time) (made bool, err error) {
	have, err := d.DKIMKeys.Of(ctx, who, domain)
	if err != nil || len(have) > 0 {
		return false, err
	}
	fresh, err := fresh(domain, nil, directory.KeyActive, now)
	if err != nil {
		return false, err
	}
	err = d.DKIMKeys.Edit(ctx, who, domain, func(have []directory.DKIMKey) ([]directory.DKIMKey, error) {
		made = len(have) == 0
		if !made {
			return have, nil
		}
		return fresh, nil
	})
	return made && err == nil, err
}

func fresh(domain string, have []directory.DKIMKey, state directory.KeyState,
	now time.Time) ([]directory.DKIMKey, error) {
	name, err := directory.NormalDomain(domain)
	if err != nil {
		return nil, err
	}
	var out []directory.DKIMKey
	for _, algorithm := range Algorithms {
		k, err := newKey(name, append(have[:len(have):len(have)], out...), algorithm, state, now)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

func newKey(domain string, have []directory.DKIMKey, algorithm string, state directory.KeyState,
	now time.Time) (directory.DKIMKey, error) {
	private, err := Generate(algorithm)
	if err != nil {
		return directory.DKIMKey{}, err
	}
	return directory.DKIMKey{
		Domain: domain, Selector: directory.KeySelector(have, algorithm, now), Algorithm: algorithm, State: state,
		Private: private,
	}, nil
}

// Add adds a key to a domain. Without a selector it chooses one from the date.
func Add(ctx context.Context, d *directory.Directory, who note.Who, domain, algorithm, selector string,
	state directory.KeyState, now time.Time) (directory.DKIMKey, error) {
	name, err := directory.NormalDomain(domain)
	if err != nil {
		return directory.DKIMKey{}, err
	}
	k, err := newKey(name, nil, algorithm, state, now)
	if err != nil {
		return k, err
	}
	if selector != "" {
		k.Selector = selector
	}
	err = d.DKIMKeys.Edit(ctx, who, name, func(have []directory.DKIMKey) ([]directory.DKIMKey, error) {
		if selector == "" {
			k.Selector = directory.KeySelector(have, algorithm, now)
		}
		return append(have, k), nil
	})
	return k, err
}

// keepRetired is the time for which a retired key is kept. Mail that it signed may be in transit for so long, and
// receivers may verify it again later.
const keepRetired = 30 * 24 * time.Hour

// Prepare is the first step of a key rotation: it creates new keys, whose records must be published next. If new keys
// exist already, it creates none. It deletes keys that were retired more than keepRetired ago.
func Prepare(ctx context.Context, d *directory.Directory, who note.Who, domain string, now time.Time) error {
	have, err := d.DKIMKeys.Of(ctx, who, domain)
	if err != nil {
		return err
	}
	made, err := fresh(domain, have, directory.KeyNext, now)
	if err != nil {
		return err
	}
	return d.DKIMKeys.Edit(ctx, who, domain, func(have []directory.DKIMKey) ([]directory.DKIMKey, error) {
		out := make([]directory.DKIMKey, 0, len(have)+len(made))
		waiting := false
		for _, k := range have {
			waiting = waiting || k.State == directory.KeyNext
			if k.State != directory.KeyRetired || now.Sub(k.Changed) < keepRetired {
				out = append(out, k)
			}
		}
		if !waiting {
			out = append(out, made...)
		}
		return out, nil
	})
}

// Switch is the second step of a rotation: the new keys with the given selectors become active, and the active keys are
// retired. A new key that is not in selectors, because its record has not been checked, waits for the next call.
func Switch(ctx context.Context, d *directory.Directory, who note.Who, domain string, selectors []string) error {
	return d.DKIMKeys.Edit(ctx, who, domain, func(have []directory.DKIMKey) ([]directory.DKIMKey, error) {
		waiting := false
		for i := range have {
			waiting = waiting || have[i].State == directory.KeyNext && slices.Contains(selectors, have[i].Selector)
		}
		for i := range have {
			switch {
			case have[i].State == directory.KeyNext && slices.Contains(selectors, have[i].Selector):
				have[i].State = directory.KeyActive
			case have[i].State == directory.KeyActive && waiting:
				have[i].State = directory.KeyRetired
			}
		}
		return have, nil
	})
}
