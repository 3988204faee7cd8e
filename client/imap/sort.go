package imap

import wire "doublet/wire/imap"

// Sort sends SORT without RETURN, or UID SORT if uid is set. It returns the numbers in order.
func (c *Client) Sort(s *wire.Sort, uid bool) (numbers []uint32, err error) {
	_, err = c.Do(&wire.Command{Name: "SORT", UID: uid, Args: s}, func(r *wire.Response) error {
		if d, ok := r.Data.(*wire.SearchData); ok && r.Name == "SORT" {
			numbers = d.Numbers
		}
		return nil
	})
	return numbers, err
}

// Thread sends THREAD, or UID THREAD if uid is set.
func (c *Client) Thread(t *wire.Thread, uid bool) (threads []wire.ThreadNode, err error) {
	_, err = c.Do(&wire.Command{Name: "THREAD", UID: uid, Args: t}, func(r *wire.Response) error {
		if d, ok := r.Data.([]wire.ThreadNode); ok {
			threads = d
		}
		return nil
	})
	return threads, err
}

// MultiSearch sends the ESEARCH command. It returns a result for each mailbox that has one.
func (c *Client) MultiSearch(m *wire.MultiSearch) (found []*wire.ESearch, err error) {
	_, err = c.Do(&wire.Command{Name: "ESEARCH", Args: m}, func(r *wire.Response) error {
		if d, ok := r.Data.(*wire.ESearch); ok {
			found = append(found, d)
		}
		return nil
	})
	return found, err
}
