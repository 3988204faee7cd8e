package embedded

import (
	"testing"

	"doublet/bus"
	"doublet/bus/bustest"
	"doublet/bus/pki"
)

type world struct{ f *bustest.Founded }

// host is a server of a test, with real sockets on loopback.
type host struct {
	f      *bustest.Founded
	folder *pki.Folder
	member bus.Member
	opts   Options
}

func (w world) Server(name string) bustest.Server { return w.server(name) }

func (w world) server(name string) *host {
	folder := w.f.Folder(name)
	id := folder.Identity()
	return &host{f: w.f, folder: folder, member: bus.Member{ID: id.ID, Name: name, Key: id.Key}}
}

func (s *host) Start(grant bus.Grant, setup func(bus.Bus)) bus.Bus {
	s.f.T.Helper()
	o := s.opts
	o.Identity, o.Grant, o.Listen, o.Routes = s.folder, grant, "127.0.0.1:0", "127.0.0.1:0"
	b, err := Open(s.f.Env.Env, o)
	if err != nil {
		s.f.T.Fatal(err)
	}
	setup(b)
	s.member.Route, s.member.Direct = b.Routes(), b.Direct()
	return b
}

func (s *host) Member() bus.Member { return s.member }

func TestConduct(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.World { return world{bustest.Found(t)} })
}
