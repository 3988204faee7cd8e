package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A step is one blob: a line with the checksum of the rest, a line of JSON, and content.
const magic = "doublet-archive 1 "

const (
	// part is the number of bytes of the log, or of a segment, that one step carries. A batch is not divided.
	part = 4 << 20
	// maxStep bounds a step that is read, and maxContent its content unpacked, in bytes.
	maxStep    = 256 << 20
	maxContent = 512 << 20
)

// step is a part of the log or of a segment.
type step struct {
	Timeline string `json:"timeline"`
	Number   uint64 `json:"step"`
	// Through is a time in nanoseconds since 1970: this step and those before it contain every change that was
	// acknowledged before it.
	Through int64 `json:"through"`
	// Segment is set if the content is a part of an object segment, from From on. Key identifies the segment: numbers
	// may come again. Otherwise the content is a part of the log.
	Segment uint64 `json:"segment,omitempty"`
	Key     string `json:"key,omitempty"`
	From    int64  `json:"from,omitempty"`

	batches [][]byte
	content []byte
}

// codec packs parts of the log. Segments are packed already.
var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxContent))
)

// encode returns the step as a blob.
func (s *step) encode() ([]byte, error) {
	head, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	body := append(head, '\n')
	if s.Segment != 0 {
		body = append(body, s.content...)
	} else {
		var log []byte
		for _, b := range s.batches {
			log = append(binary.AppendUvarint(log, uint64(len(b))), b...)
		}
		body = packer.EncodeAll(log, body)
	}
	sum := sha256.Sum256(body)
	return append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...), nil
}

// decode reads a step. ErrDamaged means that it differs from what was written.
func decode(b []byte) (*step, error) {
	head, body, _ := bytes.Cut(b, []byte("\n"))
	sum, ok := strings.CutPrefix(string(head), magic)
	if !ok {
		return nil, fmt.Errorf("%w: not a step that this program reads", ErrDamaged)
	}
	if have := sha256.Sum256(body); sum != hex.EncodeToString(have[:]) {
		return nil, fmt.Errorf("%w: it does not match its checksum", ErrDamaged)
	}
	text, content, _ := bytes.Cut(body, []byte("\n"))
	s := &step{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if s.From < 0 || s.Segment == 0 && (s.From != 0 || s.Key != "") {
		return nil, fmt.Errorf("%w: bad offset in a segment", ErrDamaged)
	}
	if s.Segment != 0 {
		s.content = content
		return s, nil
	}
	log, err := unpacker.DecodeAll(content, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for len(log) > 0 {
		n, k := binary.Uvarint(log)
		if k <= 0 || n > uint64(len(log)-k) {
			return nil, fmt.Errorf("%w: batch ends outside of the step", ErrDamaged)
		}
		end := k + int(n)
		s.batches, log = append(s.batches, log[k:end:end]), log[end:]
	}
	return s, nil
}

// Names of blobs: archive/<timeline>/<step>-<through>, and archive/<timeline>/through with the time up to which nothing
// came after the last step.
const (
	folder      = "archive"
	throughName = "through"
)

func stepName(timeline string, number uint64, through int64) string {
	return fmt.Sprintf("%s/%s/%012d-%020d", folder, timeline, number, through)
}

// parseStepName reads the last part of the name of a step.
func parseStepName(base string) (number uint64, through int64, ok bool) {
	n, err := fmt.Sscanf(base, "%d-%d", &number, &through)
	return number, through, err == nil && n == 2 && number > 0 && through >= 0 &&
		base == fmt.Sprintf("%012d-%020d", number, through)
}

// idle is the content of a blob named through.
type idle struct {
	Step    uint64 `json:"step"`
	Through int64  `json:"through"`
}

func nanos(t time.Time) int64 { return t.UnixNano() }
