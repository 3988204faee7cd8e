package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/note"
)

// SearchStatus is the state of the full-text index.
type SearchStatus struct {
	Running bool `json:"running" show:"always"`
	// Behind counts changes of the store that are not indexed yet. BehindFor is the time since the index was up to
	// date.
	Behind    uint64 `json:"behind" show:"always"`
	BehindFor string `json:"behind_for,omitempty"`
	Databases int    `json:"databases" show:"always"`
	// Off counts databases whose full text is switched off.
	Off int `json:"databases_off,omitempty"`
	// Building counts databases that are being indexed for the first time or again.
	Building int `json:"building" show:"always"`
	// Waiting counts messages whose attachments are not indexed yet.
	Waiting   int    `json:"attachments_waiting" show:"always"`
	Notes     uint64 `json:"notes" show:"always"`
	Text      Size   `json:"text" show:"always"`
	Size      Size   `json:"size" show:"always"`
	Encrypted uint64 `json:"skipped_encrypted" show:"always"`
	Broken    uint64 `json:"skipped_broken" show:"always"`
	Beyond    uint64 `json:"cut_at_limits" show:"always"`
}

// SearchRebuild are the arguments of search rebuild.
type SearchRebuild struct {
	Database string `json:"database" arg:"optional" help:"id, title, or owner of a mail file (default: all)"`
}

// errNoSearch reports that the full-text search is off.
var errNoSearch = errors.New("full-text search is off (search.enabled)")

func searches() []*Verb {
	return []*Verb{
		onServer("search status", "where the full-text index stands", searchStatus),
		onServer("search rebuild", "build the full-text index of a database anew, beside what answers now",
			searchRebuild, changes),
	}
}

func searchStatus(ctx context.Context, c *ServerCall, _ *struct{}) (SearchStatus, error) {
	if c.Server.Search == nil {
		return SearchStatus{}, errNoSearch
	}
	st, err := c.Server.Search.Status(ctx)
	out := SearchStatus{
		Running: st.Running, Behind: st.Behind, Databases: st.Databases, Off: st.Off, Building: st.Building,
		Waiting: st.Waiting,
		Notes:   st.Notes - min(st.Notes, st.Gone),
		Text:    Size(st.Text), Size: Size(st.Size), Encrypted: st.Encrypted, Broken: st.Broken, Beyond: st.Beyond,
	}
	if st.Since > 0 {
		out.BehindFor = st.Since.Round(time.Millisecond).String()
	}
	return out, err
}

func searchRebuild(_ context.Context, c *ServerCall, a *SearchRebuild) (Done, error) {
	if c.Server.Search == nil {
		return Done{}, errNoSearch
	}
	if a.Database == "" {
		c.Server.Search.Rebuild(note.DatabaseID(0))
		return Done{"the index of all databases is built anew; search status tells how far it is"}, nil
	}
	info, err := c.database(a.Database)
	if err != nil {
		return Done{}, err
	}
	if info.Key != nil {
		return Done{}, fmt.Errorf("%w: full text of %s is off, because it has a key of its own", ErrUsage, info.Title)
	}
	if info.NoFullText {
		return Done{}, fmt.Errorf("%w: full text of %s is off: db set %s --fulltext on", ErrUsage, info.Title,
			a.Database)
	}
	c.Server.Search.Rebuild(info.ID)
	return Done{fmt.Sprintf("the index of %s is built anew; search status tells how far it is", info.Title)}, nil
}
