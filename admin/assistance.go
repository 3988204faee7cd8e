package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/directory"
	"doublet/directory/assist"
	"doublet/note"
)

// OtherDirectory is another LDAP directory. It never contains the password.
type OtherDirectory struct {
	Name    string   `json:"name"`
	On      bool     `json:"on" show:"always"`
	Order   int      `json:"order,omitempty"`
	URLs    []string `json:"urls"`
	TLS     string   `json:"tls,omitempty"`
	CA      bool     `json:"ca,omitempty"`
	Base    string   `json:"base,omitempty"`
	BindDN  string   `json:"bind_dn,omitempty"`
	Kind    string   `json:"kind"`
	Uses    []string `json:"uses"`
	Enroll  bool     `json:"enroll,omitempty"`
	Domains []string `json:"domains,omitempty"`
	People  string   `json:"people,omitempty"`
	Lookup  string   `json:"lookup,omitempty"`
	Groups  string   `json:"groups,omitempty"`
	// Attributes lists field=attribute for those that are not the kind's.
	Attributes []string `json:"attributes,omitempty"`
	Timeout    string   `json:"timeout,omitempty"`
	Cache      string   `json:"cache,omitempty"`
}

// AssistanceAdd are the arguments of assistance add.
type AssistanceAdd struct {
	Name     string   `json:"name" arg:"required" help:"name of the directory"`
	URL      []string `json:"url" required:"true" help:"ldap://host or ldaps://host; may be repeated"`
	Base     string   `json:"base" help:"DN below which entries are searched"`
	BindDN   string   `json:"bind_dn" help:"who searches (default: nobody, anonymously)"`
	Password string   `json:"password" help:"password of the bind DN" secret:"unasked"`
	Kind     string   `json:"kind" help:"ldap or ad (Active Directory)" default:"ldap"`
	Use      []string `json:"use" help:"signin, lookup or groups; may be repeated (default: signin)"`
	Enroll   bool     `json:"enroll" help:"add people here when they sign in for the first time"`
	Domain   []string `json:"domain" help:"domain whose addresses it may answer for; may be repeated (default: all)"`
	TLS      string   `json:"tls" help:"starttls or none for ldap:// (default: starttls, none on this machine)"`
	CA       string   `json:"ca" help:"certificates of its authorities as PEM text (default: the system's)"`
	People   string   `json:"people" help:"filter for a person who signs in, with %s for the name"`
	Lookup   string   `json:"lookup" help:"filter for people by the beginning of a name, with %s"`
	Groups   string   `json:"groups" help:"filter for a group by its address, with %s"`
	Map      []string `json:"map" help:"short=, name=, mail= or member= and an attribute; may be repeated"`
	Timeout  string   `json:"timeout" help:"time for a request (5s)"`
	Cache    string   `json:"cache" help:"time for which answers and right passwords hold (1m), -1s for none"`
	Order    int      `json:"order" help:"place among the directories, the lowest first"`
	Off      bool     `json:"off" help:"do not use it yet"`
}

// AssistanceSet are the arguments of assistance set. A nil field leaves the value unchanged.
type AssistanceSet struct {
	Name     string    `json:"name" arg:"required" help:"name of the directory"`
	Rename   *string   `json:"rename" help:"new name"`
	URL      *[]string `json:"url" help:"new servers"`
	Base     *string   `json:"base" help:"DN below which entries are searched"`
	BindDN   *string   `json:"bind_dn" help:"who searches; empty: nobody, anonymously"`
	Password *string   `json:"password" help:"password of the bind DN" secret:"unasked"`
	Kind     *string   `json:"kind" help:"ldap or ad"`
	Use      *[]string `json:"use" help:"new uses: signin, lookup, groups"`
	Enroll   *bool     `json:"enroll" help:"add people here when they sign in for the first time"`
	Domain   *[]string `json:"domain" help:"new domains; one empty value: all"`
	TLS      *string   `json:"tls" help:"starttls, none, or empty"`
	CA       *string   `json:"ca" help:"certificates as PEM text; empty: the system's"`
	People   *string   `json:"people" help:"filter for a person who signs in; empty: the kind's"`
	Lookup   *string   `json:"lookup" help:"filter for people by the beginning of a name; empty: the kind's"`
	Groups   *string   `json:"groups" help:"filter for a group by its address; empty: the kind's"`
	Map      *[]string `json:"map" help:"new attributes; one empty value: the kind's"`
	Timeout  *string   `json:"timeout" help:"time for a request"`
	Cache    *string   `json:"cache" help:"time for which answers and right passwords hold, -1s for none"`
	Order    *int      `json:"order" help:"place among the directories, the lowest first"`
	Off      *bool     `json:"off" help:"do not use it; --off=false uses it again"`
}

// AssistanceNamed are the arguments of verbs on one other directory.
type AssistanceNamed struct {
	Name string `json:"name" arg:"required" help:"name of the directory"`
}

// AssistanceTry are the arguments of assistance test.
type AssistanceTry struct {
	Name string `json:"name" arg:"optional" help:"name of the directory (default: all)"`
	User string `json:"user" help:"name or address of a person to find there"`
}

// AssistanceStep is one step of assistance test.
type AssistanceStep struct {
	Directory string `json:"directory"`
	Step      string `json:"step"`
	OK        bool   `json:"ok" show:"always"`
	Detail    string `json:"detail,omitempty"`
	Error     string `json:"error,omitempty"`
}

// AssistanceSteps is the result of assistance test.
type AssistanceSteps []AssistanceStep

// Bad reports whether a step failed, for the exit code.
func (l AssistanceSteps) Bad() bool {
	return slices.ContainsFunc(l, func(s AssistanceStep) bool { return !s.OK })
}

func assistance() []*Verb {
	return []*Verb{
		define("assistance list", "list the other directories, in their order", assistanceList),
		define("assistance add", "use another LDAP directory or Active Directory", assistanceAdd, changes, machine,
			long("People of whom it keeps the password sign in here: those with user set --assistance NAME, and with "+
				"--enroll everybody there,\nwho is added here at the first sign-in. See first what works: assistance "+
				"test NAME. doc/assistance.md has more.")),
		define("assistance set", "change how another directory is used", assistanceSet, changes, machine),
		define("assistance remove", "do not use another directory any more", assistanceRemove, changes),
		define("assistance test", "show step by step what works with other directories", assistanceTest),
	}
}

func otherDirectoryOf(d *directory.OtherDirectory) OtherDirectory {
	out := OtherDirectory{Name: d.Name, On: !d.Off, Order: d.Order, URLs: d.URLs, TLS: d.TLS, CA: d.CA != "",
		Base: d.Base, BindDN: d.BindDN, Kind: d.Kind, Uses: d.Uses, Enroll: d.Enroll, Domains: d.Domains,
		People: d.People, Lookup: d.Lookup, Groups: d.Groups}
	for _, a := range attributesOf(&d.Settings) {
		if *a.to != "" {
			out.Attributes = append(out.Attributes, a.field+"="+*a.to)
		}
	}
	if d.Timeout != 0 {
		out.Timeout = d.Timeout.String()
	}
	if d.Cache != 0 {
		out.Cache = d.Cache.String()
	}
	return out
}

type attributeOf struct {
	field string
	to    *string
}

func attributesOf(s *assist.Settings) []attributeOf {
	return []attributeOf{{"short", &s.Short}, {"name", &s.Name}, {"mail", &s.Mail}, {"member", &s.Member}}
}

// mapAttributes replaces the attributes by a list of field=attribute.
func mapAttributes(s *assist.Settings, list []string) error {
	s.Short, s.Name, s.Mail, s.Member = "", "", "", ""
	for _, text := range nonEmpty(list) {
		field, value, _ := strings.Cut(text, "=")
		i := slices.IndexFunc(attributesOf(s), func(a attributeOf) bool { return a.field == field })
		if i < 0 || value == "" {
			return fmt.Errorf("%w: map %.80q is not short=, name=, mail= or member= and an attribute", ErrUsage, text)
		}
		*attributesOf(s)[i].to = value
	}
	return nil
}

// span sets a duration from text, "" is the default.
func span(to *time.Duration, text string) (err error) {
	if *to = 0; text == "" {
		return nil
	}
	if *to, err = time.ParseDuration(text); err != nil {
		return fmt.Errorf("%w: %.40q is no time such as 5s or 1m", ErrUsage, text)
	}
	return nil
}

func assistanceList(ctx context.Context, c *Call, _ *struct{}) ([]OtherDirectory, error) {
	list, err := c.Directory.Assistance.List(ctx, c.Who)
	out := make([]OtherDirectory, len(list))
	for i := range list {
		out[i] = otherDirectoryOf(&list[i])
	}
	return out, err
}

func assistanceAdd(ctx context.Context, c *Call, a *AssistanceAdd) (OtherDirectory, error) {
	set := AssistanceSet{URL: &a.URL, Base: &a.Base, BindDN: &a.BindDN, Password: &a.Password, Kind: &a.Kind,
		Use: &a.Use, Enroll: &a.Enroll, Domain: &a.Domain, TLS: &a.TLS, CA: &a.CA, People: &a.People, Lookup: &a.Lookup,
		Groups: &a.Groups, Map: &a.Map, Timeout: &a.Timeout, Cache: &a.Cache, Order: &a.Order, Off: &a.Off}
	f := directory.AssistanceFields{Name: a.Name}
	if err := set.apply(&f); err != nil {
		return OtherDirectory{}, err
	}
	d, err := c.Directory.Assistance.Add(ctx, c.Who, f)
	return otherDirectoryOf(&d), err
}

// apply sets the fields that have a new value.
func (a *AssistanceSet) apply(f *directory.AssistanceFields) error {
	assign(&f.Name, a.Rename)
	assign(&f.Base, a.Base)
	assign(&f.BindDN, a.BindDN)
	if a.BindDN != nil && *a.BindDN == "" {
		f.Password = ""
	}
	assign(&f.Password, a.Password)
	assign(&f.Kind, a.Kind)
	assign(&f.Enroll, a.Enroll)
	assign(&f.TLS, a.TLS)
	assign(&f.CA, a.CA)
	assign(&f.People, a.People)
	assign(&f.Lookup, a.Lookup)
	assign(&f.Groups, a.Groups)
	assign(&f.Order, a.Order)
	assign(&f.Off, a.Off)
	for _, x := range []struct {
		to   *[]string
		list *[]string
	}{{&f.URLs, a.URL}, {&f.Uses, a.Use}, {&f.Domains, a.Domain}} {
		if x.list != nil {
			*x.to = nonEmpty(*x.list)
		}
	}
	return a.applyParsed(&f.Settings)
}

func (a *AssistanceSet) applyParsed(s *assist.Settings) error {
	if a.Map != nil {
		if err := mapAttributes(s, *a.Map); err != nil {
			return err
		}
	}
	if a.Timeout != nil {
		if err := span(&s.Timeout, *a.Timeout); err != nil {
			return err
		}
	}
	if a.Cache != nil {
		return span(&s.Cache, *a.Cache)
	}
	return nil
}

func assistanceSet(ctx context.Context, c *Call, a *AssistanceSet) (OtherDirectory, error) {
	d, err := c.Directory.Assistance.Named(ctx, c.Who, a.Name)
	if err != nil {
		return OtherDirectory{}, err
	}
	d, err = c.Directory.Assistance.Set(ctx, c.Who, d.ID, a.apply)
	return otherDirectoryOf(&d), err
}

func assistanceRemove(ctx context.Context, c *Call, a *AssistanceNamed) (Done, error) {
	d, err := c.Directory.Assistance.Named(ctx, c.Who, a.Name)
	if err != nil {
		return Done{}, err
	}
	return Done{"removed the directory " + d.Name}, c.Directory.Assistance.Remove(ctx, c.Who, d.ID)
}

func assistanceTest(ctx context.Context, c *Call, a *AssistanceTry) (AssistanceSteps, error) {
	list, err := c.Directory.Assistance.List(ctx, c.Who)
	if err == nil && a.Name != "" {
		var d directory.OtherDirectory
		d, err = c.Directory.Assistance.Named(ctx, c.Who, a.Name)
		list = []directory.OtherDirectory{d}
	}
	if err != nil {
		return nil, err
	}
	out := AssistanceSteps{}
	for i := range list {
		steps, err := c.Directory.Assistance.Test(ctx, c.Who, &list[i], a.User)
		if err != nil {
			return nil, err
		}
		for _, s := range steps {
			row := AssistanceStep{Directory: list[i].Name, Step: s.Name, OK: s.Err == nil, Detail: s.Detail}
			if s.Err != nil {
				row.Detail, row.Error = "", s.Err.Error()
			}
			out = append(out, row)
		}
	}
	return out, nil
}

// assistanceNamed returns the id of the directory that keeps a person's password, zero for "".
func assistanceNamed(ctx context.Context, c *Call, name string) (note.UNID, error) {
	if name == "" {
		return note.UNID{}, nil
	}
	d, err := c.Directory.Assistance.Named(ctx, c.Who, name)
	return d.ID, err
}

// assistanceName returns the name of the directory that keeps a person's password.
func assistanceName(ctx context.Context, c *Call, id note.UNID) string {
	if id.IsZero() {
		return ""
	}
	list, err := c.Directory.Assistance.List(ctx, note.System)
	if err == nil {
		for i := range list {
			if list[i].ID == id {
				return list[i].Name
			}
		}
	}
	return id.String()
}
