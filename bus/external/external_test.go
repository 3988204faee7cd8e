package external

import (
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"
	"doublet/bus/pki"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// runNATS starts an external NATS server.
func runNATS(t *testing.T, o *natsserver.Options) *natsserver.Server {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	if o.Port == 0 {
		o.Port = natsserver.RANDOM_PORT
	}
	s, err := natsserver.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS does not start")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

type world struct {
	f   *bustest.Founded
	url string
}

type server struct {
	w      world
	folder *pki.Folder
	member bus.Member
}

func (w world) Server(name string) bustest.Server {
	folder := w.f.Folder(name)
	id := folder.Identity()
	return &server{w: w, folder: folder, member: bus.Member{ID: id.ID, Name: name, Key: id.Key}}
}

func (s *server) Start(grant bus.Grant, setup func(bus.Bus)) bus.Bus {
	s.w.f.T.Helper()
	var o Options
	o.Identity, o.Grant, o.Listen, o.URLs = s.folder, grant, "127.0.0.1:0", s.w.url
	b, err := Open(s.w.f.Env.Env, o)
	if err != nil {
		s.w.f.T.Fatal(err)
	}
	setup(b)
	s.member.Direct = b.Direct()
	return b
}

func (s *server) Member() bus.Member { return s.member }

func TestConduct(t *testing.T) {
	t.Parallel()
	n := runNATS(t, &natsserver.Options{Username: "doublet", Password: "secret"})
	url := "nats://doublet:secret@" + n.Addr().String()
	bustest.Run(t, func(t *testing.T) bustest.World { return world{bustest.Found(t), url} })
}
