package admin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"doublet/mailbox"
	"doublet/store"
	"doublet/store/layout"
)

// Server is the result of show server.
type Server struct {
	Name        string    `json:"name"`
	Version     string    `json:"version"`
	Data        string    `json:"data"`
	Running     bool      `json:"running"`
	Started     time.Time `json:"started,omitzero"`
	Elapsed     string    `json:"elapsed,omitempty"`
	Doors       []Door    `json:"doors,omitempty"`
	Databases   int       `json:"databases"`
	Horizon     uint64    `json:"horizon"`
	Active      float64   `json:"users_active_15_min"`
	Transaction float64   `json:"transactions_per_minute"`
	FreeSpace   Size      `json:"free_space,omitempty"`
	Memory      Size      `json:"memory"`
	Platform    string    `json:"platform"`
}

// ActiveUser is a person in the result of show users: the mail file and its content.
type ActiveUser struct {
	Name     string `json:"name"`
	Address  string `json:"address,omitempty"`
	Messages uint64 `json:"messages" show:"always"`
	Unread   uint64 `json:"unread" show:"always"`
	Bytes    Size   `json:"bytes" show:"always"`
	Quota    Limit  `json:"quota,omitempty" show:"always"`
	// State is the state of a mail file that is not in service: out of service, pending delete.
	State string `json:"state,omitempty"`
}

func shows() []*Verb {
	return []*Verb{
		define("show server", "what this server is and how it does", showServer),
		define("show users", "people and what their mail files hold", showUsers),
		define("show databases", "databases and their states", databaseList),
		define("show queue", "what waits in mail.box", showQueue),
	}
}

func showServer(_ context.Context, c *Call, _ *struct{}) (Server, error) {
	all, err := c.Store.Databases()
	if err != nil {
		return Server{}, err
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s := Server{
		Name: c.Name, Version: c.Version, Data: c.Data, Running: c.running != nil, Doors: c.openDoors(),
		Databases: len(all), Horizon: c.Store.Horizon(),
		Memory: Size(mem.Sys), Platform: fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH,
			runtime.NumCPU(), runtime.Version()),
	}
	if disk, err := c.Env.FS.GetDiskUsage(c.Data); err == nil {
		s.FreeSpace = Size(disk.AvailBytes)
	}
	if s.Running {
		s.Started, s.Elapsed = c.Started.UTC(), c.Env.Clock.Now().Sub(c.Started).Round(time.Second).String()
	}
	for _, e := range c.Stats.Snapshot("Server") {
		switch e.Name {
		case "Server.Users.Active15Min":
			s.Active = e.Value
		case "Server.Trans.PerMinute":
			s.Transaction = e.Value
		}
	}
	return s, nil
}

func showUsers(ctx context.Context, c *Call, a *Listing) ([]ActiveUser, error) {
	people, err := listDocuments((*Call).people)(ctx, c, a)
	if err != nil {
		return nil, err
	}
	out := make([]ActiveUser, 0, len(people))
	for _, p := range people {
		u := ActiveUser{Name: p.Name, Address: p.Address, Quota: p.Quota}
		if p.Database != "" {
			full, err := c.Directory.Names.PersonOf(ctx, p.ID)
			if err != nil {
				return nil, err
			}
			who, err := c.Directory.Names.WhoOf(ctx, full.ID)
			if info, err := c.Store.Info(full.MailDatabase); err == nil && info.State != layout.InService {
				u.State = info.State.String()
			}
			if err == nil {
				err = c.count(ctx, &u, c.Mailbox.File(who, full.MailDatabase))
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrOutOfService) &&
				Kind(err) == "failed" {
				return nil, err
			}
		}
		out = append(out, u)
	}
	return out, nil
}

func (c *Call) count(ctx context.Context, u *ActiveUser, f *mailbox.File) error {
	folders, err := f.Folders(ctx)
	for _, fo := range folders {
		u.Messages += uint64(fo.Total)
		u.Unread += uint64(fo.Unseen)
		u.Bytes += Size(fo.Size)
	}
	return err
}
