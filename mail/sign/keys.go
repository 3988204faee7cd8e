package sign

import (
	"context"
	"slices"
	"time"

	"doublet/directory"
	"doublet/note"
)

// Ensure gives a domain keys of all algorithms, active at once, if it has none at all. made says
// that it had none. Until their records are published, receivers see signatures that they cannot
// check, which counts as if there were none.
func Ensure(ctx context.Context, d *directory.Directory, who note.Who, domain string, now time.Time) (made bool, err error) {
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

func fresh(domain string, have []directory.DKIMKey, state directory.KeyState, now time.Time) ([]directory.DKIMKey, error) {
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

func newKey(domain string, have []directory.DKIMKey, algorithm string, state directory.KeyState, now time.Time) (directory.DKIMKey, error) {
	private, err := Generate(algorithm)
	if err != nil {
		return directory.DKIMKey{}, err
	}
	return directory.DKIMKey{
		Domain: domain, Selector: directory.KeySelector(have, algorithm, now), Algorithm: algorithm, State: state, Private: private,
	}, nil
}

// Add gives a domain one more key. Without a selector it gets one of its day.
func Add(ctx context.Context, d *directory.Directory, who note.Who, domain, algorithm, selector string, state directory.KeyState, now time.Time) (directory.DKIMKey, error) {
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

// keepRetired is how long a retired key stays: mail that it signed may be under way that long, and
// somebody may look at it a second time.
const keepRetired = 30 * 24 * time.Hour

// Prepare is the first step of a rotation: new keys beside those that sign, to be published. Where
// there are some already, they are it. Keys that were retired long ago go.
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

// Switch is the second step: the new keys of the selectors sign, those that signed are retired. One
// that was made since its record was looked for waits for the next time.
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
