package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/cluster"
	"doublet/directory"
	"doublet/note"
)

// ClusterInit are the arguments of cluster init.
type ClusterInit struct {
	Name string `json:"name" arg:"required" help:"name of the cluster"`
}

// ClusterToken are the arguments of cluster token.
type ClusterToken struct {
	Expires string `json:"expires" default:"1h" help:"how long the token is good"`
	NoKey   bool   `json:"no_key" help:"keep the authority's key here: the new member cannot create tokens"`
}

// ClusterMember is a server in the results of cluster verbs.
type ClusterMember struct {
	Cluster string `json:"cluster"`
	Server  string `json:"server"`
	ID      string `json:"id"`
	// Authority is the fingerprint of the authority's certificate.
	Authority string    `json:"authority"`
	Until     time.Time `json:"certificate_until"`
	Routes    string    `json:"routes,omitempty"`
	Direct    string    `json:"direct"`
	Next      string    `json:"next,omitempty"`
}

// JoinToken is the result of cluster token.
type JoinToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
	Next    string    `json:"next"`
}

func clusters() []*Verb {
	return []*Verb{
		define("cluster init", "found a cluster with this server as its first member",
			func(ctx context.Context, c *Call, a *ClusterInit) (ClusterMember, error) {
				return c.foundCluster(ctx, a.Name)
			}, changes,
			long("It makes the cluster's own authority and this server's certificate in the folder cluster of the "+
				"data folder, and the\nCluster Database Directory. The addresses are those of the section [cluster] "+
				"of the settings.\nNext: doublet cluster token, and with it doublet cluster join on another machine.")),
		onServer("cluster token", "make a token with which one other server joins",
			func(_ context.Context, c *ServerCall, a *ClusterToken) (JoinToken, error) {
				return c.joinToken(a)
			}, changes,
			long("Whoever has the token can join one server while it is good: keep it as a password. It carries "+
				"this server's direct\naddress, which the other server must reach, and the fingerprint of the "+
				"cluster's authority.")),
	}
}

// foundCluster creates a cluster. After an interruption it may be run again from the beginning.
func (c *Call) foundCluster(ctx context.Context, name string) (ClusterMember, error) {
	if _, direct, err := c.Member.Addresses(); err != nil {
		return ClusterMember{}, err
	} else if direct == "" {
		return ClusterMember{}, fmt.Errorf("%w: cluster.direct is off in the settings", ErrUsage)
	}
	f, err := c.Member.Folder()
	if err == nil && f == nil {
		f, err = c.Member.Found(name, c.Name)
	}
	if err != nil {
		return ClusterMember{}, err
	}
	if f.Cluster() != name {
		return ClusterMember{}, fmt.Errorf("%w: %s", pki.ErrExists, f.Cluster())
	}
	saved, err := f.Members() // written last
	if err != nil {
		return ClusterMember{}, err
	}
	if len(saved) > 0 {
		return c.enterAgain(ctx, f)
	}
	if err := cluster.Found(c.Store); err != nil {
		return ClusterMember{}, err
	}
	all, err := c.enterMember(ctx, c.Who, f, c.member(f), c.Name, false)
	if err == nil {
		err = f.SaveMembers(all)
	}
	if err != nil {
		return ClusterMember{}, err
	}
	m := c.showMember(f)
	if c.running == nil {
		m.Next = "doublet serve, then doublet cluster token"
		return m, nil
	}
	m.Next = "doublet cluster token"
	if _, err := c.running.Enter(ctx); err != nil {
		return m, err
	}
	return m, c.Announce(ctx)
}

// enterAgain makes a running server join a cluster that it founded before, if an error prevented that then.
func (c *Call) enterAgain(ctx context.Context, f *pki.Folder) (ClusterMember, error) {
	if c.running != nil {
		entered, err := c.running.Enter(ctx)
		if err != nil {
			return ClusterMember{}, err
		}
		if entered {
			m := c.showMember(f)
			m.Next = "doublet cluster token"
			return m, c.Announce(ctx)
		}
	}
	return ClusterMember{}, fmt.Errorf("%w: %s", pki.ErrExists, f.Cluster())
}

// member returns the description of this server for its mates.
func (s *System) member(f *pki.Folder) bus.Member {
	me := f.Identity()
	m := bus.Member{ID: me.ID, Name: me.Name, Key: me.Key}
	m.Route, m.Direct, _ = s.Member.Addresses()
	return m
}

func (s *System) showMember(f *pki.Folder) ClusterMember {
	me := f.Identity()
	m := ClusterMember{Cluster: f.Cluster(), Server: me.Name, ID: me.ID.String(), Authority: f.Fingerprint().String(),
		Until: me.Until}
	m.Routes, m.Direct, _ = s.Member.Addresses()
	return m
}

// enterMember writes the server document of a member, and returns all members.
func (s *System) enterMember(ctx context.Context, who note.Who, f *pki.Folder, m bus.Member, host string,
	gateway bool) ([]bus.Member, error) {
	if !strings.Contains(host, ".") {
		host = "" // a machine's own short name is useless to others
	}
	if _, err := s.Directory.Servers.Enter(ctx, who, m.ID, directory.ServerFields{Name: m.Name,
		Host: host}); err != nil {
		return nil, err
	}
	err := cluster.SetMember(ctx, s.Store, who, m.ID, func(x *cluster.Member) error {
		x.Member, x.Cluster = m, f.Cluster()
		if x.State == "" {
			x.State, x.Gateway = cluster.Active, gateway
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, err := cluster.Members(ctx, s.Store, f.Cluster())
	all := make([]bus.Member, len(list))
	for i := range list {
		all[i] = list[i].Member
	}
	return all, err
}

// Admit enters a server that joins with a token. The bus calls it, once the directory is open.
func (s *System) Admit(ctx context.Context, m bus.Member, a pki.Applicant) (pki.Admission, error) {
	f, err := s.Member.Folder()
	if err != nil {
		return pki.Admission{}, err
	}
	if f == nil {
		return pki.Admission{}, pki.ErrNone
	}
	domains, err := s.Directory.Domains.List(ctx)
	if err != nil {
		return pki.Admission{}, err
	}
	members, err := s.enterMember(ctx, note.System, f, m, a.Host, a.Gateway)
	if err != nil {
		return pki.Admission{}, err
	}
	s.Env.Log.Info("server joins the cluster", "name", m.Name, "id", m.ID.String(), "direct", m.Direct,
		"version", a.Version)
	return pki.Admission{Members: members, Domain: strings.Join(domains[:min(len(domains), 1)], "")}, nil
}

// Announce updates this server's addresses in its server document if they have changed.
func (s *System) Announce(ctx context.Context) error {
	f, err := s.Member.Folder()
	if err != nil || f == nil {
		return err
	}
	me := s.member(f)
	list, err := cluster.Members(ctx, s.Store, f.Cluster())
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.ID == me.ID && (m.Route != me.Route || m.Direct != me.Direct) {
			return cluster.SetMember(ctx, s.Store, note.System, me.ID, func(x *cluster.Member) error {
				x.Route, x.Direct = me.Route, me.Direct
				return nil
			})
		}
	}
	return nil
}

func (s *System) joinToken(a *ClusterToken) (JoinToken, error) {
	life, err := tokenLife(a.Expires)
	if err != nil {
		return JoinToken{}, err
	}
	f, err := s.Member.Folder()
	if err != nil {
		return JoinToken{}, err
	}
	if f == nil {
		return JoinToken{}, fmt.Errorf("%w: found one with doublet cluster init", pki.ErrNone)
	}
	_, direct, err := s.Member.Addresses()
	if err != nil {
		return JoinToken{}, err
	}
	token, until, err := f.NewToken(direct, life, !a.NoKey)
	if err != nil {
		return JoinToken{}, err
	}
	return JoinToken{Token: token.String(), Expires: until,
		Next: "on the other machine: doublet cluster join TOKEN, then doublet serve"}, nil
}
