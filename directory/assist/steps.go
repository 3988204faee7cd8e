package assist

import (
	"context"
	"fmt"
	"strings"
	"time"

	"doublet/client/ldap"
)

// Step is one step of Test.
type Step struct {
	Name   string
	Detail string
	Err    error
}

// sample is the number of people that Test asks for.
const sample = 100

// Test checks step by step what works: for each server connect with TLS, bind and base; then people and a sample of
// them, and the entry with a name if it is not "". It returns the steps up to the first that fails.
func (c *Client) Test(ctx context.Context, name string) (steps []Step) {
	add := func(what, detail string, err error) bool {
		steps = append(steps, Step{what, detail, err})
		return err == nil
	}
	var last *conn
	for i := range c.urls {
		u := &c.urls[i]
		began := c.env.Clock.Now()
		k, err := c.dialOne(ctx, u)
		if !add("connect "+u.Address, c.security(u), err) {
			continue
		}
		err = c.authorize(ctx, k)
		add("bind", c.bindDetail(), err)
		if err == nil {
			err = c.base(ctx, k)
			add("base", fmt.Sprintf("%s, after %s", c.set.Base, c.env.Clock.Now().Sub(began).Round(time.Millisecond)),
				err)
		}
		if err != nil || last != nil {
			_ = k.Close()
			continue
		}
		last = k
	}
	if last == nil {
		return steps
	}
	defer last.Close()
	c.testPeople(ctx, last, name, add)
	return steps
}

func (c *Client) security(u *ldap.URL) string {
	switch {
	case u.TLS:
		return "TLS"
	case c.set.startTLS(u):
		return "StartTLS"
	}
	return "no TLS"
}

func (c *Client) bindDetail() string {
	if c.set.BindDN == "" {
		return "anonymous"
	}
	return c.set.BindDN
}

func (c *Client) testPeople(ctx context.Context, k *conn, name string, add func(string, string, error) bool) {
	// A presence filter is made of the search for a name, so that its classes are tested too.
	filter := strings.ReplaceAll(c.set.People, "%s", "*")
	list, more, err := c.find(ctx, k, filter, sample)
	count := fmt.Sprint(len(list))
	if more {
		count = "more than " + count
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("assist: filter %s matches nobody", filter)
	}
	detail := count + " match " + filter
	if at := k.References(); at != "" {
		detail += "; the base goes on at " + at + ", which is not asked: add it as a directory if it has people"
	}
	if !add("people", detail, err) {
		return
	}
	p := c.personOf(&list[0])
	add("sample", p.text(), p.check(&c.set))
	if name == "" {
		return
	}
	p, err = c.person(ctx, k, name)
	if add("person "+name, p.text(), err) && p.Mail != "" && !c.set.Trusts(p.Mail) {
		add("domain", p.Mail, fmt.Errorf("assist: the directory may not answer for %s", p.Mail))
	}
}

func (p *Person) text() string {
	return fmt.Sprintf("%s: short name %q, name %q, address %q", p.DN, p.Short, p.Name, p.Mail)
}

func (p *Person) check(s *Settings) error {
	if p.Short == "" && p.Mail == "" {
		return fmt.Errorf("assist: the entry has neither %s nor %s", s.Short, s.Mail)
	}
	return nil
}
