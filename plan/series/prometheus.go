package series

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// MaxJSON bounds an answer of Prometheus in bytes.
const MaxJSON = 256 << 20

// answer is the answer of Prometheus to /api/v1/query_range.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		Type   string   `json:"resultType"`
		Result []vector `json:"result"`
	} `json:"data"`
}

type vector struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

// ReadPrometheus reads the answer of Prometheus to a range query (resultType matrix). name is the measure; if it is
// empty, the metric's own name is one. The label task names a task; server, host or instance the server.
func (s *Set) ReadPrometheus(r io.Reader, file, name string) error {
	raw, err := io.ReadAll(io.LimitReader(r, MaxJSON+1))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(raw) > MaxJSON {
		return fmt.Errorf("%s: over %d MB: ask for a shorter range", file, MaxJSON>>20)
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return jsonError(file, raw, err)
	}
	switch {
	case a.Status != "success":
		return fmt.Errorf("%s: prometheus answered %q: %s", file, clip(a.Status), clip(a.Error))
	case a.Data.Type != "matrix":
		return fmt.Errorf("%s: result is a %q: ask /api/v1/query_range, which gives a matrix", file, clip(a.Data.Type))
	case len(a.Data.Result) == 0:
		return fmt.Errorf("%s: no series: the query matched nothing in its range", file)
	}
	for i := range a.Data.Result {
		if err := s.vector(&a.Data.Result[i], file, name, i); err != nil {
			return fmt.Errorf("%s: series %d: %w", file, i+1, err)
		}
	}
	return s.finish(file)
}

func (s *Set) vector(v *vector, file, name string, number int) error {
	head := cmp.Or(name, v.Metric["__name__"])
	if head == "" {
		return errors.New("query left no name of the metric: give one, as users=FILE.json")
	}
	if task := v.Metric["task"]; task != "" {
		head += ":" + task
	}
	sp, err := parseSpec(head)
	if err != nil {
		return err
	}
	server := cmp.Or(v.Metric["server"], v.Metric["host"], v.Metric["instance"], "server")
	st, err := s.begin(file, server, []spec{sp}, []int{number + 1})
	if err != nil {
		return err
	}
	if st.rows > 0 {
		return fmt.Errorf("%s of %s is there twice: sum the series in the query", sp.name, server)
	}
	for k, pair := range v.Values {
		at, ok := pair[0].(float64)
		text, isText := pair[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if !ok || !isText || err != nil || at < 1e8 || at > 1e11 {
			return fmt.Errorf("value %d is %v: want [seconds, \"number\"]", k+1, pair)
		}
		if math.IsInf(value, 0) {
			value = math.NaN()
		}
		if err := s.row(st, file, k+1, int64(math.Round(at)), []float64{value}); err != nil {
			return err
		}
	}
	return nil
}

// jsonError adds line and column to an error of the JSON parser.
func jsonError(file string, raw []byte, err error) error {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	} else if errors.As(err, &kind) {
		offset = kind.Offset
	}
	if offset < 0 || offset > int64(len(raw)) {
		return fmt.Errorf("%s: %w", file, err)
	}
	line := bytes.Count(raw[:offset], []byte("\n")) + 1
	column := offset - int64(bytes.LastIndexByte(raw[:offset], '\n'))
	return fmt.Errorf("%s:%d:%d: not an answer of Prometheus: %w", file, line, column, err)
}
