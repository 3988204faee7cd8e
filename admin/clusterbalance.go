package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"doublet/cluster"
)

// ClusterBalance are the arguments of cluster balance.
type ClusterBalance struct {
	Apply bool `json:"apply" help:"make the moves: homes go at the next open, replicas when the new one is whole"`
}

// ClusterReplicas are the arguments of cluster replicas.
type ClusterReplicas struct {
	Database string `json:"database" arg:"required" help:"id of the database, or the name of its person"`
	Number   string `json:"number" arg:"required" help:"how many members have one; 0: as many as cluster.replicas says"`
}

const balanceHelp = "It goes by what each database is used (operations a day, older days counting less) and by its " +
	"bytes, and by the\n" +
	"capacity of each member (doublet cluster set --capacity). It suggests nothing while all members are within a " +
	"quarter of\n" +
	"what would be even. Without --apply nothing changes. Sessions that run are not moved, and no database has " +
	"fewer replicas\n" +
	"meanwhile. It makes 1,000 moves at most: run it again for more."

const removeHelp = "A member that lives leaves first: its databases go to other members, and their homes with them, " +
	"while it serves the\n" +
	"sessions that it has. The command waits for that, and may be ended and given again. Of a member that is silent " +
	"the\n" +
	"replicas are made anew elsewhere: remove it only if its machine is lost for good."

// Balance is the result of cluster balance.
type Balance cluster.Balance

// Text returns a table of the members, before and after, and the moves.
func (b Balance) Text() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SERVER\tSITE\tCAPACITY\tREPLICAS\tHOMES\tOPERATIONS A DAY\tBYTES")
	arrow := func(a, b string) string {
		if a == b {
			return a
		}
		return a + " → " + b
	}
	for _, s := range b.Servers {
		name := s.Server
		if s.Closed {
			name += " (closed)"
		}
		fmt.Fprintf(w, "%s\t%s\t%d %%\t%s\t%s\t%s\t%s\n", name, s.Site, s.Capacity,
			arrow(strconv.Itoa(s.Databases), strconv.Itoa(s.DatabasesThen)),
			arrow(strconv.Itoa(s.Homes), strconv.Itoa(s.HomesThen)),
			arrow(strconv.FormatUint(s.Activity, 10), strconv.FormatUint(s.ActivityThen, 10)),
			arrow(Size(s.Bytes).String(), Size(s.BytesThen).String()))
	}
	if len(b.Moves) > 0 {
		fmt.Fprintln(w, "\nDATABASE\tTITLE\tWHAT\tFROM\tTO\tOPERATIONS A DAY\tBYTES")
	}
	for _, m := range b.Moves {
		title := strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '?'
			}
			return r
		}, m.Title)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", m.Database, title, m.What, m.From, m.To, m.Activity,
			Size(m.Bytes))
	}
	_ = w.Flush() // in memory
	if len(b.Silent) > 0 {
		fmt.Fprintf(&out, "\n%s did not tell what is used there\n", strings.Join(b.Silent, ", "))
	}
	switch {
	case len(b.Moves) == 0:
		out.WriteString("\nit is even: nothing is to be moved\n")
	case b.Applied:
		out.WriteString("\nthe moves have begun: homes go at the next open, replicas when the new one is whole\n")
	default:
		out.WriteString("\nnothing was changed: doublet cluster balance --apply makes the moves\n")
	}
	return out.String()
}

// memberState sets a member's state to leaving or removed.
func (c *ServerCall) memberState(ctx context.Context, name string, state cluster.MemberState) (Done, error) {
	m, err := c.memberNamed(ctx, name)
	if err != nil {
		return Done{}, err
	}
	err = cluster.SetMember(ctx, c.Store, c.Who, m.ID, func(x *cluster.Member) error {
		x.State = state
		return nil
	})
	return Done{"member " + m.Name + " is " + string(state)}, err
}

// leavingPoll is the interval between checks whether a leaving member still holds databases.
const leavingPoll = 500 * time.Millisecond

// removeMember removes a member. A live member first leaves: removeMember waits until other members have everything
// that it holds.
func removeMember(ctx context.Context, c *ServerCall, a *ClusterServer) (Done, error) {
	n, err := c.node()
	if err != nil {
		return Done{}, err
	}
	m, err := c.memberNamed(ctx, a.Server)
	if err != nil {
		return Done{}, err
	}
	if m.ID == n.Self() {
		return Done{}, fmt.Errorf("%w: %s is this server: remove it from another member", ErrUsage, m.Name)
	}
	if !slices.ContainsFunc(n.Status().Members, func(v cluster.MemberView) bool {
		return v.Name != m.Name && v.State == cluster.Active && v.Alive && !v.Gateway
	}) {
		return Done{}, fmt.Errorf("%w: no other running member can take over the replicas of %s", ErrUsage, m.Name)
	}
	lives := alive(n, m.Name)
	if lives && m.State == cluster.Active {
		if _, err := c.memberState(ctx, a.Server, cluster.Leaving); err != nil {
			return Done{}, err
		}
	}
	if lives {
		if err := c.awaitLeft(ctx, n, &m); err != nil {
			return Done{}, err
		}
	}
	return c.memberState(ctx, a.Server, cluster.Removed)
}

// awaitLeft waits until other members have everything that a leaving member holds. The member may stop answering
// meanwhile.
func (c *ServerCall) awaitLeft(ctx context.Context, n *cluster.Node, m *cluster.Member) error {
	for !n.Placement.Left(m.ID) {
		left := n.Placement.Holds(m.ID)
		c.Progress(Progress{Stage: "databases left", Done: uint64(left)})
		select {
		case <-c.Env.Clock.After(leavingPoll):
		case <-ctx.Done():
			return fmt.Errorf("%s is leaving and holds %d databases yet; give the command again: %w", m.Name, left,
				context.Cause(ctx))
		}
	}
	return nil
}

// alive reports whether a member answers.
func alive(n *cluster.Node, name string) bool {
	for _, v := range n.Status().Members {
		if v.Name == name {
			return v.Alive
		}
	}
	return false
}
