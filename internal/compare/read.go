package compare

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/pushpace/pushpace/internal/base/textfile"
)

// maxLine is the longest line that is read, in bytes.
const maxLine = 64 << 10

// lastInstant is the latest one that can be told, in µs since 1970.
const lastInstant = 1 << 53

// Read reads arrivals from lines of JSON: a trace, {"t":MS,"id":ID,"op":"limit"}, or
// a ledger as simulate writes it. Of a trace each ID has a limit of its own, of a
// ledger each app's token; together, all have one. The first line that is neither is told
// by the input's name and its number.
func Read(in io.Reader, name string, together bool) (*Arrivals, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, maxLine), maxLine)
	r := reader{known: map[identity]int32{}, together: together}
	number := 0
	for lines.Scan() {
		number++
		text := bytes.TrimSpace(textfile.TrimMark(lines.Bytes()))
		if len(text) == 0 {
			continue
		}
		if err := r.line(text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes", name, number+1, maxLine)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.Len() == 0 {
		return nil, fmt.Errorf("%s: nothing arrives", name)
	}
	r.sort()
	return &r.Arrivals, nil
}

// An identity stands for an ID however long it is.
type identity [16]byte

type reader struct {
	Arrivals
	known    map[identity]int32
	together bool
	name     []byte
}

// line adds what a line says.
func (r *reader) line(text []byte) error {
	var l struct {
		T  *float64 `json:"t"`
		ID *string  `json:"id"`
		Op *string  `json:"op"`

		At    *time.Time `json:"at"`
		App   *string    `json:"app"`
		Token *string    `json:"token"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) && wrong.Field != "" {
			return fmt.Errorf("%q is of the wrong type", wrong.Field)
		}
		return fmt.Errorf("not an object of JSON: %w", err)
	}
	op := "limit"
	switch {
	case l.T != nil && l.ID != nil && l.At == nil:
		r.name = append(r.name[:0], *l.ID...)
		if l.Op != nil {
			op = *l.Op
		}
	case l.At != nil && l.Token != nil && l.App != nil && l.T == nil:
		r.name = append(append(append(r.name[:0], *l.App...), 0), *l.Token...)
		t := float64(l.At.UnixMicro()) / 1000
		l.T = &t
	default:
		return errors.New(`want "t" and "id" as a trace has them, or "at", "app" and "token" as a ledger does`)
	}
	at := math.Round(*l.T * 1000)
	if at < 0 || at > lastInstant {
		return errors.New("the instant is before 1970, or too late")
	}
	sum := sha256.Sum256(r.name)
	who := identity(sum[:])
	switch op {
	case "limit":
		return r.add(int64(at), who)
	case "would": // which only looks
	case "clear":
		delete(r.known, who) // whoever comes next by that name has no history
	default:
		return errors.New(`"op" is none of limit, would and clear`)
	}
	return nil
}

func (r *reader) add(at int64, who identity) error {
	if len(r.at) == MaxArrivals {
		return errTooMany
	}
	if r.together {
		who = identity{}
	}
	key, ok := r.known[who]
	if !ok {
		key = int32(r.keys)
		r.known[who] = key
		r.keys++
	}
	r.at, r.key = append(r.at, at), append(r.key, key)
	return nil
}
