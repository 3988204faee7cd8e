package admin

import (
	"context"
	"fmt"
	"time"

	"doublet/store/archive"
	"doublet/store/backup"
)

// Moments is a range of moments that can be restored, both ends included.
type Moments struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// ParseMoment reads a moment: RFC 3339, a date and a time, or a time of today, in the time zone of now. Fractions of a
// second are allowed. An empty text is the zero time.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, form := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04",
		"2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, form := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation("2006-01-02 "+form, now.Format(time.DateOnly)+" "+text,
			now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: %q is not a moment such as 14:03:07, 2026-11-26 14:03:07 or "+
		"2026-11-26T14:03:07Z", ErrUsage, text)
}

func showMoments(list []archive.Range, err error) ([]Moments, error) {
	out := make([]Moments, 0, len(list))
	for _, r := range list {
		out = append(out, Moments{r.From, r.To})
	}
	return out, err
}

// backupMoments implements backup moments.
func backupMoments(ctx context.Context, c *Call, a *BackupDir) ([]Moments, error) {
	dir, err := c.backupDir(a.Dir)
	if err != nil {
		return nil, err
	}
	return showMoments(backup.Moments(ctx, c.Env, dir))
}

// backupVerify implements backup verify.
func backupVerify(ctx context.Context, c *Call, a *BackupVerify) (Verified, error) {
	dir, err := c.backupDir(a.Dir)
	if err != nil {
		return Verified{}, err
	}
	keys, err := ReadKeys(c.Env, "", a.Identity)
	if err != nil {
		return Verified{}, err
	}
	o := c.backupOptions(0, keys)
	g, err := backup.Verify(ctx, c.Env, dir, uint64(max(a.At, 0)), o)
	out := Verified{Generation: ShowGeneration(g)}
	if err != nil {
		return out, err
	}
	out.Moments, err = showMoments(backup.VerifyArchive(ctx, c.Env, dir, o))
	return out, err
}

// Verified is the result of backup verify.
type Verified struct {
	Generation
	// Moments are the moments of the archive that can be restored, as far as it was read.
	Moments []Moments `json:"moments,omitempty"`
}
