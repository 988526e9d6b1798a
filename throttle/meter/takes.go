package meter

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// takes are asks that differ only in their keys. They share one command, which answers the asks of
// a key in order.
type takes struct {
	client redis.UniversalClient
	script *redis.Script
	terms  []int64

	keys    []string
	asked   []int // number of asks of each key
	places  []place
	answers []any // the script's reply
}

// A place identifies an ask: its key, and the number of earlier asks of that key.
type place struct{ key, behind int }

// add adds an ask of the key.
func (t *takes) add(key string) {
	k := slices.Index(t.keys, key)
	if k < 0 {
		k = len(t.keys)
		t.keys, t.asked = append(t.keys, key), append(t.asked, 0)
	}
	t.places = append(t.places, place{k, t.asked[k]})
	t.asked[k]++
}

// Len implements pipeline.Batch.
func (t *takes) Len() int { return len(t.places) }

// Command implements pipeline.Batch.
func (t *takes) Command(ctx context.Context) *redis.Cmd {
	return t.script.EvalSha(ctx, t.client.Pipeline(), t.keys, t.args()...) // on a pipeline that is not sent
}

func (t *takes) args() []any {
	args := make([]any, 0, len(t.terms)+1)
	for _, n := range t.terms {
		args = append(args, n)
	}
	var times []byte // asks of each key, if any has several
	if len(t.keys) < len(t.places) {
		for _, n := range t.asked {
			times = strconv.AppendInt(append(times, ' '), int64(n), 10)
		}
	}
	return append(args, times)
}

// Read implements pipeline.Batch.
func (t *takes) Read(ctx context.Context, cmd *redis.Cmd) ([]error, error) {
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = t.script.Eval(ctx, t.client, t.keys, t.args()...)
	}
	var err error
	if t.answers, err = cmd.Slice(); err != nil {
		return nil, err
	}
	if len(t.answers) != len(words{})*len(t.places) {
		return nil, errReply
	}
	errs, behind := make([]error, len(t.places)), make([]int, len(t.keys))
	for k := range behind[1:] {
		behind[k+1] = behind[k] + t.asked[k]
	}
	for i, p := range t.places {
		t.places[i].behind += behind[p.key]
		if problem, ok := t.answer(i)[0].(string); ok {
			errs[i] = refusal(problem)
		}
	}
	return errs, nil
}

// words are one answer: units, Answer.Left in µs, and the index of the rate that denies.
type words [3]int64

// answer returns the script's answer to the i-th ask.
func (t *takes) answer(i int) []any {
	return t.answers[len(words{})*t.places[i].behind:][:len(words{})]
}

// read returns the i-th answer, and the index of the rate that denies, from 1.
func (t *takes) read(i int) (answer Answer, denies int, err error) {
	var said words
	for j, word := range t.answer(i) {
		n, ok := word.(int64)
		if !ok {
			return answer, 0, errReply
		}
		said[j] = n
	}
	return Answer{Units: int(said[0]), Left: time.Duration(said[1]) * time.Microsecond}, int(said[2]), nil
}

var errReply = errors.New("unexpected form of a Redis reply")

// A refusal is the script's error about one key, in the form of a Redis error.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

// kind returns a string that is equal for asks that can share a command.
func kind(name string, terms []int64) string {
	text := make([]byte, 0, 128)
	text = append(text, name...)
	for _, n := range terms {
		text = strconv.AppendInt(append(text, ' '), n, 10)
	}
	return string(text)
}
