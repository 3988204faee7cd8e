package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	netsmtp "net/smtp"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"doublet/test/program"
)

// secretWord is in every message that the test delivers.
const secretWord = "Quetzalcoatlus"

// encryptedServer is a demo whose store is encrypted.
type encryptedServer struct {
	*program.Server
	keyFile string
}

// deliver delivers a message with the secret word in its subject, its text and its attachment, which is large enough to
// become an object.
func (s *encryptedServer) deliver(subject string) error {
	text := "From: stranger@example.net\r\nTo: alice@example.com\r\nSubject: " + secretWord + " " + subject +
		"\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n" +
		"The nest of " + secretWord + " is at the lake.\r\n--b\r\nContent-Type: text/csv; name=a.csv\r\n" +
		"Content-Disposition: attachment; filename=a.csv\r\n\r\n" +
		strings.Repeat(secretWord+","+subject+"\r\n", 4000) + "--b--\r\n"
	c, err := netsmtp.Dial("127.0.0.1:" + s.Port["smtp"])
	if err != nil {
		return err
	}
	defer c.Close()
	if err := errors.Join(c.Mail("stranger@example.net"), c.Rcpt("alice@example.com")); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return errors.Join(err, w.Close())
}

// subjects returns the number of messages whose subject has a word, by the full-text index or a scan.
func (s *encryptedServer) subjects(word string) int {
	s.T.Helper()
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.Port["imap"], 10*time.Second)
	if err != nil {
		s.T.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, "a LOGIN alice demo\r\nb EXAMINE INBOX\r\nc SEARCH SUBJECT "+word+
		"\r\ne LOGOUT\r\n"); err != nil {
		s.T.Fatal(err)
	}
	out, err := io.ReadAll(c)
	if err != nil {
		s.T.Fatal(err)
	}
	program.Want(s.T, string(out), "\nc OK")
	for line := range strings.Lines(string(out)) {
		if found, ok := strings.CutPrefix(line, "* SEARCH"); ok {
			return len(strings.Fields(found))
		}
	}
	return 0
}

// readable returns the files of the data folder that have the secret word.
func (s *encryptedServer) readable() (names []string) {
	s.T.Helper()
	files := 0
	err := filepath.WalkDir(s.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(bytes.ToLower(b), []byte(strings.ToLower(secretWord))) {
			names = append(names, path)
		}
		files++
		return err
	})
	if err != nil || files < 10 {
		s.T.Fatal(files, err)
	}
	return names
}

// keys returns the number of files that each key decrypts, by its state.
func (s *encryptedServer) keys() map[string]int {
	s.T.Helper()
	var status struct {
		Keys []struct {
			State string
			Files int
		}
	}
	if err := json.Unmarshal([]byte(s.Doublet("encryption", "--json")), &status); err != nil {
		s.T.Fatal(err)
	}
	files := map[string]int{}
	for _, k := range status.Keys {
		state, _, _ := strings.Cut(k.State, ":")
		files[state] += k.Files
	}
	return files
}

// refused starts the program and expects that it refuses the store with these words, and changes nothing of the store.
func (s *encryptedServer) refused(want ...string) {
	s.T.Helper()
	before := s.store()
	out, err := s.Try("user", "list")
	if err == nil {
		s.T.Errorf("the store opened:\n%s", out)
	}
	program.Want(s.T, out, want...)
	if after := s.store(); after != before {
		s.T.Errorf("the store changed from\n%s\nto\n%s", before, after)
	}
}

// store lists the files of the store with their sizes.
func (s *encryptedServer) store() string {
	var out strings.Builder
	_ = filepath.WalkDir(filepath.Join(s.Data, "notes"), func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			info, _ := d.Info()
			fmt.Fprintln(&out, path, info.Size(), info.ModTime())
		}
		return err
	})
	return out.String()
}

// TestEncryptionAtRest switches encryption on for a store that has plain mail, rotates the key while mail arrives,
// kills the server, removes the old key, and looks for the mail in every file.
func TestEncryptionAtRest(t *testing.T) {
	s := &encryptedServer{program.Demo(t), filepath.Join(t.TempDir(), "key")}
	if err := s.deliver("before"); err != nil {
		t.Fatal(err)
	}
	s.Stop(syscall.SIGTERM)
	if len(s.readable()) == 0 {
		t.Fatal("without encryption no file has the mail: the test looks for the wrong word")
	}
	program.Want(t, s.Doublet("encryption", "key", s.keyFile), "encryption_key_file", s.keyFile)
	if out, err := s.Try("encryption", "key", s.keyFile); err == nil {
		t.Errorf("the key file was overwritten: %s", out)
	}

	t.Setenv("DOUBLET_DATA_ENCRYPTION_KEY_FILE", s.keyFile)
	s.Start()
	if err := s.deliver("after"); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if names := s.readable(); len(names) > 0 {
		t.Errorf("the mail can be read in %q", names)
	}
	if n := s.subjects(secretWord); n != 2 {
		t.Errorf("%d messages of 2", n)
	}
	first := read(t, s.keyFile)

	// New keys, rewriting and a kill, while mail arrives.
	var wg sync.WaitGroup
	acknowledged := 0
	stop := make(chan struct{})
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if s.deliver("meanwhile") != nil {
				return // the server was killed
			}
			acknowledged++
		}
	}()
	for range 3 {
		program.Want(t, s.Doublet("encryption", "rotate"), "new files are encrypted with key")
		s.rewrite()
	}
	s.Stop(syscall.SIGKILL)
	close(stop)
	wg.Wait()
	if acknowledged == 0 {
		t.Fatal("no mail arrived meanwhile")
	}
	s.Start()
	if n := s.subjects("meanwhile"); n < acknowledged {
		t.Errorf("%d messages of %d that were acknowledged", n, acknowledged)
	}
	s.settle()
	program.Want(t, s.Doublet("check", "--deep"), "clean")
	s.Stop(syscall.SIGTERM)
	if names := s.readable(); len(names) > 0 {
		t.Errorf("the mail can be read in %q", names)
	}

	// The newest key suffices; the first one does not, nor does none.
	all := read(t, s.keyFile)
	comment, rest, _ := strings.Cut(all, "key ")
	newest := comment + "key " + rest[:64] + "\n"
	write(t, s.keyFile, newest)
	program.Want(t, s.Doublet("dump", "database", "alice"), "name=INBOX")
	write(t, s.keyFile, first)
	s.refused("missing encryption key", "needs it")
	write(t, s.keyFile, "key abc\n")
	s.refused("64 hexadecimal digits")
	t.Setenv("DOUBLET_DATA_ENCRYPTION_KEY_FILE", "")
	s.refused("missing encryption key", "data.encryption_key_file")

	// Decryption.
	t.Setenv("DOUBLET_DATA_ENCRYPTION_KEY_FILE", s.keyFile)
	write(t, s.keyFile, "plain\n"+newest)
	s.Doublet("encryption", "rewrite")
	s.Doublet("encryption", "rewrite") // the manifest was being written in the first pass
	t.Setenv("DOUBLET_DATA_ENCRYPTION_KEY_FILE", "")
	s.Start()
	if n := s.subjects(secretWord); n < acknowledged+2 {
		t.Errorf("%d messages of %d after decryption", n, acknowledged+2)
	}
}

// rewrite encrypts all files anew. The task Encryption may do that already.
func (s *encryptedServer) rewrite() {
	s.T.Helper()
	out, err := s.Try("encryption", "rewrite")
	if err != nil && !strings.Contains(out, "already") {
		s.T.Fatal(out)
	}
}

// settle encrypts files anew until all have the present key.
func (s *encryptedServer) settle() {
	s.T.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		s.rewrite()
		k := s.keys()
		if k["needed"] == 0 && k["not encrypted yet"] == 0 {
			if k["for new files"] < 5 {
				s.T.Fatalf("%v", k)
			}
			return
		}
		if time.Now().After(deadline) {
			s.T.Fatalf("files are left: %v", k)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
